// Checkpoints between Pippin and Python's safetensors package, in both directions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "common/temp_folder.h"
#include "pippin/models.h"
#include "torch/fixture.h"

namespace pippin::test {
namespace {

constexpr DType kDTypes[] = {boolean, uint8, int32, int64, float16, bfloat16, float32, float64};

// The tensors that tools/make_fixtures.py wrote to every_dtype.safetensors.
io::NamedTensors every_dtype() {
    io::NamedTensors out;
    std::uint32_t seed = 0;
    for (const DType dtype : kDTypes) {
        for (const Shape& shape :
             {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{7}, Shape{2, 3, 5}, Shape{33, 65}}) {
            std::string name(name_of(dtype));
            for (const auto extent : shape)
                name += "." + std::to_string(extent);
            const Tensor t = generate(shape, seed, 8, 64, 64);
            out.emplace_back(name, dtype == boolean ? t > 64 : cast(t, dtype));
        }
        ++seed;
    }
    return out;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
    const auto bytes = static_cast<std::size_t>(a.numel()) * size_of(a.dtype());
    return a.dtype() == b.dtype() && a.shape() == b.shape() &&
           (bytes == 0 || std::memcmp(a.raw_data(), b.raw_data(), bytes) == 0);
}

TEST(TorchStateDict, ReadsWhatPythonWrote) {
    const auto file = io::load_safetensors(PIPPIN_FIXTURES "/torch/every_dtype.safetensors");
    EXPECT_EQ(file.metadata().at("format"), "pt");
    const io::NamedTensors want = every_dtype();
    EXPECT_EQ(file.entries().size(), want.size());
    for (const auto& [name, t] : want)
        EXPECT_TRUE(same_bytes(file.tensor(name), t)) << name;
}

// Needs a Python with torch and safetensors, named by PIPPIN_TORCH_PYTHON.
bool python_agrees(const std::string& arguments) {
    const std::string command =
        fmt::format("{} {}/tools/check_weights.py {}", std::getenv("PIPPIN_TORCH_PYTHON"),
                    PIPPIN_SOURCE_DIR, arguments);
    return std::system(command.c_str()) == 0;
}

TEST(TorchStateDict, PythonReadsWhatPippinWrote) {
    const TempFolder folder;
    const std::string path = (folder / "every_dtype.safetensors").string();
    io::save_safetensors(path, every_dtype(), {{"format", "pt"}});
    const auto file = io::load_safetensors(path);
    for (const auto& [name, t] : every_dtype())
        EXPECT_TRUE(same_bytes(file.tensor(name), t)) << name;

    if (!std::getenv("PIPPIN_TORCH_PYTHON"))
        GTEST_SKIP() << "PIPPIN_TORCH_PYTHON names no Python with torch and safetensors";
    EXPECT_TRUE(python_agrees(path + " " + PIPPIN_FIXTURES "/torch/every_dtype.safetensors"));
    const std::string weights = (folder / "resnet18.safetensors").string();
    io::save_safetensors(weights, models::resnet18(10)->state_dict(), {{"format", "pt"}});
    EXPECT_TRUE(python_agrees(weights + " --model resnet18"));
}

}  // namespace
}  // namespace pippin::test
