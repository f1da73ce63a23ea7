// Reductions of columns: tiles of rows x some columns, whose partial results are merged in an order
// that does not depend on the threads.
#include <algorithm>

#include "backends/cpu/program_execute.h"
#include "backends/cpu/threads.h"

namespace pippin::cpu {
namespace {

constexpr std::int64_t kChunkElements = 32768;  // of a task
constexpr std::int64_t kMostChunks = 64;        // of a column

// One task: some columns of some rows.
struct Tile {
    std::int64_t base, first_column, columns, chunk;
};

}  // namespace

BadIndex run_columns(const Part& part, const BlockProgram& p, Results& results,
                     void* const* pointers, Scalars scalars) {
    const std::int64_t bases_count = count_of(part.base), width = p.block_columns;
    const std::int64_t tiles = (p.columns + width - 1) / width;
    const std::int64_t units = p.unit_count(p.columns);
    const std::int64_t chunk_units = std::max<std::int64_t>(
        {1, kChunkElements / (p.block_rows * width), (units + kMostChunks - 1) / kMostChunks});
    const std::int64_t chunks = std::max<std::int64_t>(1, (units + chunk_units - 1) / chunk_units);
    const std::int64_t columns_tasks = bases_count * tiles, tasks = columns_tasks * chunks;
    const std::size_t accesses = part.views.size() - results.count();
    const auto tile_of = [&](std::int64_t task) {
        Tile t;
        // Neighbouring columns of the same rows follow each other: they share pages.
        t.chunk = task / columns_tasks;
        const std::int64_t c = task % columns_tasks;
        t.base = c / tiles;
        t.first_column = c % tiles * width;
        t.columns = std::min(width, p.columns - t.first_column);
        return t;
    };
    Partials total(p.reductions, static_cast<std::size_t>(width));
    const std::size_t bytes = total.saved_bytes();
    std::vector<std::byte> saved(static_cast<std::size_t>(tasks) * bytes);
    const auto rows_of = [&](std::int64_t chunk) {
        const std::int64_t first = chunk * chunk_units * p.block_rows;
        return std::clamp<std::int64_t>(p.row_count - first, 0, chunk_units * p.block_rows);
    };
    std::vector<BadIndex> found(static_cast<std::size_t>(tasks) + 1);
    const std::int64_t work = p.work(bases_count * p.columns * p.row_count);
    parallel_ranges(tasks, work, [&](std::int64_t begin, std::int64_t end, int) {
        Frame frame(p, scalars);
        Bases bases;
        Partials partials(p.reductions, static_cast<std::size_t>(width));
        std::int64_t bound = -1;
        for (std::int64_t task = begin; task < end; ++task) {
            const Tile tile = tile_of(task);
            const auto n = static_cast<std::size_t>(tile.columns);
            partials.reset(n);
            if (bound != task % columns_tasks) {
                bases.move_to(part, accesses, pointers, tile.base, tile.first_column);
                frame.bind(bases.pointers.data(), tile.columns, bases.moved.data());
                bound = task % columns_tasks;
            }
            const std::int64_t first = tile.chunk * chunk_units;
            const std::int64_t last = std::min(units, first + chunk_units);
            for (std::int64_t u = first; u < last; ++u) {
                frame.run(u);
                const auto rows = static_cast<std::size_t>(frame.rows());
                for (std::size_t r = 0; r < p.reductions.size(); ++r) {
                    const auto& reduction = p.reductions[r];
                    if (reduction.mean_of >= 0) continue;
                    const auto reduce =
                        n == 1 ? reduction.reducer->rows : reduction.reducer->columns;
                    reduce(partials.result(r), partials.companion(r), frame.slot(reduction.slot),
                           n == 1 ? 1 : rows, n == 1 ? rows : n, frame.first_row());
                }
                partials.push(frame.rows());
            }
            partials.finish();
            partials.save(saved.data() + static_cast<std::size_t>(task) * bytes);
        }
        found[static_cast<std::size_t>(begin)] = frame.bad();
    });

    // Chunks of each column tile together, in order.
    for (std::int64_t c = 0; c < columns_tasks; ++c) {
        const Tile tile = tile_of(c);
        total.reset(static_cast<std::size_t>(tile.columns));
        for (std::int64_t k = 0; k < chunks; ++k)
            total.push(saved.data() + static_cast<std::size_t>(k * columns_tasks + c) * bytes,
                       rows_of(k));
        total.finish();
        for (std::size_t r = 0; r < p.reductions.size(); ++r) {
            const std::size_t which = results.find(p.reductions[r].instr);
            auto* to = static_cast<std::byte*>(results.data(which)) +
                       (tile.base * p.columns + tile.first_column) *
                           static_cast<std::int64_t>(results.element(which));
            total.write(r, to, results.type(which));
        }
    }
    return first_bad(found);
}

}  // namespace pippin::cpu
