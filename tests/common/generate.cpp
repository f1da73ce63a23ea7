#include "common/generate.h"

#include <stdexcept>

namespace pippin::test {

DType dtype_named(const std::string& name) {
    for (const DType t : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64})
        if (name_of(t) == name) return t;
    throw std::invalid_argument("no dtype " + name);
}

std::vector<std::uint32_t> hash32(std::int64_t count, std::uint32_t seed) {
    std::vector<std::uint32_t> out(static_cast<std::size_t>(count));
    std::uint32_t h = seed * 0x9E3779B9u;
    for (std::uint32_t& o : out) {
        o = h++;
        o = (o ^ (o >> 16)) * 0x85EBCA6Bu;
        o = (o ^ (o >> 13)) * 0xC2B2AE35u;
        o ^= o >> 16;
    }
    return out;
}

Tensor generate(const Shape& shape, std::uint32_t seed, int bits, double scale, double offset,
                DType dtype) {
    const auto half = std::int64_t{1} << (bits - 1);
    const auto factor = static_cast<double>(static_cast<float>(scale));
    std::vector<double> values;
    for (const std::uint32_t h : hash32(shape.numel(), seed)) {
        const auto step = static_cast<std::int64_t>(h >> (32 - bits)) - half;
        const double v = offset + factor * (static_cast<double>(step) / static_cast<double>(half));
        values.push_back(dtype == float64 ? v : static_cast<double>(static_cast<float>(v)));
    }
    return tensor(values, shape, dtype);
}

Tensor generate(const Json& spec) {
    return generate(Shape(spec.at("shape").get<Dims>()), spec.at("seed").get<std::uint32_t>(),
                    spec.value("bits", 24), spec.value("scale", 1.0), spec.value("offset", 0.0),
                    dtype_named(spec.value("dtype", "float32")));
}

Tensor patchy_images(const Shape& shape, std::uint32_t number) {
    const std::int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
    const Tensor coarse = generate({n, c, 4, 1, 4, 1}, 5000 + number);
    return expand(coarse, {n, c, 4, h / 4, 4, w / 4}).reshape(shape) +
           generate(shape, 5500 + number, 24, 0.25);
}

}  // namespace pippin::test
