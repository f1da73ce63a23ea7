// Blocks out of shared chunks: apart from each other, aligned, and given back whole.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/large_pages.h"

namespace pippin {
namespace {

TEST(LargePages, BlocksKeepWhatIsTheirs) {
    cpu::LargePages pages;
    std::mt19937 random(1);
    struct Block {
        unsigned char* data;
        std::size_t bytes;
        unsigned char mark;
    };
    std::vector<Block> live;
    std::size_t bytes_live = 0, most = 0;
    const auto give = [&](std::size_t k) {
        const Block b = live[k];
        // Its ends, which a neighbour would have written over.
        ASSERT_EQ(b.data[0], b.mark);
        ASSERT_EQ(b.data[b.bytes - 1], b.mark);
        ASSERT_TRUE(pages.give(b.data, b.bytes));
        bytes_live -= b.bytes;
        live[k] = live.back();
        live.pop_back();
    };
    for (int turn = 0; turn < 20000; ++turn) {
        if (live.empty() || (random() % 8 < 5 && live.size() < 60)) {
            const std::size_t bytes = std::size_t{1} << (6 + random() % 17);
            Block b{nullptr, bytes + random() % bytes, static_cast<unsigned char>(random())};
            b.data = static_cast<unsigned char*>(pages.take(b.bytes));
            ASSERT_NE(b.data, nullptr);
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(b.data) % 64, 0u);
            b.data[0] = b.data[b.bytes - 1] = b.mark;
            bytes_live += b.bytes;
            live.push_back(b);
        } else {
            give(random() % live.size());
        }
        most = std::max(most, bytes_live);
        // What is free between blocks stays within reason.
        ASSERT_LE(pages.chunk_bytes(), 2 * most + (std::size_t{64} << 20));
    }
    while (!live.empty())
        give(live.size() - 1);
    EXPECT_EQ(pages.chunk_bytes(), 0u);
}

TEST(LargePages, ForeignBlocksAreRefused) {
    cpu::LargePages pages;
    int x = 0;
    EXPECT_FALSE(pages.give(&x, sizeof x));
    void* block = pages.take(100);
    EXPECT_FALSE(pages.give(&x, sizeof x));
    EXPECT_TRUE(pages.give(block, 100));
}

}  // namespace
}  // namespace pippin
