// Makes PyTorch checkpoints with any pickle, byte by byte.
#pragma once

#include <zip.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pippin::test {

/// A zip file with these entries in the folder archive/.
inline void write_zip(const std::filesystem::path& path,
                      const std::map<std::string, std::string>& entries, bool deflate = false) {
    zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    if (!zip) throw std::runtime_error("cannot write " + path.string());
    for (const auto& [name, content] : entries) {
        zip_source_t* source = zip_source_buffer(zip, content.data(), content.size(), 0);
        const zip_int64_t i = zip_file_add(zip, ("archive/" + name).c_str(), source, 0);
        zip_set_file_compression(zip, static_cast<zip_uint64_t>(i),
                                 deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    if (zip_close(zip) != 0) throw std::runtime_error("cannot write " + path.string());
}

// Pickle instructions.
inline std::string le(std::uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i)
        out += static_cast<char>(value >> (8 * i) & 0xff);
    return out;
}
inline std::string text(std::string_view s) { return "X" + le(s.size(), 4) + std::string(s); }
inline std::string integer(std::int64_t n) {
    return "\x8a\x08" + le(static_cast<std::uint64_t>(n), 8);
}
inline std::string global(const std::string& module, const std::string& name) {
    return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(std::initializer_list<std::int64_t> items) {
    std::string out = "(";
    for (const std::int64_t i : items)
        out += integer(i);
    return out + "t";
}
inline std::string storage(const std::string& type, const std::string& key, std::int64_t numel) {
    return "(" + text("storage") + global("torch", type) + text(key) + text("cpu") +
           integer(numel) + "tQ";
}
inline std::string tensor_of(const std::string& storage, std::int64_t offset,
                             std::initializer_list<std::int64_t> size,
                             std::initializer_list<std::int64_t> stride) {
    return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + integer(offset) +
           tuple(size) + tuple(stride) + "\x89" + global("collections", "OrderedDict") + ")RtR";
}
/// A whole pickle of protocol 2.
inline std::string pickle(const std::string& instructions) {
    return "\x80\x02" + instructions + ".";
}
/// {"x": value}
inline std::string dict_of_x(const std::string& value) {
    return pickle("}(" + text("x") + value + "u");
}

/// A checkpoint with this pickle and one storage of `bytes` under the key 0.
inline std::filesystem::path write_torch(const std::filesystem::path& path,
                                         const std::string& pickle_bytes,
                                         const std::string& bytes = std::string(16, '\0')) {
    write_zip(path, {{"data.pkl", pickle_bytes}, {"byteorder", "little"}, {"data/0", bytes}});
    return path;
}

}  // namespace pippin::test
