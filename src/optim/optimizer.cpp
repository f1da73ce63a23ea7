// What all optimizers share: groups, state, the step and its checkpoint.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "pippin/ops.h"
#include "pippin/optim.h"
#include "profile/sites.h"

namespace pippin::optim {
namespace {

// A state that is bytes and not a graph node, which would make the first step a plan of its own.
Tensor stored_state(const Tensor& like, double value = 0) {
    const auto count = static_cast<std::size_t>(like.numel());
    const Options o{like.dtype(), like.device()};
    if (value != 0 && like.dtype() == float64)
        return tensor(std::vector<double>(count, value), like.shape(), o);
    if (value != 0)
        return tensor(std::vector<float>(count, static_cast<float>(value)), like.shape(), o);
    const std::vector<unsigned char> bytes(count * size_of(like.dtype()));
    return from_bytes(bytes.data(), like.shape(), like.dtype(), like.device());
}

void take_default(double& value, double fallback) {
    if (std::isnan(value)) value = fallback;
}

// The run-time scalars of one update count, for parameters of one device and width.
struct ScalarSet {
    std::int64_t step;
    Device device;
    DType dtype;
    std::vector<Tensor> tensors;
};

}  // namespace

Optimizer::Optimizer(std::vector<ParamGroup> groups, const ParamGroup& defaults)
    : groups_(std::move(groups)) {
    if (groups_.empty()) throw ValueError("optimizer: got an empty list of parameters");
    std::unordered_set<const Variable*> seen;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        ParamGroup& group = groups_[g];
        if (group.params.empty())
            throw ValueError(fmt::format("optimizer: parameter group {} has no parameters", g));
        take_default(group.lr, defaults.lr);
        take_default(group.weight_decay, defaults.weight_decay);
        take_default(group.momentum, defaults.momentum);
        check_hyperparameters(group);
        for (std::size_t i = 0; i < group.params.size(); ++i) {
            const Tensor& p = group.params[i];
            const auto fail = [&](const char* what) {
                throw ValueError(fmt::format("optimizer: parameter {} of group {} {}", i, g, what));
            };
            if (!p.defined()) fail("is undefined");
            if (!is_floating(p.dtype())) fail("is not of a floating-point dtype");
            if (!p.is_leaf()) fail("was computed by an op; only leaves can be optimized");
            if (!seen.insert(p.variable().get()).second) fail("was given already");
        }
        state_.emplace_back(group.params.size());
    }
    flush();
}

void Optimizer::check_hyperparameters(const ParamGroup& group) const {
    const auto check = [](const char* name, double value) {
        if (!(value >= 0) || std::isinf(value))
            throw ValueError(
                fmt::format("optimizer: {} must be a number >= 0, got {}", name, value));
    };
    check("the learning rate", group.lr);
    check("weight_decay", group.weight_decay);
    check("momentum (beta1)", group.momentum);
}

void Optimizer::step() {
    const auto gate = gate_.lock();
    skipped_ = gate && !gate->may_step(*this);
    if (skipped_) return;
    const recording::Range range("optimizer.step");
    const recording::MadeAt at(recording::on() ? recording::site("optimizer.step") : nullptr);
    const NoGrad no_grad;
    ++steps_;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        ParamGroup& group = groups_[g];
        const std::size_t slots = state_names(group).size();
        std::vector<ScalarSet>
            sets;  // one, unless parameters differ in device, width or update count
        const auto scalars_for = [&](std::int64_t step,
                                     const Tensor& p) -> const std::vector<Tensor>& {
            const DType dtype = p.dtype() == float64 ? float64 : float32;
            for (const ScalarSet& s : sets)
                if (s.step == step && s.device == p.device() && s.dtype == dtype) return s.tensors;
            ScalarSet& s = sets.emplace_back(ScalarSet{step, p.device(), dtype, {}});
            for (const double v : scalars(group, step))
                s.tensors.push_back(runtime_scalar(v, {dtype, p.device()}));
            return s.tensors;
        };
        for (std::size_t i = 0; i < group.params.size(); ++i) {
            Tensor& param = group.params[i];
            const Tensor grad = param.grad();
            if (!grad.defined()) continue;
            ParamState& state = state_[g][i];
            while (state.slots.size() < slots)
                state.slots.push_back(stored_state(param, initial_state()));
            update(param, grad, state.slots, group, scalars_for(++state.steps, param));
        }
    }
    flush();
}

