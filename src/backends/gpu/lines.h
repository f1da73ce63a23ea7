// Ops that go along one dim in order see their operands as lines: [outer, n, inner].
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "backends/gpu/work.h"

namespace pippin::gpu {

struct Lines {
    std::int64_t outer = 1, n = 1, inner = 1;

    Lines(const Shape& s, int dim) : n(s[dim]) {
        for (int d = 0; d < s.rank(); ++d)
            (d < dim ? outer : inner) *= d == dim ? 1 : s[d];
    }
    std::int64_t count() const { return outer * inner; }
    /// The place of a line's first element, where each has `length` of them: an expression.
    std::string first(const std::string& line, std::int64_t length) const {
        if (inner == 1) return fmt::format("({}) * {}", line, length);
        return fmt::format("(({0}) / {1} * {2} + ({0}) % {1})", line, inner, length * inner);
    }
    std::string first(const std::string& line) const { return first(line, n); }
};

/// Throws Error unless all operands are dense and row-major, of dtypes with kernels, and countable
/// with 32 bits.
void check_dense(const plan::HeavyLaunch& l);

/// Adds a dispatch of a kernel of one thread an element: `body` has int i, below `count`. The
/// arguments follow the number of groups.
void add_elements(Work& w, Step& s, std::string name, const std::string& functions,
                  const std::string& body, std::int64_t count, std::vector<Arg> args);

}  // namespace pippin::gpu
