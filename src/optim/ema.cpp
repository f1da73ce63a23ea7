// The moving average of weights.
#include <fmt/format.h>

#include <unordered_map>

#include "pippin/ops.h"
#include "pippin/optim_schedules.h"

namespace pippin::optim {

EMA::EMA(const Named& tensors, double decay) : tensors_(tensors), decay_(decay) {
    if (!(decay >= 0 && decay <= 1))
        throw ValueError(fmt::format("EMA: decay must be from 0 to 1, got {}", decay));
    if (tensors.empty()) throw ValueError("EMA: got no tensors");
    const NoGrad no_grad;
    for (const auto& [name, t] : tensors_) {
        if (!t.defined()) throw ValueError(fmt::format("EMA: \"{}\" is undefined", name));
        averages_.emplace_back(name, t.detach());
    }
}

void EMA::update() {
    const NoGrad no_grad;
    const bool first = updates_++ == 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const Tensor now = tensors_[i].second.detach();
        Tensor& average = averages_[i].second;
        if (first || !is_floating(now.dtype()))
            average.assign_(now);
        else
            average.assign_(average + (now - average) * (1 - decay_));
    }
    flush();
}

void EMA::swap() {
    const NoGrad no_grad;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        Tensor &own = tensors_[i].second, &average = averages_[i].second;
        const Tensor held = own.detach();
        own.assign_(average.detach());
        average.assign_(held);
    }
    flush();
}

void EMA::load(const Named& averages, std::int64_t updates) {
    if (updates < 0)
        throw ValueError(fmt::format("EMA.load: updates must be >= 0, got {}", updates));
    std::unordered_map<std::string, Tensor> given(averages.begin(), averages.end());
    if (given.size() != averages_.size())
        throw ValueError(
            fmt::format("EMA.load: got {} averages, expected {}", given.size(), averages_.size()));
    for (const auto& [name, t] : averages_) {
        const auto found = given.find(name);
        if (found == given.end() || !found->second.defined())
            throw ValueError(fmt::format("EMA.load: \"{}\" is missing", name));
        if (!(found->second.shape() == t.shape()))
            throw ValueError(fmt::format("EMA.load: \"{}\" has shape {}, expected {}", name,
                                         found->second.shape().str(), t.shape().str()));
    }
    const NoGrad no_grad;
    for (auto& [name, t] : averages_)
        t.assign_(given.at(name));
    updates_ = updates;
}

}  // namespace pippin::optim
