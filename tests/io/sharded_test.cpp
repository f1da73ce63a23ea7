// Checkpoints in shards: what is written comes back, and an index cannot lead elsewhere.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/io.h"
#include "pippin/ops.h"

namespace pippin {
namespace {

namespace fs = std::filesystem;
using namespace test;

io::NamedTensors five() {
    return {{"a", full({10}, 1)},
            {"b", full({10}, 2)},
            {"big", full({100}, 3)},
            {"c", full({5}, 4).to(float64)},
            {"empty", zeros({0})}};
}

std::set<std::string> files_in(const fs::path& folder) {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder))
        out.insert(entry.path().filename().string());
    return out;
}

void expect_five(const io::NamedTensors& got) {
    std::map<std::string, Tensor> by_name(got.begin(), got.end());
    ASSERT_EQ(got.size(), 5u);
    ASSERT_EQ(by_name.size(), 5u);
    for (const auto& [name, want] : five()) {
        EXPECT_EQ(by_name[name].dtype(), want.dtype());
        EXPECT_EQ(by_name[name].shape(), want.shape());
        EXPECT_EQ(by_name[name].to_vector<double>(), want.to_vector<double>());
    }
}

TEST(Sharded, SplitsBySizeAndComesBack) {
    const TempFolder folder;
    io::save_sharded(folder.path(), five(), 80, {{"format", "pt"}});
    EXPECT_EQ(files_in(folder.path()),
              (std::set<std::string>{
                  "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                  "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
    const auto index = nlohmann::json::parse(read_text(folder / "model.safetensors.index.json"));
    EXPECT_EQ(index["metadata"]["total_size"], 40 + 40 + 400 + 40);
    EXPECT_EQ(index["weight_map"]["a"], "model-00001-of-00003.safetensors");
    EXPECT_EQ(index["weight_map"]["b"], "model-00001-of-00003.safetensors");
    EXPECT_EQ(index["weight_map"]["big"], "model-00002-of-00003.safetensors");
    EXPECT_EQ(index["weight_map"]["empty"], "model-00003-of-00003.safetensors");
    EXPECT_EQ(io::load_safetensors(folder / "model-00001-of-00003.safetensors").metadata(),
              (io::Metadata{{"format", "pt"}}));
    expect_five(io::load(folder.path()));
    expect_five(io::load(folder / "model.safetensors.index.json"));

    // Other sizes later leave nothing of the earlier files.
    io::save_sharded(folder.path(), five(), 400);
    EXPECT_EQ(files_in(folder.path()).size(), 3u + 1u);
    expect_five(io::load(folder.path()));
    write_text(folder / "model-notes.txt", "kept");
    io::save_sharded(folder.path(), five());
    EXPECT_EQ(files_in(folder.path()),
              (std::set<std::string>{"model.safetensors", "model-notes.txt"}));
    expect_five(io::load(folder.path()));
    io::save_sharded(folder.path(), five(), 1);
    EXPECT_EQ(files_in(folder.path()).count("model.safetensors"), 0u);
    expect_five(io::load(folder.path()));
}

TEST(Sharded, RefusesToSave) {
    const TempFolder folder;
    const Tensor x = ones({4});
    io::save_sharded(folder.path(), five(), 80);
    const auto before = files_in(folder.path());
    EXPECT_ERROR(io::save_sharded(folder.path(), {{"a", x}, {"a", x}}, 1), ValueError, "'a'");
    EXPECT_ERROR(io::save_sharded(folder.path(), {{"a", x}, {"b", Tensor()}}, 1), ValueError, "'b'",
                 "undefined");
    EXPECT_ERROR(io::save_sharded(folder.path(), {{"a", x}, {"b\xff", x}}, 1), ValueError, "UTF-8");
    EXPECT_ERROR(io::save_sharded(folder.path(), {{"a", x}}, 0), ValueError, "positive");
    EXPECT_ERROR(io::save_sharded(folder / "none", {{"a", x}}), FileError, "no such folder");
    EXPECT_EQ(files_in(folder.path()), before);
    expect_five(io::load(folder.path()));
}

TEST(Sharded, AnIndexMayNotLeadOutOfItsFolder) {
    const TempFolder folder;
    const fs::path inside = folder / "in";
    fs::create_directory(inside);
    io::save_safetensors(folder / "out.safetensors", {{"x", ones({1})}});
    const fs::path path = inside / "model.safetensors.index.json";
    for (const std::string& file :
         {std::string("../out.safetensors"), (folder / "out.safetensors").string(),
          std::string("a/../../out.safetensors"), std::string(".."), std::string(""),
          std::string("in/")}) {
        write_text(path, nlohmann::json{{"weight_map", {{"x", file}}}}.dump());
        EXPECT_ERROR(io::load(inside), FileError, path.string(), "not in the index's folder");
    }
    // A folder below and a link are fine: caches of downloads are made of links.
    fs::create_directory(inside / "sub");
    fs::create_symlink(folder / "out.safetensors", inside / "sub" / "linked.safetensors");
    write_text(path, R"({"weight_map": {"x": "sub/linked.safetensors"}})");
    EXPECT_EQ(io::load(inside).size(), 1u);
}

TEST(Sharded, MalformedIndexes) {
    const TempFolder folder;
    io::save_safetensors(folder / "s", {{"x", ones({1})}, {"other", ones({1})}});
    const fs::path path = folder / "model.safetensors.index.json";
    const std::pair<std::string, const char*> cases[] = {
        {"{", "not valid JSON"},
        {R"({"weight_map": {"x": "s"}} trailing)", "not valid JSON"},
        {R"({"metadata": {}})", "no \"weight_map\""},
        {R"({"weight_map": ["s"]})", "no \"weight_map\""},
        {R"({"weight_map": {"x": 3}})", "tensor 'x' has no file name"},
        {R"({"weight_map": {"x": "s", "y": "s", "z": "s"}})", "'y' in 's', 'z' in 's'"},
        {R"({"weight_map": {"x": "gone"}})", "cannot open"},
        {R"({"weight_map": {"x": "model.safetensors.index.json"}})", "neither a safetensors"},
        {"{\"a\": " + std::string(200, '[') + std::string(200, ']') + "}", "nests more than 100"},
    };
    for (const auto& [text, message] : cases) {
        write_text(path, text);
        EXPECT_ERROR(io::load(path), FileError, message);
    }
    write_text(path, R"({"weight_map": {"x": "s"}})");
    EXPECT_EQ(io::load(path).size(), 1u);  // the map decides what belongs to the checkpoint
}

TEST(Load, TellsFilesByTheirContent) {
    const TempFolder folder;
    io::save_safetensors(folder / "weights.pt", {{"x", ones({1})}});
    EXPECT_EQ(io::load(folder / "weights.pt").size(), 1u);
    fs::copy_file(PIPPIN_FIXTURES "/io/torch/bare.pt", folder / "pytorch_model.bin");
    EXPECT_EQ(io::load(folder.path()).size(), 1u);
    write_text(folder / "pytorch_model.bin.index.json",
               R"({"weight_map": {"": "pytorch_model.bin"}})");
    EXPECT_EQ(io::load(folder / "pytorch_model.bin.index.json").size(), 1u);
    EXPECT_ERROR(io::load(PIPPIN_FIXTURES "/io/torch/legacy.pt"), FileError, "before 1.6");
    write_text(folder / "text", "hello there, this is no checkpoint");
    EXPECT_ERROR(io::load(folder / "text"), FileError, "neither a safetensors");
    write_text(folder / "nothing", "");
    EXPECT_ERROR(io::load(folder / "nothing"), FileError, "is empty");
    EXPECT_ERROR(io::load(folder / "missing"), FileError, "cannot open");
    fs::create_directory(folder / "bare");
    EXPECT_ERROR(io::load(folder / "bare"), FileError, "has no checkpoint", "pytorch_model.bin");
}

}  // namespace
}  // namespace pippin
