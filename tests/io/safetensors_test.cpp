// What is written comes back, and files of the format's own library read right.
#include <gtest/gtest.h>

#include <cmath>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/io.h"
#include "pippin/ops.h"

namespace pippin {
namespace {

using test::read_text;
using test::TempFolder;
using test::write_text;

std::vector<std::byte> bytes_of(const Tensor& t) {
    const auto* p = static_cast<const std::byte*>(t.raw_data());
    const auto n = static_cast<std::size_t>(t.numel()) * size_of(t.dtype());
    return {p, p + n};
}

TEST(SafeTensors, EveryDTypeComesBack) {
    const TempFolder folder;
    const auto path = folder / "all.safetensors";
    io::NamedTensors saved;
    std::vector<std::uint8_t> raw(24);
    for (std::size_t i = 0; i < raw.size(); ++i)
        raw[i] = static_cast<std::uint8_t>(i * 37 + 11);
    for (const DType t : {uint8, int32, float64, float16, int64, bfloat16, float32}) {
        const auto n = static_cast<std::int64_t>(raw.size() / size_of(t));
        saved.emplace_back(std::string(name_of(t)), from_bytes(raw.data(), {n}, t, Device()));
    }
    saved.emplace_back("bool", tensor(std::vector<std::uint8_t>{1, 0, 1}).to(boolean));
    io::save_safetensors(path, saved);

    const io::SafeTensors file = io::load_safetensors(path);
    ASSERT_EQ(file.entries().size(), saved.size());
    const io::NamedTensors loaded = file.tensors();
    for (std::size_t i = 0; i < saved.size(); ++i) {
        EXPECT_EQ(loaded[i].first, saved[i].first);  // the order is kept
        EXPECT_EQ(loaded[i].second.dtype(), saved[i].second.dtype());
        EXPECT_EQ(loaded[i].second.shape(), saved[i].second.shape());
        EXPECT_EQ(bytes_of(loaded[i].second), bytes_of(saved[i].second)) << saved[i].first;
        // Whoever maps the file finds each tensor aligned.
        EXPECT_EQ(file.info(saved[i].first).offset % size_of(saved[i].second.dtype()), 0u);
    }
}

TEST(SafeTensors, ShapesAndMetadata) {
    const TempFolder folder;
    const auto path = folder / "m.safetensors";
    const io::Metadata metadata = {{"format", "pt"}, {"note \"quoted\"", "größe\n"}};
    io::save_safetensors(path,
                         {{"scalar", scalar(3.5)},
                          {"empty", zeros({0, 4})},
                          {"a.b.weight", tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {1, 2, 3})}},
                         metadata);
    const io::SafeTensors file = io::load_safetensors(path);
    EXPECT_EQ(file.metadata(), metadata);
    EXPECT_EQ(file.names(), (std::vector<std::string>{"scalar", "empty", "a.b.weight"}));
    EXPECT_EQ(file.tensor("scalar").dim(), 0);
    EXPECT_EQ(file.tensor("scalar").item<float>(), 3.5f);
    EXPECT_EQ(file.tensor("empty").shape(), (Shape{0, 4}));
    EXPECT_EQ(file.tensor("a.b.weight").shape(), (Shape{1, 2, 3}));
    EXPECT_EQ(file.tensor("a.b.weight").to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_TRUE(file.contains("empty"));
    EXPECT_FALSE(file.contains("Empty"));
    EXPECT_ERROR(file.tensor("other"), FileError, path.string(), "'other'", "3");
}

TEST(SafeTensors, NoTensorsAtAll) {
    const TempFolder folder;
    io::save_safetensors(folder / "none", {});
    EXPECT_TRUE(io::load_safetensors(folder / "none").entries().empty());
    io::save_safetensors(folder / "none", {}, {{"a", "b"}});
    EXPECT_EQ(io::load_safetensors(folder / "none").metadata().at("a"), "b");
}

TEST(SafeTensors, ReadsTheReferenceLibrarysFile) {
    const io::SafeTensors file = io::load_safetensors(PIPPIN_FIXTURES "/io/reference.safetensors");
    EXPECT_EQ(file.metadata(), (io::Metadata{{"format", "np"}, {"note", "größe"}}));
    EXPECT_EQ(file.tensor("f64").shape(), (Shape{2, 2}));
    const auto f64 = file.tensor("f64").to_vector<double>();
    EXPECT_EQ(f64, (std::vector<double>{1.5, -2.25, 1e300, 0.0}));
    EXPECT_TRUE(std::signbit(f64[3]));
    EXPECT_EQ(file.tensor("f32").to_vector<float>(),
              (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f}));
    EXPECT_EQ(file.tensor("f16").to_vector<float>(), (std::vector<float>{0.5f, -1, 65504}));
    EXPECT_EQ(file.tensor("i64").to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{std::int64_t{1} << 62, -1}));
    EXPECT_EQ(file.tensor("i32").to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{2147483647, -2147483648}));
    EXPECT_EQ(file.tensor("u8").to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 127, 255}));
    EXPECT_EQ(file.tensor("bool").dtype(), boolean);
    EXPECT_EQ(file.tensor("bool").to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 1}));
    EXPECT_EQ(file.tensor("scalar").shape(), Shape{});
    EXPECT_EQ(file.tensor("empty").shape(), (Shape{0, 4}));
    // A dtype that Pippin lacks is an error of this tensor, not of the file.
    EXPECT_EQ(file.info("i16").dtype, "I16");
    EXPECT_ERROR(file.tensor("i16"), TypeError, "reference.safetensors", "'i16'", "'I16'");
    EXPECT_ERROR(file.tensors(), TypeError, "'i16'");
}

