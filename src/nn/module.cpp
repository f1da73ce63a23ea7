// The tree of modules: names, registration, walking, modes and moving.
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <unordered_set>

#include "pippin/nn.h"
#include "profile/sites.h"
#include "tensor/flush.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin::nn {

/// What a walk over the tree gathers; null lists are left out.
struct Module::Walk {
    Named* parameters = nullptr;
    Named* buffers = nullptr;
    std::unordered_set<const Variable*>* seen = nullptr;  ///< lists each variable once

    struct Recorded;
};

/// A call of a module while somebody records: a range, and where the nodes that it makes come from,
/// "layer1.0.conv1 at train.cpp:40".
struct Module::Walk::Recorded {
    Recorded(const Module& m, const Site& site)
        : range_(recording::named(recording::Category::Module, m.type_name())),
          parent_(running),
          path_before_(path),
          at_(recording::site(text_of(m, site))) {
        running = &m;
    }
    ~Recorded() {
        running = parent_;
        path = path_before_;
    }

  private:
    static std::string text_of(const Module& m, const Site& site) {
        if (!running) {
            line = fmt::format("{}:{}", std::filesystem::path(site.file_name()).filename().string(),
                               site.line());
            path.clear();
            return line;
        }
        for (const auto& [name, child] : running->children_)
            if (child.get() == &m) {
                path += (path.empty() ? "" : ".") + name;
                return path + " at " + line;
            }
        path += (path.empty() ? "" : ".") + m.type_name();  // made on the spot
        return path + " at " + line;
    }
    static inline thread_local const Module* running = nullptr;
    static inline thread_local std::string path, line;

    recording::Range range_;
    const Module* parent_;
    std::string path_before_;
    recording::MadeAt at_;
};

Tensor Module::forward(const Tensor&) {
    throw ValueError(fmt::format("{}: has no forward of one input; see its header for those it has",
                                 type_name()));
}

Tensor Module::operator()(const Tensor& x, Site site) {
    const SiteScope scope(site);
    std::optional<Walk::Recorded> recorded;
    if (recording::on()) recorded.emplace(*this, site);
    return at_site(site, [&] { return forward(x); });
}

void Module::check_name(const std::string& name) const {
    if (name.empty() || name.find('.') != std::string::npos)
        throw ValueError(
            fmt::format("{}: \"{}\" cannot name a parameter, buffer or module: a name is not empty "
                        "and has no dot",
                        type_name(), name));
    const auto taken = [&](const auto& list) {
        for (const auto& item : list)
            if (item.first == name)
                throw ValueError(
                    fmt::format("{}: the name \"{}\" is taken already", type_name(), name));
    };
    taken(parameters_);
    taken(buffers_);
    taken(children_);
}

Tensor Module::register_parameter(std::string name, Tensor value) {
    check_name(name);
    if (!value.defined())
        throw ValueError(fmt::format("{}: parameter \"{}\" is undefined", type_name(), name));
    value.requires_grad_();
    parameters_.emplace_back(std::move(name), value);
    return value;
}

Tensor Module::register_buffer(std::string name, Tensor value) {
    check_name(name);
    if (!value.defined())
        throw ValueError(fmt::format("{}: buffer \"{}\" is undefined", type_name(), name));
    buffers_.emplace_back(std::move(name), value);
    return value;
}

void Module::add_child(std::string name, std::shared_ptr<Module> m) {
    check_name(name);
    if (!m) throw ValueError(fmt::format("{}: module \"{}\" is null", type_name(), name));
    if (m.get() == this)
        throw ValueError(fmt::format("{}: a module cannot hold itself", type_name()));
    children_.emplace_back(std::move(name), std::move(m));
}

void Module::collect(const std::string& prefix, Walk& walk) const {
    const auto add = [&](const Named& from, Named* to) {
        if (!to) return;
        for (const auto& [name, tensor] : from)
            if (!walk.seen || walk.seen->insert(tensor.variable().get()).second)
                to->emplace_back(prefix + name, tensor);
    };
    add(parameters_, walk.parameters);
    add(buffers_, walk.buffers);
    for (const auto& [name, child] : children_)
        child->collect(prefix + name + ".", walk);
}

Module::Named Module::named_parameters() const {
    Named out;
    std::unordered_set<const Variable*> seen;
    Walk walk{&out, nullptr, &seen};
    collect("", walk);
    return out;
}

Module::Named Module::named_buffers() const {
    Named out;
    std::unordered_set<const Variable*> seen;
    Walk walk{nullptr, &out, &seen};
    collect("", walk);
    return out;
}

Module::Named Module::state_dict() const {
    Named out;  // one list for both, so that each module's buffers follow its parameters
    Walk walk{&out, &out, nullptr};
    collect("", walk);
    return out;
}

std::vector<Tensor> Module::parameters() const {
    std::vector<Tensor> out;
    for (auto& [name, tensor] : named_parameters())
        out.push_back(tensor);
    return out;
}

std::int64_t Module::num_parameters() const {
    std::int64_t n = 0;
    for (const Tensor& p : parameters())
        n += p.numel();
    return n;
}

void Module::modules_below(const std::string& prefix,
                           std::vector<std::pair<std::string, Module*>>& out) {
    out.emplace_back(prefix, this);
    for (auto& [name, child] : children_)
        child->modules_below(prefix.empty() ? name : prefix + "." + name, out);
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
    std::vector<std::pair<std::string, Module*>> out;
    modules_below("", out);
    return out;
}

Module& Module::train(bool on) {
    training_ = on;
    for (auto& child : children_)
        child.second->train(on);
    return *this;
}

Module& Module::requires_grad_(bool value) {
    for (Tensor& p : parameters())
        p.requires_grad_(value);
    return *this;
}

// Rebinds the variables, so that a layer's members and an optimizer's handles follow.
static void convert_all(const Module::Named& tensors,
                        const std::function<Tensor(const Tensor&)>& convert) {
    const NoGrad no_grad;
    for (const auto& entry : tensors) {
        const Tensor converted = convert(entry.second);
        bind_leaf(*entry.second.variable(), node_of(converted));
    }
}

Module& Module::to(Device device) {
    convert_all(state_dict(), [&](const Tensor& t) { return t.to(device); });
    return *this;
}

Module& Module::to(DType dtype) {
    if (!is_floating(dtype))
        throw TypeError(fmt::format("Module.to: {} is not a floating-point dtype", name_of(dtype)));
    convert_all(state_dict(),
                [&](const Tensor& t) { return is_floating(t.dtype()) ? t.to(dtype) : t; });
    return *this;
}

void Module::zero_grad() {
    for (Tensor& p : parameters())
        p.zero_grad();
}

std::string Module::str() const {
    const std::string extra = extra_repr();
    if (children_.empty()) return fmt::format("{}({})", type_name(), extra);
    std::string out = type_name() + "(\n";
    if (!extra.empty()) out += "  " + extra + "\n";
    for (const auto& [name, child] : children_) {
        out += fmt::format("  ({}): ", name);
        for (const char c : child->str()) {
            out += c;
            if (c == '\n') out += "  ";
        }
        out += "\n";
    }
    return out + ")";
}

std::ostream& operator<<(std::ostream& out, const Module& m) { return out << m.str(); }

}  // namespace pippin::nn
