// One launch done in several ways on a device, to see which is fastest and whether all agree.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/work.h"

namespace pippin::gpu {

/// What tries work: a device, beside whatever else it does. Used by one thread at a time.
class Bench {
  public:
    virtual ~Bench() = default;
    /// Memory that trials may take, in bytes.
    virtual std::int64_t most_bytes() const = 0;
    /// Whether a launch is done soon enough to run in one piece, by guess.
    virtual bool is_brief(double operations, double bytes) const = 0;
    /// Makes room for so many bytes, in one piece and in place of what was there; false: there is
    /// none.
    virtual bool reserve(std::int64_t bytes) = 0;
    /// Compiles all kernels of the works, by all cores; for each work an error's text, empty where
    /// all went well. The works stay where they are until forget().
    virtual std::vector<std::string> prepare(std::span<const Work* const> works) = 0;
    /// Runs a work's dispatches `times` times over; slots and scratch memory begin so many bytes
    /// behind the reserved memory's beginning. Returns the device's seconds for all.
    virtual double run(const Work& work, std::span<const std::int64_t> slots, std::int64_t scratch,
                       int times) = 0;
    virtual void read(void* to, std::int64_t from, std::int64_t bytes) = 0;
    /// This work's kernels will be used: they need not be compiled again.
    virtual void keep(const Work& work) = 0;
    /// Gives the other kernels back.
    virtual void forget() = 0;
    /// Gives kernels and memory back.
    virtual void release() = 0;
};

/// Whether a launch may have several ways.
bool has_ways(const plan::Launch& launch);

/// The ways of one launch that are compared.
class Trial {
  public:
    struct Way {
        LaunchChoice choice;
        Work work;
        double seconds = std::numeric_limits<double>::infinity();  ///< best time so far
        double first = 0;   ///< the run that was checked took so long
        std::string fault;  ///< why it is out
        bool out() const { return !fault.empty(); }
    };

    /// Of a plan's launch; the only way so far is the default one. Throws Error where there is no
    /// kernel for it, or it is too large to be tried.
    Trial(const plan::Plan& plan, std::size_t launch, const Features& features);
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;

    /// Adds a way; false where it is there already, or cannot be.
    bool add(LaunchChoice choice);
    /// Adds what differs from way `base` in one thing: another algorithm (of the default way only),
    /// another form of one of its larger products; or all products' best forms so far at once.
    /// The number of ways added.
    std::size_t branch(std::size_t base);
    /// What Bench::prepare() is given for the ways from `from` on (0: and for the tools).
    std::vector<const Work*> works(std::size_t from) const;
    /// Bytes of the reserved memory that it needs.
    std::int64_t bytes() const { return places().end; }

    /// Runs, checks and measures the ways from `from` on, the default one beside them. False where
    /// the default cannot be measured (no room, results that are not finite).
    bool measure(Bench& bench, std::size_t from);
    /// The fastest, or the default one unless that is slower by `margin` (a part of its time).
    std::size_t best(double margin) const;

    std::deque<Way>& ways() { return ways_; }
    const std::deque<Way>& ways() const { return ways_; }

  private:
    struct Places {
        std::vector<std::int64_t> slots;
        std::int64_t kept = 0, sums = 0, scratch = 0, end = 0;
    };
    struct Difference {
        double worst = 0, largest = 0;
        bool finite = true;
    };
    const Step& step(const Way& w) const { return w.work.steps[0]; }
    Places places() const;
    void write_fill();
    void write_keep();
    void write_compare();
    void fill(Bench& bench, const Places& at, std::int64_t seed);
    Difference compare(Bench& bench, const Places& at);
    void check(Bench& bench, const Places& at, Way& w, std::int64_t seed, double largest);

    Features features_;
    plan::Plan plan_;       // of the launch alone; behind its slots are the kept result and sums
    double tolerance_ = 0;  // of the largest result
    std::deque<Way> ways_;
    Work fill_, keep_, compare_;   // fills memory, copies the result, compares it to the copy
    std::size_t output_fill_ = 0;  // the dispatch that fills what is written only; or past the end
};

}  // namespace pippin::gpu
