// Packed sequences.
#include "pippin/nn_packed.h"
#include "torch/dispatch.h"

namespace pippin::test {
namespace {

Tensors parts(const nn::PackedSequence& p, bool with_order) {
    Tensors out{p.data(), tensor(p.batch_sizes())};
    if (with_order) out.push_back(tensor(p.sorted_indices()));
    return out;
}

std::vector<std::int64_t> lengths(const Call& c) { return c.tensor(1).to_vector<std::int64_t>(); }

}  // namespace

void add_packed(Table& t) {
    t["pack_padded_sequence"] = [](const Call& c) {
        const bool sorted = c.flag("enforce_sorted", true);
        return parts(
            nn::pack_padded_sequence(c.tensor(0), lengths(c), c.flag("batch_first", false), sorted),
            !sorted);
    };
    t["pad_packed_sequence"] = [](const Call& c) {
        const bool batch_first = c.flag("batch_first", false);
        std::optional<std::int64_t> total;
        if (c.has("total_length")) total = c.integer("total_length", 0);
        const auto packed = nn::pack_padded_sequence(c.tensor(0), lengths(c), batch_first, false);
        const auto [output, sizes] =
            nn::pad_packed_sequence(packed, batch_first, c.real("padding_value", 0), total);
        return Tensors{output, tensor(sizes)};
    };
    t["pad_sequence"] = one([](const Call& c) {
        return nn::pad_sequence(c.tensors, c.flag("batch_first", false),
                                c.real("padding_value", 0));
    });
    t["pack_sequence"] = [](const Call& c) {
        return parts(nn::pack_sequence(c.tensors, c.flag("enforce_sorted", true)), false);
    };
}

}  // namespace pippin::test
