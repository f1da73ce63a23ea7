// Running blocks.
#include <algorithm>
#include <cstring>
#include <memory>

#include "backends/cpu/program_block.h"

namespace pippin::cpu {
namespace {

constexpr std::size_t kAlign = 64;

// The thread's scratch memory, kept for the next program: it stays in the cache.
std::byte* thread_scratch(std::size_t bytes) {
    struct Buffer {
        std::unique_ptr<std::byte[]> data;
        std::size_t size = 0;
    };
    thread_local Buffer buffer;
    if (buffer.size < bytes + kAlign) {
        buffer.data.reset();
        buffer.size = 0;
        const std::size_t size = (bytes + kAlign) * 3 / 2;
        buffer.data.reset(new std::byte[size]);
        buffer.size = size;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.data.get());
    return buffer.data.get() + (kAlign - address % kAlign) % kAlign;
}

std::size_t round_up(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

std::uint64_t narrow_bits(std::uint64_t bits, Reg type) {
    std::uint64_t result = 0;
    double d;
    std::memcpy(&d, &bits, 8);
    if (type == Reg::Float32) {
        const auto f = static_cast<float>(d);
        std::memcpy(&result, &f, 4);
    } else if (type == Reg::Int32) {
        const auto i = static_cast<std::uint32_t>(bits);
        std::memcpy(&result, &i, 4);
    } else if (type == Reg::Bool) {
        const std::uint8_t b = bits != 0;
        std::memcpy(&result, &b, 1);
    } else {
        result = bits;
    }
    return result;
}

}  // namespace

std::int64_t BlockProgram::piece(std::int64_t columns_now) const {
    if (columns_now <= block_columns) return columns_now;
    const std::int64_t pieces = (columns_now + block_columns - 1) / block_columns;
    const std::int64_t even = (columns_now + pieces - 1) / pieces;
    return (even + 63) / 64 * 64;
}

std::int64_t BlockProgram::unit_count(std::int64_t columns_now) const {
    if (columns_now <= 0 || row_count <= 0) return 0;
    if (tile) return (row_count + block_rows - 1) / block_rows;
    const std::int64_t size = piece(columns_now);
    return row_count * ((columns_now + size - 1) / size);
}

Frame::Frame(const BlockProgram& program, std::span<const std::uint64_t> scalars) : p_(program) {
    const std::size_t slots = p_.slot_offsets.size(), views = p_.views.size();
    const std::size_t runs =
        p_.needs_runs ? static_cast<std::size_t>(p_.tile ? p_.block_rows : 1) : std::size_t{1};
    const std::size_t table =
        round_up(slots * sizeof(void*) + views * (sizeof(void*) + 8) + runs * sizeof(Piece));
    std::byte* memory = thread_scratch(table + p_.scratch_bytes);
    scratch_ = memory + table;
    reg_ = reinterpret_cast<void**>(memory);
    base_ = reinterpret_cast<std::byte**>(reg_ + slots);
    row_offset_ = reinterpret_cast<std::int64_t*>(base_ + views);
    runs_ = reinterpret_cast<Piece*>(row_offset_ + views);
    for (std::size_t s = 0; s < slots; ++s)
        reg_[s] =
            p_.slot_offsets[s] == BlockProgram::kNowhere ? scratch_ : scratch_ + p_.slot_offsets[s];
    for (const auto& c : p_.constants)
        std::memcpy(reg_[c.slot], &c.bits, 8);
    for (const auto& a : p_.arguments) {
        const auto i = static_cast<std::size_t>(a.index);
        if (a.key) {
            std::memcpy(reg_[a.slot], &scalars[i], 16);
        } else {
            const std::uint64_t bits = narrow_bits(scalars[i], a.type);
            std::memcpy(reg_[a.slot], &bits, 8);
        }
    }
    execute(p_.once);
}

void Frame::bind(void* const* pointers, std::int64_t columns, const std::int64_t* moved) {
    moved_ = moved;
    for (std::size_t v = 0; v < p_.views.size(); ++v)
        base_[v] = pointers[v] ? static_cast<std::byte*>(pointers[v]) +
                                     p_.views[v].offset * p_.views[v].element
                               : nullptr;
    columns_ = columns;
    bound_row_ = -1;
    piece_ = p_.piece(columns);
    pieces_ = piece_ ? (columns + piece_ - 1) / piece_ : 0;
    if (p_.setup.empty() && p_.setup_direct.empty()) return;
    if (p_.row_count == 0 || columns == 0) return;  // inputs without elements have no memory
    count_[1] = p_.block_rows;
    count_[2] = columns_;
    count_[3] = p_.tile ? p_.block_rows * columns_ : piece_;
    row_ = column_ = 0;
    for (const auto& d : p_.setup_direct)
        reg_[d.slot] = base_[d.view];
    execute(p_.setup);
}

void Frame::run(std::int64_t unit) {
    if (p_.tile) {
        row_ = unit * p_.block_rows;
        column_ = 0;
        count_[1] = std::min(p_.block_rows, p_.row_count - row_);
        count_[2] = columns_;
        count_[3] = count_[1] * columns_;
        if (p_.needs_runs) find_runs();
        for (const auto& d : p_.block_direct) {
            reg_[d.slot] = base_[d.view] +
                           row_ * p_.views[static_cast<std::size_t>(d.view)].linear * d.element;
        }
    } else {
        row_ = pieces_ == 1 ? unit : unit / pieces_;
        column_ = pieces_ == 1 ? 0 : (unit - row_ * pieces_) * piece_;
        count_[1] = 1;
        count_[2] = count_[3] = std::min(piece_, columns_ - column_);
        if (row_ != bound_row_) {
            bound_row_ = row_;
            std::array<std::int64_t, 8> at{};
            std::int64_t rest = row_;
            for (std::size_t d = p_.rows.size(); d-- > 0; rest /= p_.rows[d])
                at[d] = rest % p_.rows[d];
            for (std::size_t v = 0; v < p_.views.size(); ++v)
                row_offset_[v] = offset_of(static_cast<std::int32_t>(v), at);
            for (const auto& d : p_.row_direct)
                reg_[d.slot] = base_[d.view] + row_offset_[d.view] * d.element;
            execute(p_.row);
        }
        for (const auto& d : p_.block_direct) {
            reg_[d.slot] = base_[d.view] + (row_offset_[d.view] + column_) * d.element;
        }
        for (const auto& w : p_.windows)
            reg_[w.slot] = static_cast<std::byte*>(reg_[w.from]) + column_ * w.element;
    }
    if (ahead_) prefetch();
    execute(p_.block);
}

// The next block's operands, while this one's steps work within the cache: else memory would rest
// in the meantime.
void Frame::prefetch() const {
    for (const auto& d : p_.block_direct) {
        if (d.count != Count::Full) continue;
        const std::int64_t bytes = count_[3] * d.element;
        const auto* next = static_cast<const char*>(reg_[d.slot]) + bytes;
        for (std::int64_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(next + at, 0, 2);
    }
}

std::int64_t Frame::offset_of(std::int32_t view, const std::array<std::int64_t, 8>& at) const {
    const auto& strides = p_.views[static_cast<std::size_t>(view)].row;
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < strides.size(); ++d)
        offset += strides[d] * at[d];
    return offset;
}

// Cuts the block's rows where a dim before the last one steps.
void Frame::find_runs() {
    std::array<std::int64_t, 8> at{};
    std::int64_t rest = row_;
    for (std::size_t d = p_.rows.size(); d-- > 0; rest /= p_.rows[d])
        at[d] = rest % p_.rows[d];
    const std::size_t last = p_.rows.size() - 1;
    run_count_ = 0;
    for (std::int64_t r = 0; r < count_[1];) {
        const std::int64_t n = std::min(count_[1] - r, p_.rows[last] - at[last]);
        runs_[run_count_++] = {r, n, at};
        r += n;
        at[last] = 0;
        for (std::size_t d = last; d-- > 0;) {
            if (++at[d] < p_.rows[d]) break;
            at[d] = 0;
        }
    }
}

void Frame::execute(const std::vector<Step>& steps) {
    for (const Step& s : steps) {
        if (s.kind == Step::Kind::Call)
            s.function(reg_[s.out], reg_[s.a], reg_[s.b], reg_[s.c],
                       static_cast<std::size_t>(count_[static_cast<int>(s.count)]));
        else
            execute_other(s);
    }
}

void Frame::copy_view(const Step& s, void* dense, bool gather) {
    const auto& v = p_.views[static_cast<std::size_t>(s.aux)];
    // A dense block has one element per row, per column, or per both of them.
    const bool varies_rows = s.count == Count::Full || s.count == Count::Rows;
    const bool varies_columns = s.count == Count::Full || s.count == Count::Columns;
    const auto columns = static_cast<std::size_t>(varies_columns ? count_[2] : 1);
    const Strides2 packed{static_cast<std::ptrdiff_t>(columns), 1};
    auto* const inner = static_cast<std::byte*>(dense);
    const auto piece = [&](std::int64_t first, std::int64_t n, std::int64_t at, std::int64_t step) {
        const Strides2 outside{static_cast<std::ptrdiff_t>(step),
                               static_cast<std::ptrdiff_t>(v.column)};
        std::byte* in = inner + first * packed.row * v.element;
        std::byte* out = base_[s.aux] + at * v.element;
        if (gather)
            s.copy(in, packed, out, outside, static_cast<std::size_t>(n), columns);
        else
            s.copy(out, outside, in, packed, static_cast<std::size_t>(n), columns);
    };
    if (!p_.tile) {
        piece(0, 1,
              (varies_rows ? row_offset_[s.aux] : 0) + (varies_columns ? column_ * v.column : 0),
              0);
    } else if (!varies_rows) {
        piece(0, 1, 0, 0);
    } else if (v.is_linear) {
        piece(0, count_[1], row_ * v.linear, v.linear);
    } else {
        for (std::int64_t i = 0; i < run_count_; ++i)
            piece(runs_[i].first, runs_[i].count, offset_of(s.aux, runs_[i].at), v.row.back());
    }
}

void Frame::execute_other(const Step& s) {
    const auto rows = static_cast<std::size_t>(count_[1]),
               columns = static_cast<std::size_t>(count_[2]);
    switch (s.kind) {
        case Step::Kind::Call:
            break;
        case Step::Kind::Gather:
            copy_view(s, reg_[s.out], true);
            break;
        case Step::Kind::Scatter:
            copy_view(s, reg_[s.a], false);
            break;
        case Step::Kind::ExpandRows:
            s.copy(reg_[s.out], {static_cast<std::ptrdiff_t>(columns), 1}, reg_[s.a], {1, 0}, rows,
                   columns);
            break;
        case Step::Kind::ExpandColumns:
            s.copy(reg_[s.out], {static_cast<std::ptrdiff_t>(columns), 1}, reg_[s.a], {0, 1}, rows,
                   columns);
            break;
        case Step::Kind::Iota:
        case Step::Kind::IotaStart: {
            const auto& v = p_.views[static_cast<std::size_t>(s.aux)];
            const bool start = s.kind == Step::Kind::IotaStart;
            const bool varies_rows = s.count == Count::Full || s.count == Count::Rows;
            const bool varies_columns = s.count == Count::Full || s.count == Count::Columns;
            const std::size_t n = varies_columns && !start ? columns : 1;
            auto* out = static_cast<std::int64_t*>(reg_[s.out]);
            const std::int64_t origin = v.offset + (moved_ ? moved_[s.aux] : 0);
            if (!p_.tile) {
                const std::int64_t at = (varies_rows ? row_offset_[s.aux] : 0) + column_ * v.column;
                iota2(out, origin + at, {0, v.column}, 1, n);
            } else if (v.is_linear || !varies_rows) {
                iota2(out, origin + (varies_rows ? row_ * v.linear : 0), {v.linear, v.column},
                      varies_rows && !start ? rows : 1, n);
            } else {
                for (std::int64_t i = 0; i < run_count_; ++i)
                    iota2(out + runs_[i].first * static_cast<std::int64_t>(n),
                          origin + offset_of(s.aux, runs_[i].at), {v.row.back(), v.column},
                          static_cast<std::size_t>(runs_[i].count), n);
            }
            break;
        }
        case Step::Kind::ReduceRows:
            s.reducer->rows(reg_[s.out], reg_[s.b], reg_[s.a], rows, columns, 0);
            break;
        case Step::Kind::Check: {
            if (bad_.found) break;
            const auto& c = p_.checks[static_cast<std::size_t>(s.aux)];
            const auto n = static_cast<std::size_t>(count_[static_cast<int>(s.count)]);
            const std::int64_t at = find_outside(reg_[s.a], c.type, n, c.low, c.high, c.also);
            if (at < 0) break;
            const std::int64_t value = c.type == Reg::Int64
                                           ? static_cast<const std::int64_t*>(reg_[s.a])[at]
                                           : static_cast<const std::int32_t*>(reg_[s.a])[at];
            bad_ = {true, c.name, value, c.low, c.high};
            break;
        }
    }
}

}  // namespace pippin::cpu
