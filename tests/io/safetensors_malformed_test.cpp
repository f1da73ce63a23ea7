// Files that lie: each is refused with the path, the tensor and what is wrong, and no mutation of a
// valid file does worse than that.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "io/safetensors_header.h"
#include "pippin/io.h"
#include "pippin/ops.h"

namespace pippin {
namespace {

using test::TempFolder;
using test::write_text;

std::string with_length(std::uint64_t length, const std::string& rest) {
    std::string out(8, '\0');
    std::memcpy(out.data(), &length, 8);
    return out + rest;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
    return with_length(header.size(), header) + std::string(data_bytes, '\1');
}

struct Case {
    const char* name;
    std::string content;
    std::vector<std::string> parts;  // of the message
};

std::vector<Case> cases() {
    const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    const auto one = [](const std::string& fields, std::size_t bytes = 8) {
        return file_of(R"({"w":{)" + fields + "}}", bytes);
    };
    return {
        {"empty", "", {"only 0 bytes"}},
        {"short", "abc", {"only 3 bytes"}},
        {"length alone", with_length(10, ""), {"10 bytes", "truncated"}},
        {"length too long",
         with_length(good.size() + 9, good + std::string(8, 'x')),
         {"truncated"}},
        {"length enormous", with_length(~std::uint64_t{0}, good), {"100000000 are allowed"}},
        {"length over the limit", with_length(100'000'001, good), {"100000000 are allowed"}},
        {"length zero", with_length(0, good), {"does not begin with '{'"}},
        {"length too short", with_length(good.size() - 1, good + "12345678"), {"not valid JSON"}},
        {"not an object", file_of("[1]", 0), {"does not begin with '{'"}},
        {"leading blank", file_of(" " + good, 8), {"does not begin with '{'"}},
        {"not JSON", file_of("{hello}", 0), {"not valid JSON"}},
        {"text after it", file_of(good + "x", 8), {"not valid JSON"}},
        {"not UTF-8", file_of("{\"\xff\":1}", 0), {"not valid JSON"}},
        {"deeply nested arrays", file_of("{\"a\":" + std::string(1'000'000, '['), 0), {"'a'"}},
        {"deeply nested shape",
         one(R"("dtype":"F32","shape":)" + std::string(100'000, '['), 0),
         {"'w'", "an array in its shape"}},
        {"deeply nested objects",
         [] {
             std::string s = "{";
             for (int i = 0; i < 100'000; ++i)
                 s += "\"a\":{";
             return file_of(s, 0);
         }(),
         {"'a'", "unknown key 'a'"}},
        {"name twice",
         file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                 R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                 2),
         {"'a'", "twice"}},
        {"tensor is a number", file_of(R"({"a":7})", 0), {"'a'", "a number instead of an object"}},
        {"tensor is null", file_of(R"({"a":null})", 0), {"'a'", "null instead of an object"}},
        {"no dtype", one(R"("shape":[2],"data_offsets":[0,8])"), {"'w'", "no dtype"}},
        {"no shape", one(R"("dtype":"F32","data_offsets":[0,8])"), {"'w'", "no shape"}},
        {"no offsets", one(R"("dtype":"F32","shape":[2])"), {"'w'", "no data_offsets"}},
        {"dtype twice",
         one(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"),
         {"'w'", "'dtype' twice"}},
        {"unknown key",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"),
         {"'w'", "unknown key 'x'"}},
        {"dtype a number",
         one(R"("dtype":3,"shape":[2],"data_offsets":[0,8])"),
         {"'w'", "dtype that is a number"}},
        {"shape a number",
         one(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"),
         {"'w'", "shape that is a number"}},
        {"offsets text",
         one(R"("dtype":"F32","shape":[2],"data_offsets":"0,8")"),
         {"'w'", "data_offsets that are text"}},
        {"negative extent",
         one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
         {"'w'", "extent -2"}},
        {"fractional extent",
         one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
         {"'w'", "'2.0'"}},
        {"extent over 63 bits",
         one(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"),
         {"'w'", "9223372036854775808", "too large"}},
        {"extent over 64 bits",
         one(R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8])"),
         {"'w'", "99999999999999999999"}},
        {"extent true",
         one(R"("dtype":"F32","shape":[true],"data_offsets":[0,8])"),
         {"'w'", "true or false in its shape"}},
        {"shape overflows",
         one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
         {"'w'", "overflows"}},
        {"bytes overflow to a match",  // 2^61 * 8 is 2^64, which wraps to 0
         one(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])", 0),
         {"'w'", "overflows"}},
        {"negative offset",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"),
         {"'w'", "offset -8"}},
        {"one offset",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[8])"),
         {"'w'", "not two numbers"}},
        {"three offsets",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"),
         {"'w'", "not two numbers"}},
        {"offsets backwards",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
         {"'w'", "before it begins"}},
        {"shape too small",
         one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"),
         {"'w'", "needs 4 bytes", "have 8"}},
        {"shape too large",
         one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
         {"'w'", "needs 12 bytes"}},
        {"dtype of another size",
         one(R"("dtype":"F16","shape":[2],"data_offsets":[0,8])"),
         {"'w'", "F16", "needs 4 bytes"}},
        {"truncated data",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 7),
         {"'w'", "only 7", "truncated"}},
        {"offsets far beyond",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[18446744073709551600,18446744073709551608])"),
         {"'w'", "18446744073709551608"}},
        {"data left over",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 9),
         {"last 1 bytes", "belong to no tensor"}},
        {"hole before",
         one(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])", 12),
         {"4 bytes before tensor 'w'"}},
        {"hole between",
         file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                 5),
         {"1 bytes before tensor 'b'"}},
        {"overlap",
         file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                 6),
         {"'a' and 'b' overlap"}},
        {"same bytes twice",
         file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                 4),
         {"'a' and 'b' overlap"}},
        {"metadata not text",
         file_of(R"({"__metadata__":{"k":1}})", 0),
         {"__metadata__", "a number instead of text at 'k'"}},
        {"metadata nested",
         file_of(R"({"__metadata__":{"k":{}}})", 0),
         {"__metadata__", "an object instead of text at 'k'"}},
        {"metadata an array",
         file_of(R"({"__metadata__":[]})", 0),
         {"__metadata__", "an array instead of an object"}},
        {"metadata twice",
         file_of(R"({"__metadata__":{},"__metadata__":{}})", 0),
         {"__metadata__", "twice"}},
        {"metadata key twice", file_of(R"({"__metadata__":{"k":"a","k":"b"}})", 0), {"'k' twice"}},
    };
}

