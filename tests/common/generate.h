// Tensors that tools/make_fixtures.py and the tests both compute, so that nobody stores them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pippin/ops.h"

namespace pippin::test {

using Json = nlohmann::json;

/// The dtype that PyTorch and Pippin call by this name; throws for an unknown one.
DType dtype_named(const std::string& name);
/// A hash of 0 .. count - 1 under a seed.
std::vector<std::uint32_t> hash32(std::int64_t count, std::uint32_t seed);
/// The script's `generate`: offset + scale * u with u one of 2^bits steps of [-1, 1), bit for bit.
Tensor generate(const Shape& shape, std::uint32_t seed, int bits = 24, double scale = 1,
                double offset = 0, DType dtype = float32);
/// generate() with its arguments in JSON.
Tensor generate(const Json& spec);

/// Images (N, C, H, W) of 4 x 4 coarse patches under fine noise; see tests/torch/training.py.
Tensor patchy_images(const Shape& shape, std::uint32_t number);

}  // namespace pippin::test
