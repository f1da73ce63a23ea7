#include "backends/cpu/program_execute.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/threads.h"

namespace pippin::cpu {
namespace {

// What a run costs besides its elements, in elements.
constexpr std::int64_t kRunCost = 256;
// Operands of a thread that its second-level cache may still hold.
constexpr std::int64_t kNearBytes = 1 << 20;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

}  // namespace

BadIndex first_bad(const std::vector<BadIndex>& found) {
    for (const auto& b : found)
        if (b.found) return b;
    return {};
}

BadIndex run_blocks(const BlockProgram& p, std::span<const ProgramKernel::Run> runs,
                    Scalars scalars) {
    const auto columns_of = [&](const ProgramKernel::Run& r) {
        return p.dynamic ? r.extent : p.columns;
    };
    std::int64_t total = 0;
    for (const auto& r : runs)
        total += p.row_count * columns_of(r) + kRunCost;
    const std::int64_t elements = total - kRunCost * static_cast<std::int64_t>(runs.size());
    if (elements == 0) return {};
    const int threads = threads_for(total / kRunCost, p.work(elements));
    std::int64_t bytes = 0;
    for (const Direct& d : p.block_direct)
        if (d.count == Count::Full) bytes += elements * d.element;
    const bool ahead = bytes > kNearBytes * threads;
    if (threads == 1) {
        Frame frame(p, scalars);
        if (ahead) frame.look_ahead();
        for (const auto& r : runs) {
            const std::int64_t columns = columns_of(r), units = p.unit_count(columns);
            if (units == 0) continue;
            frame.bind(r.pointers, columns);
            for (std::int64_t u = 0; u < units; ++u)
                frame.run(u);
        }
        return frame.bad();
    }
    std::vector<BadIndex> found(static_cast<std::size_t>(threads));
    parallel_threads(threads, [&](int t) {
        // A block belongs to the thread whose share of the elements it starts in.
        const std::int64_t low = total / threads * t + total % threads * t / threads;
        const std::int64_t high = total / threads * (t + 1) + total % threads * (t + 1) / threads;
        Frame frame(p, scalars);
        if (ahead) frame.look_ahead();
        std::int64_t start = 0;
        for (const auto& r : runs) {
            const std::int64_t columns = columns_of(r), units = p.unit_count(columns);
            const std::int64_t end = start + p.row_count * columns + kRunCost;
            if (start >= high) break;
            if (end > low && units > 0) {
                const std::int64_t unit = std::max<std::int64_t>(1, p.row_count * columns / units);
                const std::int64_t first = std::min(ceil_div(low - start, unit), units);
                const std::int64_t last =
                    high >= end ? units : std::min(ceil_div(high - start, unit), units);
                if (first < last) frame.bind(r.pointers, columns);
                for (std::int64_t u = first; u < last; ++u)
                    frame.run(u);
            }
            start = end;
        }
        found[static_cast<std::size_t>(t)] = frame.bad();
    });
    return first_bad(found);
}

void Bases::move_to(const Part& part, std::size_t accesses, void* const* start, std::int64_t point,
                    std::int64_t first_column) {
    std::vector<std::int64_t> at(part.base.size());
    for (std::size_t d = at.size(); d-- > 0; point /= part.base[d])
        at[d] = point % part.base[d];
    pointers.assign(part.views.size(), nullptr);
    moved.assign(part.views.size(), 0);
    for (std::size_t v = 0; v < accesses; ++v) {
        const View& view = part.views[v];
        moved[v] = first_column * view.column;
        for (std::size_t d = 0; d < at.size(); ++d)
            moved[v] += view.base[d] * at[d];
        if (start[v])
            pointers[v] = static_cast<std::byte*>(start[v]) +
                          moved[v] * static_cast<std::int64_t>(size_of(view.dtype));
    }
}

Results::Results(const Parts& parts, const std::vector<plan::Instr>& body) {
    for (const auto r : parts.reductions) {
        instrs_.push_back(r);
        types_.push_back(body[static_cast<std::size_t>(r)].type);
        arrays_.emplace_back(static_cast<std::size_t>(parts.kept) * size_of(types_.back()) + 64);
    }
}

std::size_t Results::find(std::int32_t instr) const {
    return static_cast<std::size_t>(std::find(instrs_.begin(), instrs_.end(), instr) -
                                    instrs_.begin());
}

// ---- Partials ----

Partials::Partials(const std::vector<BlockProgram::Reduction>& reductions, std::size_t n)
    : reductions_(reductions), n_(n), most_(n) {
    for (const auto& r : reductions) {
        offsets_.push_back(level_bytes_);
        level_bytes_ += (n * size_of(r.reducer->result) + 63) / 64 * 64;
        offsets_.push_back(level_bytes_);
        if (r.reducer->has_companion)
            level_bytes_ += (n * size_of(r.reducer->companion) + 63) / 64 * 64;
    }
}

void Partials::reset(std::size_t n) {
    n_ = std::min(n, most_);
    depth_ = 0;
}

void* Partials::at(std::size_t reduction, std::size_t level, bool companion) {
    while (levels_.size() <= level)
        levels_.emplace_back(level_bytes_ / 8 + 8);
    auto* bytes = reinterpret_cast<std::byte*>(levels_[level].data());
    return bytes + offsets_[2 * reduction + (companion ? 1 : 0)];
}

void Partials::merge_top() {
    const std::size_t a = depth_ - 2, b = depth_ - 1;
    for (std::size_t r = 0; r < reductions_.size(); ++r)
        if (reductions_[r].mean_of < 0)
            reductions_[r].reducer->merge(at(r, a, false), at(r, a, true), at(r, b, false),
                                          at(r, b, true), n_, counts_[a], counts_[b]);
    counts_[a] += counts_[b];
    ++ranks_[a];
    --depth_;
}

void Partials::push(std::int64_t count) {
    counts_[depth_] = count;
    ranks_[depth_] = 0;
    ++depth_;
    while (depth_ >= 2 && ranks_[depth_ - 2] == ranks_[depth_ - 1])
        merge_top();
}

void Partials::save(std::byte* to) {
    if (level_bytes_ > 0) std::memcpy(to, at(0, 0, false), level_bytes_);
}

void Partials::push(const std::byte* saved, std::int64_t count) {
    if (count == 0 || level_bytes_ == 0) return;
    std::memcpy(at(0, depth_, false), saved, level_bytes_);
    push(count);
}

void Partials::write(std::size_t reduction, void* to, DType type) {
    const auto& r = reductions_[reduction];
    if (r.mean_of >= 0) {
        const void* mean = at(static_cast<std::size_t>(r.mean_of), 0, true);
        const Fn multiply = find_function(plan::Opcode::Mul, r.reducer->result, 2);
        const auto count = static_cast<double>(total());
        const auto count32 = static_cast<float>(total());
        const bool wide = r.reducer->result == Reg::Float64;
        multiply(at(reduction, 0, false), mean, wide ? static_cast<const void*>(&count) : &count32,
                 nullptr, n_);
    }
    find_convert(dtype_of(r.reducer->result), type)(to, at(reduction, 0, false), nullptr, nullptr,
                                                    n_);
}

void Partials::finish() {
    if (depth_ == 0) {
        for (std::size_t r = 0; r < reductions_.size(); ++r)
            reductions_[r].reducer->init(at(r, 0, false), at(r, 0, true), n_);
        return;
    }
    while (depth_ >= 2)
        merge_top();
}

}  // namespace pippin::cpu