TEST(MalformedSafeTensors, EachFaultIsNamed) {
    const TempFolder folder;
    const auto path = folder / "bad.safetensors";
    for (const Case& c : cases()) {
        write_text(path, c.content);
        try {
            io::load_safetensors(path);
            ADD_FAILURE() << c.name << ": was accepted";
        } catch (const FileError& e) {
            const std::string message = e.what();
            EXPECT_NE(message.find(path.string()), std::string::npos) << c.name << ": " << message;
            for (const std::string& part : c.parts)
                EXPECT_NE(message.find(part), std::string::npos)
                    << c.name << ": no \"" << part << "\" in: " << message;
            EXPECT_LT(message.size(), 700u) << c.name;
        }
    }
}

TEST(MalformedSafeTensors, WhatTheFormatAllows) {
    const TempFolder folder;
    const auto path = folder / "w";
    // Blanks after the header, entries in any order, zero-sized tensors, large extents beside a
    // zero.
    write_text(path, file_of(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                             R"("z":{"dtype":"F32","shape":[0],"data_offsets":[1,1]},)"
                             R"("y":{"dtype":"F64","shape":[9223372036854775807,0,4294967296],)"
                             R"("data_offsets":[3,3]},)"
                             R"("a":{"shape":[1],"data_offsets":[0,1],"dtype":"U8"}}       )",
                             3));
    const io::SafeTensors file = io::load_safetensors(path);
    EXPECT_EQ(file.names(), (std::vector<std::string>{"b", "z", "y", "a"}));
    EXPECT_EQ(file.tensor("b").to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1}));
    EXPECT_EQ(file.tensor("z").numel(), 0);

    // Dtypes that nobody has heard of are passed over unless asked for.
    write_text(path, file_of(R"({"q":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2));
    EXPECT_ERROR(io::load_safetensors(path).tensor("q"), TypeError, "'q'", "'F4'");

    write_text(path, file_of(R"({"d":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],)"
                             R"("data_offsets":[0,1]}})",
                             1));
    EXPECT_ERROR(io::load_safetensors(path).tensor("d"), FileError, "'d'", "9 dimensions");
}

TEST(MalformedSafeTensors, BoolsAreZeroOrOne) {
    const TempFolder folder;
    const std::string header = R"({"t":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
    write_text(folder / "w", with_length(header.size(), header) + std::string("\0\1\2", 3));
    EXPECT_ERROR(io::load_safetensors(folder / "w").tensor("t"), FileError, "'t'", "BOOL");
}

TEST(MalformedSafeTensors, WhatIsNoFile) {
    const TempFolder folder;
    EXPECT_ERROR(io::load_safetensors(folder / "missing"), FileError, "missing", "No such file");
    EXPECT_ERROR(io::load_safetensors(folder.path()), FileError, "is a folder");
    EXPECT_ERROR(io::load_safetensors("/dev/null"), FileError, "not a regular file");
}

// Every prefix of a valid file.
TEST(MalformedSafeTensors, TruncatedAnywhere) {
    const TempFolder folder;
    io::save_safetensors(folder / "good",
                         {{"weight", ones({3, 4})}, {"n", scalar(1, int64)}, {"e", zeros({0})}});
    const std::string good = test::read_text(folder / "good");
    for (std::size_t n = 0; n < good.size(); ++n) {
        write_text(folder / "cut", good.substr(0, n));
        EXPECT_THROW(io::load_safetensors(folder / "cut"), FileError) << n << " bytes";
    }
}

TEST(MalformedSafeTensors, RandomDamage) {
    const TempFolder folder;
    io::save_safetensors(folder / "good",
                         {{"weight", ones({3, 4})},
                          {"flag", tensor(std::vector<std::uint8_t>{1, 0, 1}).to(boolean)},
                          {"half", zeros({5}, float16)},
                          {"e", zeros({0, 2})}},
                         {{"format", "pt"}});
    const std::string good = test::read_text(folder / "good");
    const std::string interesting = "\"{}[],:-0129eE.\\u \xff";
    std::mt19937 random(7);
    int accepted = 0, refused = 0, files = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::string bad = good;
        for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
            const std::size_t at = random() % bad.size();
            const char byte = random() % 2 ? interesting[random() % interesting.size()]
                                           : static_cast<char>(random());
            switch (random() % 4) {
                case 0:
                    bad[at] = byte;
                    break;
                case 1:
                    bad.insert(at, 1, byte);
                    break;
                case 2:
                    bad.erase(at, 1 + random() % 3);
                    break;
                default:
                    bad[random() % std::min<std::size_t>(bad.size(), 8)] = byte;
                    break;
            }
            if (bad.empty()) break;
        }
        try {
            const io::Header header = io::parse_header(std::as_bytes(std::span(bad)), "bad");
            for (const io::TensorInfo& t : header.tensors)
                ASSERT_LE(t.offset + t.bytes, bad.size());
            if (++files <= 200) {  // the disk is slow
                write_text(folder / "bad", bad);
                io::load_safetensors(folder / "bad").tensors();
            }
            ++accepted;
        } catch (const FileError&) {
            ++refused;
        } catch (const TypeError&) {
            ++refused;
        }
    }
    EXPECT_GT(accepted, 0);  // damage to the elements alone is no fault of the file
    EXPECT_GT(refused, 1000);
    EXPECT_GT(files, 200);
}

}  // namespace
}  // namespace pippin
