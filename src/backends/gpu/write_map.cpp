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
        std::vector<std::int64_t> firsts;
        for (const auto& s : launch_.segments) {
            firsts.push_back(groups);
            groups += (extent(s) + copies_ * kThreads - 1) / (copies_ * kThreads);
        }
        if (groups == 0) return;
        const bool many = launch_.segments.size() > 1;
        std::string body = many ? find_segment() : "";
        body += points(many);
        for (std::size_t n = 0; n < p_.body.size(); ++n)
            for (const Point& at : at_)
                body += statement(static_cast<std::int32_t>(n), at);
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
    std::int64_t extent(const plan::Segment& s) const {
        return s.extent >= 0 ? s.extent : p_.outer() * p_.inner();
    }
    Arg place(const plan::Segment& s, std::size_t access) const {
        const auto& a = p_.accesses[access];
        return slot_arg(s.slots[access], a.offset * static_cast<std::int64_t>(size_of(a.dtype)));
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
        out += fmt::format("{0} first = {0}({1}) * {0}({2}) + {0}(LANE);\n", linear,
                           many ? "group" : "GROUP", copies_ * kThreads);
        for (int k = 0; k < copies_; ++k) {
            Point at;
            at.suffix = fmt::format("_{}", k);
            at.ok = fmt::format("ok_{}", k);
            out += fmt::format("{0} q_{1} = first + {0}({2});\n", linear, k, k * kThreads);
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
                out +=
                    fmt::format("{} {} = {};\n", index_type(), name,
                                wide_ ? fmt::format("I64({})", offset(access, 0, p_.rank, prefix))
                                      : offset(access, 0, p_.rank, prefix));
                known.emplace_back(access.strides, name);
                at.index.push_back(name);
            }
            at_.push_back(std::move(at));
        }
        return out;
    }

    const plan::ProgramLaunch& launch_;
    bool flat_;
    int copies_ = 1, record_ = 0;
    std::vector<Point> at_;
};

}  // namespace

void write_map(Work& w, Step& s, const plan::ProgramLaunch& l, const Features& f) {
    check_types(l.program, f);
    MapWriter(w, l, f).run(s);
}

}  // namespace pippin::gpu
