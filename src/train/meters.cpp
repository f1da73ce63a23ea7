// Means over batches that stay on the device until they are read.
#include <fmt/format.h>

#include <limits>

#include "pippin/ops.h"
#include "pippin/train.h"

namespace pippin::train {

void Mean::add(const Tensor& value, std::int64_t count) {
    const NoGrad no_grad;
    add_total(value.detach() * static_cast<double>(count), count);
}

void Mean::add_total(const Tensor& total, std::int64_t count) {
    const NoGrad no_grad;
    // Starting from bytes, not from an op, keeps the first step's plan equal to the later ones'.
    const float zero = 0;
    if (!total_.defined()) total_ = from_bytes(&zero, {}, float32, total.device());
    total_ = total_ + cast(total.detach(), float32);
    count_ += count;
}

double Mean::value() const {
    if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
    return total_.item<double>() / static_cast<double>(count_);
}

double Mean::total() const { return count_ == 0 ? 0 : total_.item<double>(); }

void Mean::reset() {
    total_ = {};
    count_ = 0;
}

void Accuracy::add(const Tensor& logits, const Tensor& target) {
    if (logits.dim() != 2 || target.dim() != 1 || logits.size(0) != target.size(0))
        throw ValueError(
            fmt::format("Accuracy: expected logits (N, C) and targets (N), got shapes {} and {}",
                        logits.shape().str(), target.shape().str()));
    if (logits.size(0) == 0) return;
    const NoGrad no_grad;
    const Tensor right = cast(argmax(logits.detach(), 1) == target, float32);
    mean_.add_total(sum(right), target.size(0));  // exact: float32 counts to 16 million
}

double accuracy(const Tensor& logits, const Tensor& target) {
    Accuracy one;
    one.add(logits, target);
    return one.value();
}

}  // namespace pippin::train
