// How a heavy launch is done, where there are several ways: what the tuner chooses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pippin::gpu {

enum class Algorithm : std::uint8_t {
    Default,   ///< what the writer takes by its own rules
    Product,   ///< a convolution as one product of matrices
    Direct,    ///< of few channels: conv_direct.cpp
    Winograd,  ///< of 3 x 3 windows: conv_winograd.cpp
    Scores,    ///< attention in products, whose scores are in scratch memory
    OnePass,   ///< attention whose scores are never kept
};

/// What tells the products of one launch apart.
struct ProductShape {
    std::int64_t batches = 1, m = 1, n = 1, k = 1;
    bool operator==(const ProductShape&) const = default;
    double operations() const {
        return 2.0 * static_cast<double>(batches) * static_cast<double>(m) *
               static_cast<double>(n) * static_cast<double>(k);
    }
};

/// How a product is cut among groups.
struct ProductForm {
    int tile =
        -1;  ///< a number in gemm.cpp (from 100 on in gemm_matrix.cpp); -1: by the writer's rule
    std::int64_t splits = 0;  ///< of the sum over k; 0: by the writer's rule for that tile
    bool operator==(const ProductForm&) const = default;
};

/// What a launch is to be like; all that is not said goes by the writers' rules. A wish that does
/// not suit the launch or the device is not followed.
struct LaunchChoice {
    Algorithm algorithm = Algorithm::Default;
    std::vector<std::pair<ProductShape, ProductForm>> products;

    bool operator==(const LaunchChoice&) const = default;
    bool is_default() const { return algorithm == Algorithm::Default && products.empty(); }
    ProductForm form_of(const ProductShape& shape) const;
    void set(const ProductShape& shape, const ProductForm& form);
    /// One word of text: "default", "winograd,16x3136x64x64:0/2".
    std::string str() const;
    static std::optional<LaunchChoice> parse(std::string_view text);
};

/// What a launch has become.
struct Taken {
    Algorithm algorithm = Algorithm::Default;  ///< Default: there was nothing to choose
    struct Product {
        ProductShape shape;
        ProductForm form;  ///< complete
        bool halves = false;
        int times = 0;
    };
    std::vector<Product> products;  ///< the different ones

    void add(const ProductShape& shape, const ProductForm& form, bool halves);
};

}  // namespace pippin::gpu
