// save_sharded(): a checkpoint in pieces of a size that file systems and downloads can take.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <unordered_set>

#include "io/atomic_file.h"
#include "io/file_error.h"
#include "io/utf8.h"
#include "pippin/error.h"
#include "pippin/io.h"

namespace pippin::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::uint64_t bytes_of(const Tensor& t) {
    return static_cast<std::uint64_t>(t.numel()) * size_of(t.dtype());
}

// In the order given; a shard is closed when the next tensor would not fit.
std::vector<NamedTensors> split(const NamedTensors& tensors, std::uint64_t max_bytes) {
    std::vector<NamedTensors> shards;
    std::uint64_t used = 0;
    for (const auto& entry : tensors) {
        const std::uint64_t bytes = bytes_of(entry.second);
        if (shards.empty() ||
            (!shards.back().empty() && bytes > max_bytes - std::min(used, max_bytes))) {
            shards.emplace_back();
            used = 0;
        }
        shards.back().push_back(entry);
        used += bytes;
    }
    if (shards.empty()) shards.emplace_back();
    return shards;
}

// "model-00002-of-00003.safetensors"
bool is_shard_name(const std::string& name) {
    constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
    return name.size() == kPattern.size() &&
           std::equal(name.begin(), name.end(), kPattern.begin(),
                      [](char c, char p) { return p == '#' ? c >= '0' && c <= '9' : c == p; });
}

void remove_file(const fs::path& path) {
    std::error_code error;
    fs::remove(path, error);
    if (error) throw_file_error(path, "cannot remove", error.value());
}

void check(const NamedTensors& tensors) {
    std::unordered_set<std::string_view> names;
    for (const auto& [name, tensor] : tensors) {
        if (!tensor.defined())
            throw ValueError(fmt::format("save_sharded: tensor {} is undefined", in_quotes(name)));
        if (!is_utf8(name))
            throw ValueError(
                fmt::format("save_sharded: the name {} is not UTF-8", in_quotes(name)));
        if (!names.insert(name).second)
            throw ValueError(
                fmt::format("save_sharded: {} is the name of two tensors", in_quotes(name)));
    }
}

}  // namespace

void save_sharded(const fs::path& folder, const NamedTensors& tensors,
                  std::uint64_t max_shard_bytes, const Metadata& metadata) {
    if (max_shard_bytes == 0) throw ValueError("save_sharded: max_shard_bytes must be positive");
    check(tensors);
    std::error_code error;
    if (!fs::is_directory(folder, error))
        throw_file_error(folder, "cannot write: there is no such folder");
    const std::vector<NamedTensors> shards = split(tensors, max_shard_bytes);
    if (shards.size() > 99'999)
        throw ValueError(
            fmt::format("save_sharded: {} shards; at most 99999 are possible with "
                        "max_shard_bytes {}",
                        shards.size(), max_shard_bytes));

    // The index goes first and comes back last: in between, no reader can take new shards for old.
    nlohmann::json map = nlohmann::json::object();
    std::unordered_set<std::string> written;
    if (shards.size() == 1) {
        save_safetensors(folder / kWhole, shards[0], metadata);
        remove_file(folder / kIndex);
    } else {
        remove_file(folder / kIndex);
        remove_file(folder / kWhole);
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < shards.size(); ++i) {
            const std::string name =
                fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
            save_safetensors(folder / name, shards[i], metadata);
            written.insert(name);
            for (const auto& [tensor_name, tensor] : shards[i]) {
                map[tensor_name] = name;
                total += bytes_of(tensor);
            }
        }
        const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
        const std::string text = index.dump(2) + "\n";
        AtomicFile file(folder / kIndex);
        file.write(text.data(), text.size());
        file.commit();
    }
    std::vector<fs::path> stale;
    for (const auto& entry : fs::directory_iterator(folder, error))
        if (const std::string name = entry.path().filename().string();
            is_shard_name(name) && !written.contains(name))
            stale.push_back(entry.path());
    for (const fs::path& path : stale)
        remove_file(path);
}

}  // namespace pippin::io
