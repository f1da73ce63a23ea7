// Averages gradients over the processes, in buckets that travel while backward still computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pippin/tensor.h"

namespace pippin::dist {

/// What has been exchanged so far by this process.
struct SyncStats {
    std::int64_t rounds = 0;   ///< calls of average()
    std::int64_t buckets = 0;  ///< all-reduces of gradients
    /// Those that began while the processor was still computing the last of the round's gradients.
    std::int64_t early = 0;
    std::int64_t bytes = 0;  ///< of gradients
};
/// Waits for what is under way.
SyncStats sync_stats();

class GradientSync {
  public:
    explicit GradientSync(std::size_t bucket_bytes);
    ~GradientSync();

    /// Submits what is pending (a backward pass) and makes each gradient the mean over all
    /// processes, where one has none counting as zeros; a gradient that no process has stays
    /// undefined. Buffers become those of process 0. Does not wait: what reads them does. `signal`:
    /// a number whose maximum all processes are to know.
    void average(const std::vector<Tensor>& parameters, const std::vector<Tensor>& buffers,
                 int signal);
    /// The highest signal of any process at the call of average() before the last one, which all
    /// processes know alike; 0 before there were two.
    int signal_of_all();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Parameters and buffers become those of process 0. ValueError in all processes unless all have
/// the same names, shapes and dtypes.
void make_equal(const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace pippin::dist
