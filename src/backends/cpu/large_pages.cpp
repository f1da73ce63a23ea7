#include "backends/cpu/large_pages.h"

#include <algorithm>
#include <iterator>

namespace pippin::cpu {
namespace {

constexpr std::size_t kChunk = std::size_t{32} << 20, kPage = std::size_t{2} << 20, kAlign = 64;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

void* LargePages::take(std::size_t bytes) {
    const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kAlign);
    std::lock_guard lock(mutex_);
    std::byte* best = nullptr;
    std::size_t offset = 0, least = 0;
    for (const auto& [start, chunk] : chunks_)
        for (const auto& [at, n] : chunk.free)
            if (n >= size && (!best || n < least)) best = start, offset = at, least = n;
    if (!best) {
        const std::size_t whole = std::max(kChunk, round_up(size, kPage));
        best = static_cast<std::byte*>(allocate_chunk(whole));
        if (!best) return nullptr;
        chunks_[best] = {whole, {{0, whole}}};
        offset = 0, least = whole;
    }
    auto& free = chunks_[best].free;
    free.erase(offset);
    if (least > size) free[offset + size] = least - size;
    return best + offset;
}

bool LargePages::give(void* data, std::size_t bytes) {
    std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kAlign);
    auto* at = static_cast<std::byte*>(data);
    std::lock_guard lock(mutex_);
    auto it = chunks_.upper_bound(at);
    if (it == chunks_.begin()) return false;
    auto& [start, chunk] = *--it;
    if (at >= start + chunk.bytes) return false;
    auto offset = static_cast<std::size_t>(at - start);
    const auto after = chunk.free.lower_bound(offset);
    if (after != chunk.free.end() && after->first == offset + size) size += after->second;
    if (after != chunk.free.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second == offset) {
            offset = before->first;
            size += before->second;
        }
    }
    if (after != chunk.free.end() && after->first > offset && after->first < offset + size)
        chunk.free.erase(after);
    chunk.free[offset] = size;
    if (size == chunk.bytes) {
        free_chunk(start, chunk.bytes);
        chunks_.erase(it);
    }
    return true;
}

std::size_t LargePages::chunk_bytes() const {
    std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [start, chunk] : chunks_)
        sum += chunk.bytes;
    return sum;
}

}  // namespace pippin::cpu
