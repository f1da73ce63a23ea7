// What all fuzz targets share: Pippin's own errors are what bad input should give; any other
// exception, a sanitizer's report or a failed check is a fault.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "pippin/error.h"

namespace pippin::fuzz {

template <class F>
int run(F f) {
    try {
        f();
    } catch (const Error&) {
    }
    return 0;
}

inline void check(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

inline std::span<const std::byte> bytes(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const std::byte*>(data), size};
}
inline std::string_view text(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

/// A folder in memory (where the system has one), for readers that take paths.
class Folder {
  public:
    Folder() {
        const std::filesystem::path memory = "/dev/shm";
        std::error_code error;
        path_ = std::filesystem::is_directory(memory, error)
                    ? memory
                    : std::filesystem::temp_directory_path();
        path_ /= "pippin-fuzz-" + std::to_string(::getpid());
        std::filesystem::create_directories(path_);
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path write(const char* name, std::string_view content) const {
        std::ofstream out(path_ / name, std::ios::binary | std::ios::trunc);
        out.write(content.data(), static_cast<std::streamsize>(content.size()));
        return path_ / name;
    }

  private:
    std::filesystem::path path_;
};

}  // namespace pippin::fuzz
