// Maps: each thread computes some points of the space, a group's threads side by side.
#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/program_writer.h"

namespace pippin::gpu {

using plan::Opcode;
using plan::Program;

namespace {

constexpr int kThreads = 256;

// One dim, walked in ones or not at all: the extent is an argument, so that one kernel serves all
// sizes and, in a batched launch, all segments.
bool is_flat(const Program& p) {
    if (p.rank != 1) return false;
    for (const auto& a : p.accesses)
        if (a.strides[0] != 0 && a.strides[0] != 1) return false;
    return true;
}

class MapWriter : public ProgramWriter {
  public:
    MapWriter(Work& w, const plan::ProgramLaunch& l, const Features& f)
        : ProgramWriter(w, l.program, "map"), launch_(l), flat_(is_flat(l.program)) {
        std::int64_t points = 0;
        for (const auto& s : l.segments)
            points = std::max(points, extent(s));
        // Several points a thread hide the wait for memory, where that leaves enough threads.
        copies_ = p_.body.size() > 40                          ? 1
                  : points >= 4 * kThreads * f.parallel_groups ? 4
                  : points >= 2 * kThreads * f.parallel_groups ? 2
                                                               : 1;
    }

    void run(Step& step) {
        kernel.threads = kThreads;
        std::int64_t groups = 0;
        quads_ = flat_ && !wide_ && copies_ == 4;
        std::vector<std::int64_t> firsts;
        for (const auto& s : launch_.segments) {
            firsts.push_back(groups);
            groups += (extent(s) + copies_ * kThreads - 1) / (copies_ * kThreads);
        }
        if (groups == 0) return;
        const bool many = launch_.segments.size() > 1;
        std::string body = many ? find_segment() : "";
        body += points(many);
        for (std::size_t n = 0; n < p_.body.size(); ++n) {
            if (quads_ && in_quads(p_.body[n])) {
                body += quad(static_cast<std::int32_t>(n));
                continue;
            }
            for (const Point& at : at_)
                body += statement(static_cast<std::int32_t>(n), at);
        }
        kernel.body = std::move(body);
        // Segments' records come behind all other arguments.
        if (many) {
            record_ = static_cast<int>(args.size());
            for (std::size_t s = 0; s < launch_.segments.size(); ++s) {
                args.push_back(value_arg(firsts[s]));
                args.push_back(value_arg(extent(launch_.segments[s])));
                for (std::size_t a = 0; a < p_.accesses.size(); ++a)
                    args.push_back(place(launch_.segments[s], a));
            }
            const std::string count = fmt::format("{}", launch_.segments.size());
            head += fmt::format("int segments = int(ARG({}));\n", args.size());
            args.push_back(value_arg(static_cast<std::int64_t>(launch_.segments.size())));
            head += fmt::format("int records = {};\n", record_);
            // head comes first, and a record's position is known only now
        }
        finish(step, groups);
    }

    std::string pointer(std::int32_t access) override {
        if (launch_.segments.size() > 1) return fmt::format("a{}", access);
        return address(place(launch_.segments[0], static_cast<std::size_t>(access)));
    }

  private:
    // Loads and stores of floats side by side go four at a time: a thread's points are neighbours.
    bool in_quads(const plan::Instr& i) const {
        if (i.op != Opcode::Load && i.op != Opcode::Store) return false;
        const auto& a = p_.accesses[static_cast<std::size_t>(i.aux)];
        const DType reg = i.op == Opcode::Load ? i.type : value_type(i.a);
        return a.dtype == DType::Float32 && reg == DType::Float32 && a.strides[0] == 1 &&
               a.offset % 4 == 0;
    }
    std::string quad(std::int32_t n) {
        const plan::Instr& i = p_.body[static_cast<std::size_t>(n)];
        const std::string p = pointer(i.aux);
        if (i.op == Opcode::Load) {
            std::string out = fmt::format(
                "F4 w{0} = MAKE_F4(0.0f, 0.0f, 0.0f, 0.0f);\n"
                "if (ok_3) {{ w{0} = LD_F4({1}, quad); }} else {{\n"
                "if (ok_0) w{0}.x = LD_F32({1}, q_0);\nif (ok_1) w{0}.y = LD_F32({1}, q_1);\n"
                "if (ok_2) w{0}.z = LD_F32({1}, q_2);\n}}\n",
                n, p);
            const char* parts = "xyzw";
            for (int k = 0; k < 4; ++k)
                out += fmt::format("float v{}_{} = w{}.{};\n", n, k, n, parts[k]);
            return out;
        }
        std::string v[4];
        for (std::size_t k = 0; k < 4; ++k)
            v[k] = value(i.a, at_[k]);
        return fmt::format(
            "if (ok_3) {{ ST_F4({0}, quad, MAKE_F4({1}, {2}, {3}, {4})); }} else {{\n"
            "if (ok_0) ST_F32({0}, q_0, {1});\nif (ok_1) ST_F32({0}, q_1, {2});\n"
            "if (ok_2) ST_F32({0}, q_2, {3});\n}}\n",
            p, v[0], v[1], v[2], v[3]);
    }