void Optimizer::zero_grad() {
    if (const auto gate = gate_.lock(); gate && !gate->may_zero_grad(*this)) return;
    for (ParamGroup& group : groups_)
        for (Tensor& p : group.params)
            p.zero_grad();
}

Optimizer::Named Optimizer::state_dict() const {
    Named out;
    std::vector<std::int64_t> counts{steps_};
    std::size_t index = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const ParamGroup& group = groups_[g];
        const std::vector<std::string> names = state_names(group);
        for (const ParamState& state : state_[g]) {
            counts.push_back(state.steps);
            for (std::size_t s = 0; s < state.slots.size() && s < names.size(); ++s)
                out.emplace_back(fmt::format("{}.{}", names[s], index), state.slots[s]);
            ++index;
        }
        const std::vector<double> settings{group.lr, group.weight_decay, group.momentum,
                                           group.initial_lr};
        out.emplace_back(fmt::format("group.{}", g), tensor(settings, Device(Device::Type::CPU)));
    }
    out.emplace_back("steps", tensor(counts, Device(Device::Type::CPU)));
    return out;
}

void Optimizer::load_state_dict(const Named& state) {
    std::unordered_map<std::string, Tensor> given;
    std::vector<std::string> faults;
    for (const auto& [name, t] : state) {
        if (!t.defined())
            faults.push_back(fmt::format("\"{}\" is undefined", name));
        else if (!given.emplace(name, t).second)
            faults.push_back(fmt::format("\"{}\" is there more than once", name));
    }
    // Takes an entry out of `given`, so that what is left at the end is unexpected.
    const auto take = [&](const std::string& name, const Shape& shape) -> Tensor {
        const auto found = given.find(name);
        if (found == given.end()) {
            faults.push_back(fmt::format("\"{}\" is missing", name));
            return {};
        }
        const Tensor t = found->second;
        given.erase(found);
        if (t.shape() == shape) return t;
        faults.push_back(
            fmt::format("\"{}\" has shape {}, expected {}", name, t.shape().str(), shape.str()));
        return {};
    };

    std::size_t total = 0;
    for (const ParamGroup& group : groups_)
        total += group.params.size();
    std::vector<std::int64_t> counts(total + 1, 0);
    if (const Tensor t = take("steps", {static_cast<std::int64_t>(counts.size())}); t.defined())
        counts = t.to_vector<std::int64_t>();

    std::vector<ParamGroup> groups = groups_;
    std::vector<std::vector<ParamState>> states;
    std::size_t index = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        ParamGroup& group = groups[g];
        if (const Tensor t = take(fmt::format("group.{}", g), {4}); t.defined()) {
            const std::vector<double> v = t.to_vector<double>();
            group.lr = v[0], group.weight_decay = v[1], group.momentum = v[2],
            group.initial_lr = v[3];
        }
        const std::vector<std::string> names = state_names(group);
        std::vector<ParamState>& of_group = states.emplace_back(group.params.size());
        for (std::size_t i = 0; i < group.params.size(); ++i, ++index) {
            of_group[i].steps = counts[index + 1];
            if (of_group[i].steps == 0) continue;  // it never had a gradient, so it has no moments
            for (const std::string& name : names)
                of_group[i].slots.push_back(
                    take(fmt::format("{}.{}", name, index), group.params[i].shape()));
        }
    }
    for (const auto& entry : given)
        faults.push_back(fmt::format("\"{}\" is unexpected", entry.first));
    if (!faults.empty()) {
        std::string message =
            "optimizer.load_state_dict: the state does not fit; nothing was loaded";
        for (const std::string& fault : faults)
            message += "\n    " + fault;
        throw ValueError(message);
    }

    const NoGrad no_grad;
    for (std::size_t g = 0; g < groups.size(); ++g)
        for (std::size_t i = 0; i < groups[g].params.size(); ++i)
            for (Tensor& slot : states[g][i].slots) {
                Tensor own = stored_state(
                    groups[g].params[i]);  // a variable of its own, of the parameter's dtype
                own.assign_(slot);
                slot = own;
            }
    groups_ = std::move(groups);
    state_ = std::move(states);
    steps_ = counts[0];
}

}  // namespace pippin::optim
