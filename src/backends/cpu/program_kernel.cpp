#include "backends/cpu/program_kernel.h"

#include <string>

#include "backends/cpu/program_execute.h"
#include "pippin/error.h"

namespace pippin::cpu {

struct ProgramKernel::State {
    plan::Form form;
    std::vector<std::string> index_ops;
    Parts parts;
    std::vector<BlockProgram> stages, finish;
    std::unique_ptr<Results> results;
    std::size_t accesses = 0;
    std::int64_t space = 1;
    bool within_blocks = true;  // no results of reductions outside of blocks

    BadIndex run(const Run& run, Scalars scalars) {
        BadIndex bad;
        if (form == plan::Form::RowReduce)
            bad = run_rows(parts.stages, stages, *results, run.pointers, scalars);
        else
            bad = run_columns(parts.stages[0], stages[0], *results, run.pointers, scalars);
        if (bad.found || finish.empty()) return bad;
        std::vector<void*> pointers(run.pointers, run.pointers + accesses);
        for (std::size_t r = 0; r < results->count(); ++r)
            pointers.push_back(results->data(r));
        const Run last{-1, pointers.data()};
        return run_blocks(finish[0], std::span(&last, 1), scalars);
    }
};

ProgramKernel::ProgramKernel(const plan::Program& program) : state_(std::make_unique<State>()) {
    State& s = *state_;
    s.form = program.form;
    s.index_ops = program.index_ops;
    s.parts = split_program(program);
    s.accesses = program.accesses.size();
    s.space = program.outer() * program.inner();
    // A batched program's extent comes with the run; its accesses are dense or constant.
    bool may_batch = program.form == plan::Form::Map && program.rank == 1;
    for (const auto& a : program.accesses)
        may_batch = may_batch && (a.strides[0] == 0 || a.strides[0] == 1);
    if (may_batch) {
        // The extent must not decide what an access is.
        Part& part = s.parts.stages[0];
        part.rows.clear();
        part.columns = program.extents[0];
        for (std::size_t a = 0; a < part.views.size(); ++a) {
            part.views[a].row.clear();
            part.views[a].column = program.accesses[a].strides[0];
        }
    }
    for (const Part& p : s.parts.stages)
        s.stages.emplace_back(p, may_batch);
    for (const Part& p : s.parts.finish)
        s.finish.emplace_back(p, false);
    s.within_blocks = s.form == plan::Form::Map ||
                      (s.form == plan::Form::RowReduce && s.parts.stages.size() == 1 &&
                       s.parts.stages[0].reduce == Part::Reduce::Rows);
    if (!s.within_blocks) s.results = std::make_unique<Results>(s.parts, program.body);
}

ProgramKernel::~ProgramKernel() = default;
ProgramKernel::ProgramKernel(ProgramKernel&&) noexcept = default;
ProgramKernel& ProgramKernel::operator=(ProgramKernel&&) noexcept = default;

void ProgramKernel::run(std::span<const Run> runs, std::span<const std::uint64_t> scalars) {
    State& s = *state_;
    BadIndex bad;
    if (s.within_blocks && s.stages[0].dynamic) {
        // Without batching the extent is the program's own.
        bool fixed = true;
        for (const Run& r : runs)
            fixed = fixed && r.extent >= 0;
        if (fixed) {
            bad = run_blocks(s.stages[0], runs, scalars);
        } else {
            std::vector<Run> own(runs.begin(), runs.end());
            for (Run& r : own)
                if (r.extent < 0) r.extent = s.stages[0].columns;
            bad = run_blocks(s.stages[0], own, scalars);
        }
    } else if (s.within_blocks) {
        bad = run_blocks(s.stages[0], runs, scalars);
    } else {
        for (const Run& r : runs) {
            const BadIndex b = s.run(r, scalars);
            if (!bad.found) bad = b;
        }
    }
    if (!bad.found) return;
    const auto name = static_cast<std::size_t>(bad.name);
    const std::string op = bad.name >= 0 && name < s.index_ops.size() ? s.index_ops[name] : "index";
    throw IndexError(op + ": index " + std::to_string(bad.value) + " is out of range [" +
                     std::to_string(bad.low) + ", " + std::to_string(bad.high) + ")");
}

}  // namespace pippin::cpu
