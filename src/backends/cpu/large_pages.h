// Memory for tensors out of chunks that lie on large pages. A tensor of its own allocation would
// have ordinary pages but for its middle, and where the system moves or scans pages (virtual
// machines, NUMA balancing) the first touch of each after a while costs microseconds.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace pippin::cpu {

/// Whole chunks from the system, or null.
void* allocate_chunk(std::size_t bytes);
void free_chunk(void* data, std::size_t bytes);

/// Blocks within chunks, best fit. A chunk without blocks goes back to the system.
class LargePages {
  public:
    /// Aligned to 64 bytes; null where there is no memory.
    void* take(std::size_t bytes);
    /// False where it is none of these blocks.
    bool give(void* data, std::size_t bytes);
    std::size_t chunk_bytes() const;

  private:
    struct Chunk {
        std::size_t bytes = 0;
        std::map<std::size_t, std::size_t> free;  // sizes by offset, no two of them neighbours
    };
    mutable std::mutex mutex_;
    std::map<std::byte*, Chunk> chunks_;
};

}  // namespace pippin::cpu
