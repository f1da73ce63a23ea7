#include "io/zip_archive.h"

#include <fmt/format.h>
#include <zip.h>

#include <memory>

#include "io/file_error.h"

namespace pippin::io {

ZipArchive::ZipArchive(std::span<const std::byte> file, std::filesystem::path path)
    : path_(std::move(path)), file_bytes_(file.size()) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_buffer_create(file.data(), file.size(), 0, &error);
    if (source) {
        zip_ = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
        if (!zip_) zip_source_free(source);
    }
    const std::string reason = zip_ ? "" : zip_error_strerror(&error);
    zip_error_fini(&error);
    if (!zip_) throw_file_error(path_, "is a damaged or truncated zip file: " + reason);
}

ZipArchive::~ZipArchive() { zip_discard(zip_); }

std::vector<std::string> ZipArchive::names() const {
    std::vector<std::string> out;
    const zip_int64_t n = zip_get_num_entries(zip_, 0);
    for (zip_int64_t i = 0; i < n; ++i)
        if (const char* name = zip_get_name(zip_, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW))
            out.emplace_back(name);
    return out;
}

bool ZipArchive::contains(const std::string& name) const {
    return zip_name_locate(zip_, name.c_str(), ZIP_FL_ENC_RAW) >= 0;
}

void ZipArchive::fail(const std::string& name, const std::string& what) const {
    throw_file_error(path_, fmt::format("its entry {} {}", in_quotes(name), what));
}

ZipArchive::Entry ZipArchive::find(const std::string& name) const {
    const zip_int64_t index = zip_name_locate(zip_, name.c_str(), ZIP_FL_ENC_RAW);
    if (index < 0) throw_file_error(path_, fmt::format("has no entry {}", in_quotes(name)));
    zip_stat_t stat;
    zip_stat_init(&stat);
    constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(zip_, static_cast<zip_uint64_t>(index), 0, &stat) != 0 ||
        (stat.valid & kNeeded) != kNeeded)
        fail(name, fmt::format("cannot be read: {}", zip_strerror(zip_)));
    if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) && stat.encryption_method != ZIP_EM_NONE)
        fail(name, "is encrypted");
    if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
        fail(name, fmt::format("is packed by method {}; only stored and deflated ones are read",
                               stat.comp_method));
    if (stat.comp_size > file_bytes_)
        fail(name, fmt::format("says that it takes {} bytes of a file of {}", stat.comp_size,
                               file_bytes_));
    // Deflate cannot make 1 byte of more than 1032.
    constexpr std::uint64_t kDeflateRatio = 1032;
    const bool possible = stat.comp_method == ZIP_CM_STORE
                              ? stat.size == stat.comp_size
                              : stat.size / kDeflateRatio <= stat.comp_size;
    if (!possible)
        fail(name, fmt::format("says that its {} bytes unpack to {}, which cannot be",
                               stat.comp_size, stat.size));
    return {static_cast<std::uint64_t>(index), stat.size};
}

std::uint64_t ZipArchive::size_of_entry(const std::string& name) const { return find(name).bytes; }

std::vector<std::byte> ZipArchive::read(const std::string& name) const {
    const Entry entry = find(name);
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(zip_, entry.index, 0), zip_fclose);
    if (!file) fail(name, fmt::format("cannot be read: {}", zip_strerror(zip_)));
    std::vector<std::byte> out(entry.bytes);
    std::size_t have = 0;
    std::byte beyond{};
    for (;;) {  // also past the last byte: only there is the checksum compared
        const bool full = have == out.size();
        const zip_int64_t got =
            zip_fread(file.get(), full ? &beyond : out.data() + have, full ? 1 : out.size() - have);
        if (got < 0) fail(name, fmt::format("is damaged: {}", zip_file_strerror(file.get())));
        if (got == 0) break;
        if (full) fail(name, fmt::format("has more than the {} bytes it should have", out.size()));
        have += static_cast<std::size_t>(got);
    }
    if (have < out.size()) fail(name, fmt::format("has only {} of its {} bytes", have, out.size()));
    return out;
}

}  // namespace pippin::io
