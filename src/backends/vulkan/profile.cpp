#include "backends/vulkan/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "backends/vulkan/device_clock.h"

namespace pippin::vulkan {
namespace {

class Totals {
  public:
    ~Totals() {
        std::vector<std::pair<std::string, Sum>> rows(sums_.begin(), sums_.end());
        std::sort(rows.begin(), rows.end(),
                  [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
        double all = 0;
        for (const auto& [name, s] : rows)
            all += s.ns;
        fmt::print(stderr, "device time by dispatch, {:.3f} ms in all:\n", all / 1e6);
        for (const auto& [name, s] : rows)
            fmt::print(stderr, "{:10.3f} ms {:5.1f} % {:7} x {:9.2f} us  {}\n", s.ns / 1e6,
                       100 * s.ns / std::max(all, 1.0), s.count, s.ns / 1e3 / double(s.count),
                       name);
    }
    void add(const std::string& name, double ns) {
        std::lock_guard lock(mutex_);
        Sum& s = sums_[name];
        s.ns += ns;
        ++s.count;
    }

  private:
    struct Sum {
        double ns = 0;
        std::int64_t count = 0;
    };
    std::mutex mutex_;
    std::map<std::string, Sum> sums_;
};

Totals& totals() {
    static Totals t;
    return t;
}

bool sums_wanted() {
    static const bool on = [] {
        const char* text = std::getenv("PIPPIN_GPU_PROFILE");
        return text && *text && *text != '0';
    }();
    return on;
}

// A device in the picture.
struct Place {
    DeviceClock clock;
    std::uint32_t row;
    explicit Place(Context& c, std::size_t number)
        : clock(c),
          row(recording::device_row(
              number == 0 ? c.caps.name : fmt::format("{} ({})", c.caps.name, number + 1),
              "launches")) {}
};
Place& place_of(Context& c) {
    static std::mutex mutex;
    static auto* places = new std::map<const Context*, std::unique_ptr<Place>>;
    std::lock_guard lock(mutex);
    auto& p = (*places)[&c];
    if (!p) p = std::make_unique<Place>(c, places->size() - 1);
    return *p;
}

}  // namespace

bool profiling() { return sums_wanted() || recording::on(); }

Stopwatch::Stopwatch(Context& context, std::size_t dispatches)
    : context_(context), size_(static_cast<std::uint32_t>(dispatches + 1)) {
    if (sums_wanted()) totals();
    if (recording::on()) place_of(context_);  // before the work whose ticks it tells
    VkQueryPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = size_;
    check(vkCreateQueryPool(context_.device, &info, nullptr, &pool_), "creating timestamps");
}

Stopwatch::~Stopwatch() { vkDestroyQueryPool(context_.device, pool_, nullptr); }

void Stopwatch::start(VkCommandBuffer commands) {
    vkCmdResetQueryPool(commands, pool_, 0, size_);
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_, 0);
}

void Stopwatch::lap(VkCommandBuffer commands, std::string name, recording::WorkPtr launch) {
    launches_.push_back(std::move(launch));
    names_.push_back(std::move(name));
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_,
                        static_cast<std::uint32_t>(names_.size()));
}

void Stopwatch::collect() {
    std::vector<std::uint64_t> ticks(names_.size() + 1);
    if (vkGetQueryPoolResults(context_.device, pool_, 0, static_cast<std::uint32_t>(ticks.size()),
                              8 * ticks.size(), ticks.data(), 8,
                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT) != VK_SUCCESS)
        return;
    if (recording::on()) record(ticks);
    if (!sums_wanted()) return;
    for (std::size_t k = 0; k < names_.size(); ++k)
        totals().add(names_[k],
                     double(ticks[k + 1] - ticks[k]) * context_.caps.nanoseconds_per_tick);
}

void Stopwatch::record(const std::vector<std::uint64_t>& ticks) const {
    Place& place = place_of(context_);
    std::vector<std::int64_t> times;
    for (const std::uint64_t t : ticks)
        times.push_back(std::max(place.clock.nanoseconds(t), times.empty() ? 0 : times.back()));
    // A launch whose dispatches have others between them comes in parts, each with its share.
    std::map<const recording::Work*, std::int64_t> whole;
    for (std::size_t k = 0; k < names_.size(); ++k)
        whole[launches_[k].get()] += times[k + 1] - times[k];
    for (std::size_t k = 0; k < names_.size();) {
        std::size_t end = k + 1;
        while (end < names_.size() && launches_[end] == launches_[k])
            ++end;
        recording::WorkPtr work = launches_[k];
        const std::int64_t all = whole[work.get()], part = times[end] - times[k];
        if (part < all) {
            recording::Work share = *work;
            const double ratio = static_cast<double>(part) / static_cast<double>(all);
            share.bytes = std::llround(static_cast<double>(share.bytes) * ratio);
            share.flops = std::llround(static_cast<double>(share.flops) * ratio);
            work = std::make_shared<const recording::Work>(std::move(share));
        }
        recording::add({times[k], times[end], place.row, work});
        for (std::size_t d = k; d < end && (end - k > 1 || part < all); ++d)
            recording::add({times[d], times[d + 1], place.row,
                            recording::named(recording::Category::Part, names_[d])});
        k = end;
    }
}

}  // namespace pippin::vulkan
