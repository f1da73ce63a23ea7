#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/threads.h"
#include "pippin/error.h"

namespace pippin::cpu {

namespace {

struct Loop {
    std::int64_t extent, from, to;  ///< strides in elements
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

template <class To, class From>
To convert(From v) {
    if constexpr (std::is_same_v<To, From>)
        return v;
    else if constexpr (std::is_same_v<To, double>)
        return static_cast<double>(static_cast<float>(v));
    else if constexpr (std::is_same_v<From, double>)
        return To(static_cast<float>(v));
    else
        return To(static_cast<float>(v));
}

template <class From, class To>
void copy_loops(const Loop* loops, int count, const From* source, To* target) {
    const Loop inner = loops[count - 1];
    std::int64_t rows = 1;
    for (int i = 0; i + 1 < count; ++i)
        rows *= loops[i].extent;
    const auto copy_row = [inner](const From* s, To* t, std::int64_t begin, std::int64_t end) {
        if (inner.from == 1 && inner.to == 1)
            for (std::int64_t i = begin; i < end; ++i)
                t[i] = convert<To>(s[i]);
        else
            for (std::int64_t i = begin; i < end; ++i)
                t[i * inner.to] = convert<To>(s[i * inner.from]);
    };
    const std::int64_t work = rows * inner.extent;
    if (rows == 1) {
        parallel_ranges(inner.extent, work, [&](std::int64_t b, std::int64_t e, int) {
            copy_row(source, target, b, e);
        });
        return;
    }
    parallel_ranges(rows, work, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t r = begin; r < end; ++r) {
            std::int64_t rest = r, s = 0, t = 0;
            for (int i = count - 2; i >= 0; --i) {
                const std::int64_t at = rest % loops[i].extent;
                rest /= loops[i].extent;
                s += at * loops[i].from;
                t += at * loops[i].to;
            }
            copy_row(source + s, target + t, 0, inner.extent);
        }
    });
}

template <class From>
void copy_from(DType to, const Loop* loops, int count, const From* source, void* target) {
    switch (to) {
        case DType::Float16:
            return copy_loops(loops, count, source, static_cast<Half*>(target));
        case DType::BFloat16:
            return copy_loops(loops, count, source, static_cast<BFloat*>(target));
        case DType::Float32:
            return copy_loops(loops, count, source, static_cast<float*>(target));
        case DType::Float64:
            return copy_loops(loops, count, source, static_cast<double*>(target));
        default:
            throw Error("the CPU cannot convert to this dtype here");
    }
}

}  // namespace

void copy_strided(const plan::Operand& from, const void* source, const plan::Operand& to,
                  void* target) {
    if (to.shape.numel() == 0) return;
    std::array<Loop, 8> loops;
    const int count = plan_loops(from, to, loops.data());
    const Loop* l = loops.data();
    if (from.dtype == to.dtype) {
        switch (size_of(to.dtype)) {
            case 1:
                return copy_loops(l, count, static_cast<const std::uint8_t*>(source),
                                  static_cast<std::uint8_t*>(target));
            case 2:
                return copy_loops(l, count, static_cast<const std::uint16_t*>(source),
                                  static_cast<std::uint16_t*>(target));
            case 4:
                return copy_loops(l, count, static_cast<const std::uint32_t*>(source),
                                  static_cast<std::uint32_t*>(target));
            default:
                return copy_loops(l, count, static_cast<const std::uint64_t*>(source),
                                  static_cast<std::uint64_t*>(target));
        }
    }
    switch (from.dtype) {
        case DType::Float16:
            return copy_from(to.dtype, l, count, static_cast<const Half*>(source), target);
        case DType::BFloat16:
            return copy_from(to.dtype, l, count, static_cast<const BFloat*>(source), target);
        case DType::Float32:
            return copy_from(to.dtype, l, count, static_cast<const float*>(source), target);
        case DType::Float64:
            return copy_from(to.dtype, l, count, static_cast<const double*>(source), target);
        default:
            throw Error("the CPU cannot convert from this dtype here");
    }
}

}  // namespace pippin::cpu
