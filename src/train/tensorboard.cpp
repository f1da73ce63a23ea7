// An event file is a row of records: length, its checksum, a protocol buffer (tensorflow.Event),
// its checksum. Field numbers are those of TensorFlow's event.proto, summary.proto and
// tensor.proto.
#include "train/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "pippin/error.h"

namespace pippin::train {
namespace {

namespace fs = std::filesystem;

// CRC-32C (Castagnoli), rotated and shifted as the format asks.
std::uint32_t masked_crc(const std::string& data) {
    static const auto table = [] {
        std::array<std::uint32_t, 256> t{};
        for (std::uint32_t n = 0; n < 256; ++n) {
            std::uint32_t c = n;
            for (int k = 0; k < 8; ++k)
                c = c & 1 ? 0x82f63b78u ^ (c >> 1) : c >> 1;
            t[n] = c;
        }
        return t;
    }();
    std::uint32_t c = ~0u;
    for (const char byte : data)
        c = table[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ (c >> 8);
    return std::rotr(~c, 15) + 0xa282ead8u;
}

template <class T>
std::string little_endian(T value) {
    std::string out;
    for (std::size_t i = 0; i < sizeof value; ++i)
        out += static_cast<char>(value >> (8 * i) & 0xff);
    return out;
}

// Writes the fields of one protocol buffer message.
class Message {
  public:
    Message& varint(int field, std::uint64_t v) {
        key(field, 0);
        raw(v);
        return *this;
    }
    Message& number(int field, double v) {
        key(field, 1);
        bytes_ += little_endian(std::bit_cast<std::uint64_t>(v));
        return *this;
    }
    Message& number(int field, float v) {
        key(field, 5);
        bytes_ += little_endian(std::bit_cast<std::uint32_t>(v));
        return *this;
    }
    Message& text(int field, const std::string& v) {
        key(field, 2);
        raw(v.size());
        bytes_ += v;
        return *this;
    }
    Message& message(int field, const Message& m) { return text(field, m.bytes_); }
    const std::string& bytes() const { return bytes_; }

  private:
    void key(int field, unsigned kind) { raw(static_cast<std::uint64_t>(field) << 3 | kind); }
    void raw(std::uint64_t v) {
        for (; v >= 0x80; v >>= 7)
            bytes_ += static_cast<char>(v | 0x80);
        bytes_ += static_cast<char>(v);
    }
    std::string bytes_;
};

std::string host_name() {
    char name[256] = "localhost";
    if (::gethostname(name, sizeof name) != 0) return "localhost";
    name[sizeof name - 1] = 0;
    return name;
}

class TensorBoard : public Tracker {
  public:
    explicit TensorBoard(const fs::path& folder) {
        const auto seconds = static_cast<std::int64_t>(now());
        path_ =
            folder / fmt::format("events.out.tfevents.{}.{}.{}", seconds, host_name(), ::getpid());
        for (int k = 1; fs::exists(path_); ++k)  // two trackers of one second
            path_ = folder / fmt::format("events.out.tfevents.{}.{}.{}.{}", seconds, host_name(),
                                         ::getpid(), k);
        file_ = std::fopen(path_.c_str(), "wb");
        if (!file_) fail();
        write(event(0).text(3, "brain.Event:2"));
    }
    ~TensorBoard() override { std::fclose(file_); }

    void config(const std::map<std::string, std::string>& values) override {
        std::string table = "|name|value|\n|---|---|\n";
        for (const auto& [name, value] : values)
            table += fmt::format("|{}|{}|\n", name, value);
        Message shape, tensor, metadata, value, summary;
        shape.message(2, Message().varint(1, 1));
        tensor.varint(1, 7).message(2, shape).text(8, table);  // 7: DT_STRING
        metadata.message(1, Message().text(1, "text"));
        value.text(1, "config/text_summary").message(8, tensor).message(9, metadata);
        write(event(0).message(5, summary.message(1, value)));
    }

    void log(const std::map<std::string, double>& values, std::int64_t step) override {
        Message summary;
        for (const auto& [name, value] : values)
            summary.message(1, Message().text(1, name).number(2, static_cast<float>(value)));
        write(event(step).message(5, summary));
    }

  private:
    static double now() {
        using namespace std::chrono;
        return duration<double>(system_clock::now().time_since_epoch()).count();
    }
    static Message event(std::int64_t step) {
        Message e;
        e.number(1, now());
        if (step != 0) e.varint(2, static_cast<std::uint64_t>(step));
        return e;
    }
    void write(const Message& m) {
        const std::string length = little_endian(static_cast<std::uint64_t>(m.bytes().size()));
        const std::string record = length + little_endian(masked_crc(length)) + m.bytes() +
                                   little_endian(masked_crc(m.bytes()));
        if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() ||
            std::fflush(file_) != 0)
            fail();
    }
    [[noreturn]] void fail() const {
        throw FileError(
            fmt::format("tracker: cannot write {}: {}", path_.string(), std::strerror(errno)));
    }

    fs::path path_;
    std::FILE* file_ = nullptr;
};

}  // namespace

std::unique_ptr<Tracker> make_tensorboard(const fs::path& folder) {
    return std::make_unique<TensorBoard>(folder);
}

}  // namespace pippin::train