TEST(SafeTensors, TheMapKeepsTheOldFileWhileItIsReplaced) {
    const TempFolder folder;
    const auto path = folder / "w";
    io::save_safetensors(path, {{"x", full({1000}, 1)}});
    const io::SafeTensors old = io::load_safetensors(path);
    io::save_safetensors(path, {{"x", full({2000}, 2)}});
    EXPECT_EQ(old.tensor("x").to_vector<float>(), std::vector<float>(1000, 1));
    EXPECT_EQ(io::load_safetensors(path).tensor("x").to_vector<float>(),
              std::vector<float>(2000, 2));
}

// Reading behind the end of a mapped file would end the program.
TEST(SafeTensors, AFileThatIsCutAfterItWasOpenedIsAnError) {
    const TempFolder folder;
    const auto path = folder / "a.safetensors";
    io::save_safetensors(path, {{"a", ones({100'000})}, {"b", ones({3})}});
    const io::SafeTensors file = io::load_safetensors(path);
    EXPECT_EQ(file.tensor("b").sum().item<float>(), 3);
    std::filesystem::resize_file(path, 5000);
    EXPECT_ERROR(file.tensor("a"), FileError, "a.safetensors", "was cut from", "to 5000 bytes");
    EXPECT_EQ(file.info("a").shape, (std::vector<std::int64_t>{100'000}));
}

TEST(SafeTensors, LoadedTensorsOutliveTheFile) {
    const TempFolder folder;
    Tensor x;
    {
        io::save_safetensors(folder / "w", {{"x", full({5}, 3)}});
        x = io::load_safetensors(folder / "w").tensor("x");
        std::filesystem::remove(folder / "w");
    }
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(5, 3));
}

TEST(SafeTensors, SavesWhatIsStillPending) {
    const TempFolder folder;
    const Tensor x = ones({4}) * 2 + 1;
    io::save_safetensors(folder / "w", {{"x", x}, {"y", x * x}});
    EXPECT_EQ(io::load_safetensors(folder / "w").tensor("y").to_vector<float>(),
              std::vector<float>(4, 9));
}

TEST(SafeTensors, RefusesToSave) {
    const TempFolder folder;
    const Tensor x = ones({2});
    EXPECT_ERROR(io::save_safetensors(folder / "w", {{"a", x}, {"a", x}}), ValueError, "'a'",
                 "two tensors");
    EXPECT_ERROR(io::save_safetensors(folder / "w", {{"__metadata__", x}}), ValueError,
                 "__metadata__", "reserved");
    EXPECT_ERROR(io::save_safetensors(folder / "w", {{"a", Tensor()}}), ValueError, "'a'",
                 "undefined");
    EXPECT_ERROR(io::save_safetensors(folder / "w", {{"a\xff", x}}), ValueError, "UTF-8");
    EXPECT_ERROR(io::save_safetensors(folder / "w", {}, {{"k", "\xc3"}}), ValueError, "UTF-8");
    EXPECT_ERROR(io::save_safetensors(folder / "no" / "w", {{"a", x}}), FileError, "no folder");
    EXPECT_ERROR(io::save_safetensors(folder.path(), {{"a", x}}), FileError, "is a folder");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafeTensors, NamesWithAnyCharacters) {
    const TempFolder folder;
    const std::string odd = std::string("q\"u\\o") + '\0' + "te\n\t/ü";
    io::save_safetensors(folder / "w", {{odd, ones({1})}, {"", zeros({1})}});
    const io::SafeTensors file = io::load_safetensors(folder / "w");
    EXPECT_EQ(file.names(), (std::vector<std::string>{odd, ""}));
    EXPECT_EQ(file.tensor(odd).item<float>(), 1);
}

}  // namespace
}  // namespace pippin
