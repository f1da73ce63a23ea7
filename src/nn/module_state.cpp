// Module::load_state_dict: all faults in one error, nothing written when there is one.
#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "pippin/nn.h"

namespace pippin::nn {
namespace {

std::string quoted(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& n : names)
        out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", n);
    return out;
}

// Checkpoints from before PyTorch 0.4.1 lack it, and it changes no result here.
bool may_be_missing(std::string_view name) {
    constexpr std::string_view counter = "num_batches_tracked";
    return name.size() >= counter.size() && name.substr(name.size() - counter.size()) == counter;
}

}  // namespace

void Module::load_state_dict(const Named& state, bool strict) {
    std::unordered_map<std::string_view, Tensor> given;
    std::vector<std::string> missing, unexpected, faults;
    for (const auto& [name, tensor] : state) {
        if (!tensor.defined())
            faults.push_back(fmt::format("\"{}\" is undefined", name));
        else if (!given.emplace(name, tensor).second)
            faults.push_back(fmt::format("\"{}\" is there more than once", name));
    }

    std::vector<std::pair<Tensor, Tensor>> copies;
    std::unordered_map<std::string_view, bool> known;
    const Named own = state_dict();
    for (const auto& [name, tensor] : own) {
        known.emplace(name, true);
        const auto found = given.find(name);
        if (found == given.end()) {
            if (!may_be_missing(name)) missing.push_back(name);
        } else if (!(found->second.shape() == tensor.shape())) {
            faults.push_back(
                fmt::format("size mismatch for {}: shape {} in the state dict, {} in this model",
                            name, found->second.shape().str(), tensor.shape().str()));
        } else {
            copies.emplace_back(tensor, found->second);
        }
    }
    for (const auto& entry : state)
        if (!known.count(entry.first)) unexpected.push_back(entry.first);

    std::vector<std::string> lines;
    if (strict && !missing.empty()) lines.push_back("missing: " + quoted(missing));
    if (strict && !unexpected.empty()) lines.push_back("unexpected: " + quoted(unexpected));
    lines.insert(lines.end(), faults.begin(), faults.end());
    if (!lines.empty()) {
        std::string message = fmt::format(
            "load_state_dict: the state does not fit {}; nothing was loaded", type_name());
        for (const std::string& line : lines)
            message += "\n    " + line;
        throw ValueError(message);
    }

    const NoGrad no_grad;
    for (auto& [to, from] : copies)
        to.assign_(from);
}

}  // namespace pippin::nn
