// Batches of sequences of different lengths for the recurrent layers: PyTorch's torch.nn.utils.rnn.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pippin/ops.h"

namespace pippin::nn {

/// Sequences of different lengths. PyTorch lays their steps one behind the other; here they stay
/// padded, so that batches of one shape run one plan whatever their lengths. The numbers behind a
/// sequence's end have no meaning and reach no result.
class PackedSequence {
  public:
    /// padded (L, N, ...), L the greatest of N positive lengths. ValueError where these do not fit.
    PackedSequence(Tensor padded, std::vector<std::int64_t> lengths);
    const Tensor& padded() const { return padded_; }
    const std::vector<std::int64_t>& lengths() const { return lengths_; }
    /// Whether there is a step: bool (L, N).
    Tensor valid() const;

    /// As PyTorch packs it, (sum of lengths, ...): the first steps of all sequences, the longest
    /// sequence's first, then all second steps, ...
    Tensor data() const;
    /// How many sequences have a first, second, ... step.
    std::vector<std::int64_t> batch_sizes() const;
    /// The sequences' numbers, longest first (equal ones in their order).
    std::vector<std::int64_t> sorted_indices() const;

  private:
    Tensor padded_;
    std::vector<std::int64_t> lengths_;
};

/// x is (T, N, ...), or (N, T, ...) if batch_first, T at least the greatest length. enforce_sorted:
/// ValueError unless lengths do not increase. (A tensor of lengths: to_vector<std::int64_t>().)
PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                    bool batch_first = false, bool enforce_sorted = true,
                                    Site site = Site::current());

struct PaddedSequences {
    Tensor output;
    std::vector<std::int64_t> lengths;
};
/// (L, N, ...), or (N, L, ...) if batch_first, with padding_value behind each sequence's end; L is
/// total_length if given (ValueError if that is too short), else the greatest length.
PaddedSequences pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false,
                                    double padding_value = 0,
                                    std::optional<std::int64_t> total_length = {},
                                    Site site = Site::current());

/// Sequences (L_i, ...) beside each other, (L, N, ...), or (N, L, ...) if batch_first.
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false,
                    double padding_value = 0, Site site = Site::current());
/// pad_sequence and pack_padded_sequence in one.
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true,
                             Site site = Site::current());

}  // namespace pippin::nn
