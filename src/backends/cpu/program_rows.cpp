// Reductions of rows that do not fit into a block. Every stage goes over the row again and computes
// what it needs; a row is always cut into the same pieces, whoever runs them.
#include "backends/cpu/program_execute.h"
#include "backends/cpu/threads.h"

namespace pippin::cpu {
namespace {

constexpr std::int64_t kChunkUnits = 64;

struct Span {
    std::int64_t begin, end;
};

// Where one kept point's row starts, and its results.
void point_at(const Part& part, Results& results, void* const* pointers, std::int64_t kept,
              Bases& out) {
    const std::size_t accesses = part.views.size() - results.count();
    out.move_to(part, accesses, pointers, kept, 0);
    for (std::size_t r = 0; r < results.count(); ++r)
        out.pointers[accesses + r] = static_cast<std::byte*>(results.data(r)) +
                                     kept * static_cast<std::int64_t>(results.element(r));
}

// Gives the number of elements.
std::int64_t run_units(Frame& frame, const BlockProgram& p, Span units, Partials& partials) {
    std::int64_t count = 0;
    for (std::int64_t u = units.begin; u < units.end; ++u) {
        frame.run(u);
        count += frame.elements();
        if (p.reductions.empty()) continue;
        for (std::size_t r = 0; r < p.reductions.size(); ++r) {
            const auto& reduction = p.reductions[r];
            if (reduction.mean_of >= 0) continue;
            reduction.reducer->rows(partials.result(r), partials.companion(r),
                                    frame.slot(reduction.slot), 1,
                                    static_cast<std::size_t>(frame.elements()), frame.position());
        }
        partials.push(frame.elements());
    }
    return count;
}

void keep(const BlockProgram& p, Results& results, Partials& partials, std::int64_t kept) {
    for (std::size_t r = 0; r < p.reductions.size(); ++r) {
        const std::size_t which = results.find(p.reductions[r].instr);
        auto* to = static_cast<std::byte*>(results.data(which)) +
                   kept * static_cast<std::int64_t>(results.element(which));
        partials.write(r, to, results.type(which));
    }
}

// Chunks of one row side by side.
BadIndex run_row_parallel(const Part& part, const BlockProgram& p, Results& results,
                          void* const* pointers, std::int64_t kept, Scalars scalars) {
    const std::int64_t units = p.unit_count(p.columns);
    const std::int64_t chunks = (units + kChunkUnits - 1) / kChunkUnits;
    Bases bases;
    point_at(part, results, pointers, kept, bases);
    Partials total(p.reductions, 1);
    const std::size_t bytes = total.saved_bytes();
    std::vector<std::byte> saved(static_cast<std::size_t>(chunks) * bytes);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(chunks));
    std::vector<BadIndex> found(static_cast<std::size_t>(chunks));
    const std::int64_t work = p.work(p.row_count * p.columns);
    parallel_ranges(chunks, work, [&](std::int64_t begin, std::int64_t end, int) {
        Frame frame(p, scalars);
        frame.bind(bases.pointers.data(), p.columns, bases.moved.data());
        Partials partials(p.reductions, 1);
        for (std::int64_t c = begin; c < end; ++c) {
            partials.reset(1);
            const auto k = static_cast<std::size_t>(c);
            counts[k] = run_units(
                frame, p, {c * kChunkUnits, std::min(units, (c + 1) * kChunkUnits)}, partials);
            partials.finish();
            partials.save(saved.data() + k * bytes);
        }
        found[static_cast<std::size_t>(begin)] = frame.bad();
    });
    for (std::size_t c = 0; c < counts.size(); ++c)
        total.push(saved.data() + c * bytes, counts[c]);
    total.finish();
    keep(p, results, total, kept);
    return first_bad(found);
}

}  // namespace

BadIndex run_rows(const std::vector<Part>& stages, const std::vector<BlockProgram>& programs,
                  Results& results, void* const* pointers, Scalars scalars) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const Part& part = stages[s];
        const BlockProgram& p = programs[s];
        const std::int64_t rows = count_of(part.base), length = p.row_count * p.columns;
        const std::int64_t units = p.unit_count(p.columns);
        // Few long rows: the threads share each of them. The result is the same either way.
        if (units > kChunkUnits && rows < 4 * num_threads() &&
            threads_for(units, p.work(length)) > 1) {
            BadIndex bad;
            for (std::int64_t k = 0; k < rows; ++k) {
                const BadIndex b = run_row_parallel(part, p, results, pointers, k, scalars);
                if (!bad.found) bad = b;
            }
            if (bad.found) return bad;
            continue;
        }
        std::vector<BadIndex> found(static_cast<std::size_t>(rows) + 1);
        parallel_ranges(
            rows, p.work(rows * length), [&](std::int64_t begin, std::int64_t end, int) {
                Frame frame(p, scalars);
                Partials chunk(p.reductions, 1), total(p.reductions, 1);
                std::vector<std::byte> saved(chunk.saved_bytes());
                Bases bases;
                for (std::int64_t k = begin; k < end; ++k) {
                    point_at(part, results, pointers, k, bases);
                    frame.bind(bases.pointers.data(), p.columns, bases.moved.data());
                    total.reset(1);
                    for (std::int64_t u = 0; u < units; u += kChunkUnits) {
                        chunk.reset(1);
                        const std::int64_t n =
                            run_units(frame, p, {u, std::min(units, u + kChunkUnits)}, chunk);
                        chunk.finish();
                        chunk.save(saved.data());
                        total.push(saved.data(), n);
                    }
                    total.finish();
                    keep(p, results, total, k);
                }
                found[static_cast<std::size_t>(begin)] = frame.bad();
            });
        const BadIndex bad = first_bad(found);
        if (bad.found) return bad;
    }
    return {};
}

}  // namespace pippin::cpu
