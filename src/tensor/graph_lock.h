// Traversals write scratch marks into nodes, so one thread at a time traverses.
#pragma once

#include <cstdint>
#include <mutex>

namespace pippin {

class GraphLock {
  public:
    GraphLock();

  private:
    std::unique_lock<std::recursive_mutex> lock_;
};

/// A mark that no node has; call it under the lock.
std::uint32_t next_mark();

}  // namespace pippin
