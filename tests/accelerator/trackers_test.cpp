// What trackers write.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/accelerator.h"

namespace pippin {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {(std::istreambuf_iterator<char>(in)), {}};
}

TEST(Trackers, CsvGainsColumns) {
    test::TempFolder folder;
    const auto t = train::make_tracker("csv", folder.path());
    t->config({{"lr", "0.1"}, {"note", "a, \"b\""}});
    t->log({{"loss", 1.5}}, 1);
    t->log({{"loss", 1.25}, {"accuracy", 0.5}}, 2);
    t->log({{"accuracy", 0.75}, {"loss", std::nan("")}}, 3);
    EXPECT_EQ(text_of(folder.path() / "metrics.csv"),
              "step,loss,accuracy\n1,1.5,\n2,1.25,0.5\n3,,0.75\n");
    EXPECT_EQ(text_of(folder.path() / "config.csv"), "name,value\nlr,0.1\nnote,\"a, \"\"b\"\"\"\n");
}

TEST(Trackers, JsonLines) {
    test::TempFolder folder;
    const auto t = train::make_tracker("jsonl", folder.path());
    t->log({{"loss", 1.5}}, 1);
    t->log({{"loss", INFINITY}}, 2);
    EXPECT_EQ(text_of(folder.path() / "metrics.jsonl"),
              "{\"loss\":1.5,\"step\":1}\n{\"loss\":null,\"step\":2}\n");
}

// The record format, with its checksums worked out bit by bit.
std::uint32_t crc32c(const std::string& s) {
    std::uint32_t c = 0xffffffff;
    for (const char byte : s) {
        c ^= static_cast<unsigned char>(byte);
        for (int k = 0; k < 8; ++k)
            c = (c >> 1) ^ (c & 1 ? 0x82f63b78 : 0);
    }
    return ~c;
}
std::uint32_t masked(const std::string& s) {
    const std::uint32_t c = crc32c(s);
    return (c >> 15 | c << 17) + 0xa282ead8;
}

TEST(Trackers, TensorBoardRecords) {
    EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // the published check value
    test::TempFolder folder;
    {
        AcceleratorOptions o;
        o.project_dir = folder.path();
        o.log_with = {"tensorboard"};
        Accelerator a(o);
        a.init_trackers("run", {{"lr", "0.1"}});
        a.log({{"loss", 1.5}, {"accuracy", 0.25}}, 7);
        a.end_training();
    }
    fs::path file;
    for (const auto& entry : fs::directory_iterator(folder.path() / "run"))
        file = entry.path();
    EXPECT_EQ(file.filename().string().rfind("events.out.tfevents.", 0), 0u);
    const std::string bytes = text_of(file);
    std::vector<std::string> records;
    for (std::size_t at = 0; at < bytes.size();) {
        std::uint64_t length = 0;
        std::uint32_t check = 0;
        ASSERT_LE(at + 12, bytes.size());
        std::memcpy(&length, &bytes[at], 8);
        std::memcpy(&check, &bytes[at + 8], 4);
        EXPECT_EQ(check, masked(bytes.substr(at, 8)));
        ASSERT_LE(at + 16 + length, bytes.size());
        records.push_back(bytes.substr(at + 12, length));
        std::memcpy(&check, &bytes[at + 12 + length], 4);
        EXPECT_EQ(check, masked(records.back()));
        at += 16 + length;
    }
    ASSERT_EQ(records.size(), 3u);
    EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
    EXPECT_NE(records[1].find("|lr|0.1|"), std::string::npos);
    const float loss = 1.5f;
    EXPECT_NE(records[2].find(std::string("loss\x15") +
                              std::string(reinterpret_cast<const char*>(&loss), 4)),
              std::string::npos);
}

TEST(Trackers, Faults) {
    test::TempFolder folder;
    EXPECT_ERROR(train::make_tracker("wandb", folder.path()), ValueError, "wandb", "tensorboard");
    std::ofstream(folder.path() / "file") << "x";
    EXPECT_ERROR(train::make_tracker("csv", folder.path() / "file"), FileError, "file");
    AcceleratorOptions o;
    o.log_with = {"csv"};
    EXPECT_ERROR(Accelerator(o).init_trackers("run"), ValueError, "project_dir");
}

}  // namespace
}  // namespace pippin
