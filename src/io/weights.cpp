#include "pippin/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace pippin {
namespace {

std::string listed(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& n : names)
        out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", n);
    return out;
}

// Checkpoints from before PyTorch 0.4.1 lack it, and it changes no result here.
bool may_be_missing(std::string_view name) { return name.ends_with("num_batches_tracked"); }

bool begins_with_any(std::string_view name, const std::vector<std::string>& prefixes) {
    return std::ranges::any_of(prefixes, [&](const std::string& p) { return name.starts_with(p); });
}

// The longest `p` such that p + a name of `wanted` is in `given`, most often; empty without one.
std::string prefix_in_the_way(const std::vector<std::string>& wanted,
                              const std::vector<std::string>& given) {
    std::unordered_set<std::string_view> ends(wanted.begin(), wanted.end());
    std::unordered_map<std::string_view, std::size_t> count;
    for (const std::string& name : given)
        for (std::size_t dot = name.find('.'); dot != std::string::npos;
             dot = name.find('.', dot + 1))
            if (ends.contains(std::string_view(name).substr(dot + 1)))
                ++count[std::string_view(name).substr(0, dot + 1)];
    const auto most = std::ranges::max_element(
        count, {}, [](const auto& c) { return std::pair(c.second, c.first.size()); });
    return most == count.end() ? "" : std::string(most->first);
}

std::string hint(const std::vector<std::string>& missing,
                 const std::vector<std::string>& unexpected) {
    if (const auto p = prefix_in_the_way(missing, unexpected); !p.empty())
        return fmt::format(
            "\n    the file's names begin with \"{}\": .strip_prefix = \"{}\" takes it off, "
            ".key = \"{}\" also leaves out all others",
            p, p, p.substr(0, p.size() - 1));
    if (const auto p = prefix_in_the_way(unexpected, missing); !p.empty())
        return fmt::format(
            "\n    the model's names begin with \"{}\", the file's do not: load into that part of "
            "the model",
            p);
    return "";
}

}  // namespace

std::string LoadReport::str() const {
    std::string out =
        fmt::format("loaded {} tensor{}", loaded.size(), loaded.size() == 1 ? "" : "s");
    const auto add = [&](const char* what, const std::vector<std::string>& names) {
        if (!names.empty()) out += fmt::format("; {}: {}", what, fmt::join(names, ", "));
    };
    add("missing", missing);
    add("unexpected", unexpected);
    add("skipped for their shape", mismatched);
    add("ignored", ignored);
    return out;
}

LoadReport load_weights(nn::Module& model, const io::NamedTensors& tensors,
                        const LoadOptions& options, const std::string& source) {
    const io::NamedTensors selected =
        options.key.empty() ? tensors : io::select(tensors, options.key);
    std::unordered_map<std::string, Tensor> given;
    std::vector<std::string> order, faults;
    for (const auto& [file_name, tensor] : selected) {
        std::string name = file_name;
        if (name.starts_with(options.strip_prefix)) name.erase(0, options.strip_prefix.size());
        if (!given.emplace(name, tensor).second)
            faults.push_back(fmt::format("\"{}\" is there more than once", name));
        else
            order.push_back(std::move(name));
    }

    LoadReport report;
    nn::Module::Named fitting;
    std::unordered_set<std::string_view> known;
    const nn::Module::Named own = model.state_dict();
    for (const auto& [name, tensor] : own) {
        known.insert(name);
        const auto found = given.find(name);
        if (begins_with_any(name, options.ignore)) {
            report.ignored.push_back(name);
        } else if (found == given.end()) {
            if (!may_be_missing(name)) report.missing.push_back(name);
        } else if (found->second.shape() == tensor.shape()) {
            report.loaded.push_back(name);
            fitting.emplace_back(name, found->second);
        } else if (options.skip_mismatched) {
            report.mismatched.push_back(name);
        } else {
            faults.push_back(
                fmt::format("size mismatch for {}: shape {} in the file, {} in the "
                            "model",
                            name, found->second.shape().str(), tensor.shape().str()));
        }
    }
    for (const std::string& name : order)
        if (!known.contains(name) && !begins_with_any(name, options.ignore))
            report.unexpected.push_back(name);

    std::vector<std::string> lines;
    if (options.strict && !report.missing.empty())
        lines.push_back("missing: " + listed(report.missing));
    if (options.strict && !report.unexpected.empty())
        lines.push_back("unexpected: " + listed(report.unexpected));
    lines.insert(lines.end(), faults.begin(), faults.end());
    if (lines.empty() && report.loaded.empty() && !own.empty())
        lines.push_back(fmt::format("not one of the file's {} names is one of the model's {}: {}",
                                    order.size(), own.size(), listed(order)));
    if (!lines.empty()) {
        std::string message = fmt::format("{}{}the weights do not fit {}; nothing was loaded",
                                          source, source.empty() ? "" : ": ", model.type_name());
        for (const std::string& line : lines)
            message += "\n    " + line;
        throw ValueError(message + hint(report.missing, report.unexpected));
    }
    model.load_state_dict(fitting, false);
    return report;
}

LoadReport load_weights(nn::Module& model, const std::filesystem::path& path,
                        const LoadOptions& options) {
    return load_weights(model, io::load(path), options, path.string());
}

void save_weights(const nn::Module& model, const std::filesystem::path& path) {
    // The metadata is what Hugging Face's loaders ask for.
    io::save_safetensors(path, model.state_dict(), {{"format", "pt"}});
}

}  // namespace pippin