    std::int64_t extent(const plan::Segment& s) const {
        return s.extent >= 0 ? s.extent : p_.outer() * p_.inner();
    }
    Arg place(const plan::Segment& s, std::size_t access) const {
        const auto& a = p_.accesses[access];
        return slot_arg(s.slots[access],
                        first_element(a) * static_cast<std::int64_t>(size_of(a.dtype)));
    }

    // The last segment whose first group is not behind this one.
    std::string find_segment() const {
        const std::size_t record = 2 + p_.accesses.size();
        std::string out = fmt::format(
            "int low = 0;\nint high = segments;\n"
            "ROLL while (high - low > 1) {{\n"
            "int middle = (low + high) >> 1;\n"
            "if (uint(ARG(records + middle * {0})) <= GROUP) low = middle; else high = middle;\n"
            "}}\n"
            "int at = records + low * {0};\n"
            "uint group = GROUP - uint(ARG(at));\n",
            record);
        for (std::size_t a = 0; a < p_.accesses.size(); ++a)
            out += fmt::format("PTR a{} = ADDRESS(at + {});\n", a, 2 + a);
        return out;
    }

    std::string points(bool many) {
        const std::string linear = linear_type();
        std::string out;
        std::string total;
        if (many)
            total = fmt::format("{}(ARG(at + 1))", linear);
        else if (flat_)
            total = fmt::format("{}({})", linear, arg(value_arg(extent(launch_.segments[0]))));
        else
            total = wide_ ? int_constant(extent(launch_.segments[0]))
                          : fmt::format("{}u", extent(launch_.segments[0]));
        out += fmt::format("{} total = {};\n", linear, total);
        if (quads_)
            out += fmt::format("uint quad = {} * {}u + LANE;\nuint first = quad * 4u;\n",
                               many ? "group" : "GROUP", kThreads);
        else
            out += fmt::format("{0} first = {0}({1}) * {0}({2}) + {0}(LANE);\n", linear,
                               many ? "group" : "GROUP", copies_ * kThreads);
        for (int k = 0; k < copies_; ++k) {
            Point at;
            at.suffix = fmt::format("_{}", k);
            at.ok = fmt::format("ok_{}", k);
            out += fmt::format("{0} q_{1} = first + {0}({2});\n", linear, k,
                               quads_ ? k : k * kThreads);
            out += fmt::format("bool ok_{0} = q_{0} < total;\n", k);
            // Threads behind the end compute the last point, too, and store nothing.
            out += fmt::format("if (!ok_{0}) q_{0} = total - {1}(1);\n", k, linear);
            const std::string prefix = fmt::format("c{}_", k);
            if (!flat_) out += coordinates(fmt::format("q_{}", k), 0, p_.rank, prefix);
            std::vector<std::pair<plan::Strides, std::string>> known;
            for (std::size_t a = 0; a < p_.accesses.size(); ++a) {
                const auto& access = p_.accesses[a];
                if (flat_) {
                    at.index.push_back(access.strides[0] ? fmt::format("q_{}", k) : "0");
                    continue;
                }
                const auto it = std::find_if(known.begin(), known.end(), [&](const auto& o) {
                    return o.first == access.strides;
                });
                if (it != known.end()) {
                    at.index.push_back(it->second);
                    continue;
                }
                const std::string name = fmt::format("o{}_{}", a, k);
                std::string text = offset(access, 0, p_.rank, prefix);
                if (shift(access) > 0) text += " + " + index_constant(shift(access));
                out += fmt::format("{0} {1} = {0}({2});\n", index_type(), name, text);
                known.emplace_back(access.strides, name);
                at.index.push_back(name);
            }
            at_.push_back(std::move(at));
        }
        return out;
    }

    const plan::ProgramLaunch& launch_;
    bool flat_, quads_ = false;
    int copies_ = 1, record_ = 0;
    std::vector<Point> at_;
};

}  // namespace

void write_map(Work& w, Step& s, const plan::ProgramLaunch& l, const Features& f) {
    check_types(l.program, f);
    MapWriter(w, l, f).run(s);
}

}  // namespace pippin::gpu
