#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/program_functions.h"
#include "backends/cpu/threads.h"

namespace pippin::cpu {

namespace {

using std::int64_t;

struct Loop {
    int64_t extent, from, to;  ///< strides in elements
};

// The dims in the target's memory order, outermost first, merged where both views allow it.
int plan_loops(const plan::Operand& from, const plan::Operand& to, Loop* loops) {
    std::array<int, 8> dims{};
    const int rank = to.shape.rank();
    std::iota(dims.begin(), dims.begin() + rank, 0);
    std::stable_sort(dims.begin(), dims.begin() + rank, [&to](int a, int b) {
        return to.strides[static_cast<std::size_t>(a)] > to.strides[static_cast<std::size_t>(b)];
    });
    int count = 0;
    for (int k = 0; k < rank; ++k) {
        const int d = dims[static_cast<std::size_t>(k)];
        const Loop l{to.shape[d], from.strides[static_cast<std::size_t>(d)],
                     to.strides[static_cast<std::size_t>(d)]};
        if (l.extent == 1) continue;
        Loop* last = count > 0 ? &loops[count - 1] : nullptr;
        if (last && last->from == l.from * l.extent && last->to == l.to * l.extent) {
            *last = {last->extent * l.extent, l.from, l.to};
        } else {
            loops[count++] = l;
        }
    }
    if (count == 0) loops[count++] = {1, 1, 1};
    return count;
}

// Part of a line of elements, in pieces that fit into the nearest cache where they must be gathered
// or scattered around their conversion.
class Line {
  public:
    Line(const plan::Operand& from, const plan::Operand& to, const Loop& loop)
        : from_size_(static_cast<int64_t>(size_of(from.dtype))),
          to_size_(static_cast<int64_t>(size_of(to.dtype))),
          from_(loop.from),
          to_(loop.to),
          gather_(find_copy(size_of(from.dtype))),
          scatter_(find_copy(size_of(to.dtype))) {
        if (from.dtype != to.dtype) convert_ = find_convert(from.dtype, to.dtype);
    }

    void run(const char* source, char* target, int64_t begin, int64_t end) const {
        source += begin * from_ * from_size_;
        target += begin * to_ * to_size_;
        const int64_t count = end - begin;
        if (!convert_)
            gather_(target, {0, to_}, source, {0, from_}, 1, static_cast<std::size_t>(count));
        else if (from_ == 1 && to_ == 1)
            convert_(target, source, nullptr, nullptr, static_cast<std::size_t>(count));
        else
            pieces(source, target, count);
    }

  private:
    void pieces(const char* source, char* target, int64_t count) const {
        constexpr int64_t kPiece = 512;
        alignas(64) char gathered[kPiece * 8], converted[kPiece * 8];
        for (int64_t i = 0; i < count; i += kPiece) {
            const auto n = static_cast<std::size_t>(std::min(kPiece, count - i));
            gather_(gathered, {0, 1}, source + i * from_ * from_size_, {0, from_}, 1, n);
            convert_(converted, gathered, nullptr, nullptr, n);
            scatter_(target + i * to_ * to_size_, {0, to_}, converted, {0, 1}, 1, n);
        }
    }

    int64_t from_size_, to_size_, from_, to_;
    Copy2 gather_, scatter_;
    Fn convert_ = nullptr;
};

}  // namespace

void copy_strided(const plan::Operand& from, const void* source, const plan::Operand& to,
                  void* target) {
    const int64_t work = to.shape.numel();
    if (work == 0) return;
    std::array<Loop, 8> loops;
    const int count = plan_loops(from, to, loops.data());
    const Loop inner = loops[static_cast<std::size_t>(count - 1)];
    const Line line(from, to, inner);
    const char* s = static_cast<const char*>(source);
    char* t = static_cast<char*>(target);
    if (count == 1) {
        parallel_ranges(work, work,
                        [&](int64_t begin, int64_t end, int) { line.run(s, t, begin, end); });
        return;
    }
    const auto from_size = static_cast<int64_t>(size_of(from.dtype));
    const auto to_size = static_cast<int64_t>(size_of(to.dtype));
    parallel_ranges(work / inner.extent, work, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
            int64_t rest = r, s_at = 0, t_at = 0;
            for (int i = count - 2; i >= 0; --i) {
                const Loop& l = loops[static_cast<std::size_t>(i)];
                const int64_t at = rest % l.extent;
                rest /= l.extent;
                s_at += at * l.from;
                t_at += at * l.to;
            }
            line.run(s + s_at * from_size, t + t_at * to_size, 0, inner.extent);
        }
    });
}

}  // namespace pippin::cpu
