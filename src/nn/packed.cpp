// Packing sequences of different lengths, and back.
#include "pippin/nn_packed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "tensor/site.h"

namespace pippin::nn {
namespace {

template <class F>
decltype(auto) called(const Site& site, F f) {
    const SiteScope scope(site);
    return at_site(site, f);
}

// valid (L, N) laid along the first two dimensions of x.
Tensor beside(const Tensor& valid, const Tensor& x) {
    Shape s = x.shape();
    for (int d = 2; d < s.rank(); ++d)
        s[d] = 1;
    return reshape(valid, s);
}

std::int64_t longest(const std::vector<std::int64_t>& lengths) {
    return *std::max_element(lengths.begin(), lengths.end());
}

}  // namespace

PackedSequence::PackedSequence(Tensor padded, std::vector<std::int64_t> lengths)
    : padded_(std::move(padded)), lengths_(std::move(lengths)) {
    const Shape& s = padded_.shape();
    if (s.rank() < 2)
        throw ValueError(
            fmt::format("PackedSequence: expected (L, N, ...), got a tensor of shape {}", s.str()));
    if (lengths_.empty() || static_cast<std::int64_t>(lengths_.size()) != s[1])
        throw ValueError(fmt::format("PackedSequence: {} lengths for {} sequences (shape {})",
                                     lengths_.size(), s[1], s.str()));
    for (const std::int64_t n : lengths_)
        if (n < 1)
            throw ValueError(fmt::format(
                "PackedSequence: every sequence needs at least one step, the lengths are {}",
                lengths_));
    if (longest(lengths_) != s[0])
        throw ValueError(
            fmt::format("PackedSequence: the greatest length must be {} for shape {}, it is {}",
                        s[0], s.str(), longest(lengths_)));
}

Tensor PackedSequence::valid() const {
    const Options here(padded_.device());
    return unsqueeze(arange(padded_.size(0), here), 1) < tensor(lengths_, here);
}

std::vector<std::int64_t> PackedSequence::sorted_indices() const {
    std::vector<std::int64_t> order(lengths_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return lengths_[static_cast<std::size_t>(a)] > lengths_[static_cast<std::size_t>(b)];
    });
    return order;
}

std::vector<std::int64_t> PackedSequence::batch_sizes() const {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(padded_.size(0)));
    for (const std::int64_t n : lengths_)
        for (std::size_t t = 0; t < static_cast<std::size_t>(n); ++t)
            ++sizes[t];
    return sizes;
}

Tensor PackedSequence::data() const {
    const std::int64_t n = padded_.size(1);
    const std::vector<std::int64_t> order = sorted_indices(), sizes = batch_sizes();
    std::vector<std::int64_t> rows;
    for (std::size_t t = 0; t < sizes.size(); ++t)
        for (std::size_t i = 0; i < static_cast<std::size_t>(sizes[t]); ++i)
            rows.push_back(static_cast<std::int64_t>(t) * n + order[i]);
    return index_select(flatten(padded_, 0, 1), 0, tensor(rows, Options(padded_.device())));
}

PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                    bool batch_first, bool enforce_sorted, Site site) {
    return called(site, [&] {
        constexpr const char* kName = "pack_padded_sequence";
        if (x.dim() < 2)
            throw ValueError(fmt::format("{}: expected ({}, ...), got a tensor of shape {}", kName,
                                         batch_first ? "N, T" : "T, N", x.shape().str()));
        const Tensor steps = batch_first ? transpose(x, 0, 1) : x;
        if (static_cast<std::int64_t>(lengths.size()) != steps.size(1))
            throw ValueError(fmt::format("{}: {} lengths for {} sequences (shape {})", kName,
                                         lengths.size(), steps.size(1), x.shape().str()));
        if (enforce_sorted && !std::is_sorted(lengths.rbegin(), lengths.rend()))
            throw ValueError(
                fmt::format("{}: lengths must not increase: sort the sequences or give "
                            "enforce_sorted = false; the lengths are {}",
                            kName, lengths));
        if (lengths.empty()) throw ValueError(fmt::format("{}: there is no sequence", kName));
        if (longest(lengths) > steps.size(0))
            throw ValueError(fmt::format("{}: a length of {} for sequences of {} steps (shape {})",
                                         kName, longest(lengths), steps.size(0), x.shape().str()));
        const std::int64_t length = std::max<std::int64_t>(longest(lengths), 0);
        const Tensor padded = narrow(steps, 0, 0, length);
        const PackedSequence sequence(padded, lengths);
        // What lies behind the ends may be anything, NaN too; zeros have no effect on gradients.
        return PackedSequence(where(beside(sequence.valid(), padded), padded, zeros_like(padded)),
                              lengths);
    });
}

PaddedSequences pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                    double padding_value, std::optional<std::int64_t> total_length,
                                    Site site) {
    return called(site, [&] {
        const Tensor& x = sequence.padded();
        Tensor y = where(beside(sequence.valid(), x), x, full_like(x, padding_value));
        if (total_length) {
            if (*total_length < x.size(0))
                throw ValueError(fmt::format(
                    "pad_packed_sequence: total_length {} is less than the longest sequence's {}",
                    *total_length, x.size(0)));
            // pad() counts dimensions from the last.
            std::vector<std::int64_t> amounts(static_cast<std::size_t>(2 * x.dim()), 0);
            amounts.back() = *total_length - x.size(0);
            y = pad(y, amounts, padding_value);
        }
        return PaddedSequences{batch_first ? transpose(y, 0, 1) : y, sequence.lengths()};
    });
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value,
                    Site site) {
    return called(site, [&] {
        if (sequences.empty()) throw ValueError("pad_sequence: there is no sequence");
        std::int64_t length = 0;
        for (const Tensor& s : sequences) {
            if (s.dim() < 1) throw ValueError("pad_sequence: a sequence needs a dimension");
            length = std::max(length, s.size(0));
        }
        std::vector<Tensor> padded;
        for (const Tensor& s : sequences) {
            std::vector<std::int64_t> amounts(static_cast<std::size_t>(2 * s.dim()), 0);
            amounts.back() = length - s.size(0);
            padded.push_back(pad(s, amounts, padding_value));
        }
        return stack(padded, batch_first ? 0 : 1);
    });
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted, Site site) {
    return called(site, [&] {
        std::vector<std::int64_t> lengths;
        for (const Tensor& s : sequences)
            lengths.push_back(s.dim() < 1 ? 0 : s.size(0));
        return pack_padded_sequence(pad_sequence(sequences), lengths, false, enforce_sorted);
    });
}

}  // namespace pippin::nn
