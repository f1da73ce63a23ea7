// Shorthand for building programs and running them in tests.
#pragma once

#include <cstring>
#include <initializer_list>
#include <vector>

#include "backends/cpu/program_kernel.h"
#include "programs/oracle.h"

namespace pippin::programs {

struct Builder {
    plan::Program p;

    Builder(plan::Form form, std::vector<std::int64_t> extents, int split) {
        p.form = form;
        p.rank = static_cast<int>(extents.size());
        p.split = split;
        for (std::size_t d = 0; d < extents.size(); ++d)
            p.extents[d] = extents[d];
    }
    static Builder map(std::vector<std::int64_t> extents) {
        const int rank = static_cast<int>(extents.size());
        return Builder(plan::Form::Map, std::move(extents), rank);
    }
    static Builder rows(std::vector<std::int64_t> extents, int split) {
        return Builder(plan::Form::RowReduce, std::move(extents), split);
    }
    static Builder columns(std::vector<std::int64_t> extents, int split) {
        return Builder(plan::Form::ColReduce, std::move(extents), split);
    }

    /// Row-major strides over the dims [begin, end), zero elsewhere.
    std::vector<std::int64_t> dense(int begin, int end) const {
        std::vector<std::int64_t> s(static_cast<std::size_t>(p.rank), 0);
        std::int64_t step = 1;
        for (int d = end; d-- > begin;) {
            s[static_cast<std::size_t>(d)] = step;
            step *= p.extents[static_cast<std::size_t>(d)];
        }
        return s;
    }
    std::vector<std::int64_t> dense() const { return dense(0, p.rank); }
    std::vector<std::int64_t> kept_dense() const {
        return p.form == plan::Form::RowReduce ? dense(0, p.split) : dense(p.split, p.rank);
    }

    std::int32_t access(DType t, const std::vector<std::int64_t>& strides, bool writes,
                        std::int64_t offset = 0) {
        plan::Access a;
        a.dtype = t;
        a.offset = offset;
        a.writes = writes;
        for (std::size_t d = 0; d < strides.size(); ++d)
            a.strides[d] = strides[d];
        p.accesses.push_back(a);
        return static_cast<std::int32_t>(p.accesses.size() - 1);
    }

    std::int32_t push(plan::Instr i) {
        i.stage = static_cast<std::uint8_t>(stage);
        i.kept = i.kept || kept;
        p.body.push_back(i);
        return static_cast<std::int32_t>(p.body.size() - 1);
    }
    std::int32_t load(std::int32_t acc, DType type) {
        plan::Instr i;
        i.op = plan::Opcode::Load;
        i.type = type;
        i.aux = acc;
        return push(i);
    }
    std::int32_t load(DType type) { return load(access(type, dense(), false), type); }
    std::int32_t op(plan::Opcode o, DType type, std::int32_t a, std::int32_t b = -1,
                    std::int32_t c = -1) {
        plan::Instr i;
        i.op = o;
        i.type = type;
        i.from = p.body[static_cast<std::size_t>(a)].type;
        i.a = a, i.b = b, i.c = c;
        return push(i);
    }
    std::int32_t f32(plan::Opcode o, std::int32_t a, std::int32_t b = -1, std::int32_t c = -1) {
        return op(o, DType::Float32, a, b, c);
    }
    std::int32_t constant(double x, DType type = DType::Float32) {
        plan::Instr i;
        i.op = plan::Opcode::Const;
        i.type = type;
        i.imm = is_floating(type) ? x : 0;
        i.int_imm = is_floating(type) ? 0 : static_cast<std::int64_t>(x);
        return push(i);
    }
    std::int32_t source(plan::Opcode o, DType type, std::int32_t aux, std::int32_t a = -1) {
        plan::Instr i;
        i.op = o;
        i.type = type;
        i.aux = aux;
        i.a = a;
        return push(i);
    }
    void store(std::int32_t value, std::int32_t acc) {
        plan::Instr i;
        i.op = plan::Opcode::Store;
        i.type = p.body[static_cast<std::size_t>(value)].type;
        i.a = value;
        i.aux = acc;
        push(i);
    }
    void store(std::int32_t value, DType type) { store(value, access(type, dense(), true)); }

    int stage = 0;
    bool kept = false;
};

/// Elements that an access can reach, for its buffer's size.
inline std::int64_t reach(const plan::Program& p, const plan::Access& a) {
    std::int64_t last = a.offset;
    for (int d = 0; d < p.rank; ++d) {
        const auto k = static_cast<std::size_t>(d);
        if (p.extents[k] > 0 && a.strides[k] > 0) last += a.strides[k] * (p.extents[k] - 1);
    }
    return last + 1;
}

inline std::uint64_t bits_of(double x) {
    std::uint64_t u;
    std::memcpy(&u, &x, 8);
    return u;
}

/// `place`: for each access the number of its buffer, where they are not one each.
inline void run(cpu::ProgramKernel& kernel, std::vector<Buffer>& buffers,
                const std::vector<std::uint64_t>& scalars,
                const std::vector<std::size_t>& place = {}) {
    std::vector<void*> pointers;
    for (std::size_t a = 0; a < buffers.size(); ++a)
        pointers.push_back(buffers[place.empty() ? a : place[a]].data());
    const cpu::ProgramKernel::Run r{-1, pointers.data()};
    kernel.run(std::span(&r, 1), scalars);
}

}  // namespace pippin::programs
