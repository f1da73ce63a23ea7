// Attention.
#include "pippin/ops_attention.h"
#include "torch/dispatch.h"

namespace pippin::test {

void add_attention(Table& t) {
    t["scaled_dot_product_attention"] = one([](const Call& c) {
        std::optional<double> scale;
        if (c.has("scale")) scale = c.real("scale", 1);
        return scaled_dot_product_attention(c.tensor(0), c.tensor(1), c.tensor(2),
                                            c.optional_tensor(3), 0, c.flag("causal", false),
                                            scale);
    });
}

}  // namespace pippin::test
