// Which ops a GPU leaves to the processor: what docs/gpu.md says, no more and no less.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "backends/gpu/work.h"
#include "gpu/heavy_testing.h"
#include "graph/ops/records_attention.h"
#include "graph/ops/records_order.h"
#include "pippin/pippin.h"

namespace pippin::gpu_test {
namespace {

namespace ops = graph::ops;
using heavy_test::Data;
using heavy_test::Trial;

constexpr DType kTypes[] = {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64,
                            DType::Int64,   DType::Int32,   DType::UInt8,    DType::Bool};

// The smallest inputs of each op; `indices` says which input holds them.
struct Small {
    std::vector<Shape> shapes;
    std::vector<std::int64_t> attrs;
    std::size_t indices = 99;
    plan::Order order = plan::Order::ChannelsLast;
};
const std::map<const graph::OpRecord*, Small>& small_cases() {
    const Shape map{1, 2, 4, 4}, out{1, 3, 4, 4}, weight{3, 2, 1, 1}, pooled{1, 2, 2, 2};
    const Shape square{3, 3}, line{3};
    const auto row = plan::Order::RowMajor;
    static const std::map<const graph::OpRecord*, Small> all{
        {&ops::kMatmul, {{square, square}, {0, 0}, 99, row}},
        {&ops::kConv2d, {{map, weight}, {1, 1, 0, 0, 1, 1, 1}}},
        {&ops::kConv2dGradInput, {{out, weight}, {1, 1, 0, 0, 1, 1, 1, 4, 4}}},
        {&ops::kConv2dGradWeight, {{map, out}, {1, 1, 0, 0, 1, 1, 1, 1, 1}}},
        {&ops::kMaxPool2d, {{map}, {2, 2, 2, 2, 0, 0, 1, 1, 0, 1}}},
        {&ops::kMaxPool2dGrad, {{map, pooled}, {2, 2, 2, 2, 0, 0, 1, 1, 0, 1}}},
        {&ops::kAvgPool2d, {{map}, {2, 2, 2, 2, 0, 0, 1, 1, 0, 1}}},
        {&ops::kAvgPool2dGrad, {{pooled}, {2, 2, 2, 2, 0, 0, 1, 1, 0, 1, 4, 4}}},
        {&ops::kAdaptiveAvgPool2d, {{map}, {2, 2}}},
        {&ops::kAdaptiveAvgPool2dGrad, {{pooled}, {4, 4}}},
        {&ops::kGather, {{square, square}, {1}, 1, row}},
        {&ops::kScatterAdd, {{square, square}, {1, 3}, 0, row}},
        {&ops::kIndexSelect, {{square, line}, {0}, 1, row}},
        {&ops::kIndexAdd, {{line, square}, {0, 3}, 0, row}},
        {&ops::kCumSum, {{square}, {1, 0}, 99, row}},
        {&ops::kArgSort, {{square}, {1, 0, 3}, 99, row}},
        {&ops::kScatter, {{square, square, square}, {1}, 1, row}},
        {&ops::kAttention, {{{1, 1, 3, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}}, {0, 0, 0}, 99, row}},
        {&ops::kAttentionGrad,
         {{{1, 1, 3, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}, {1, 3, 1, 2}}, {0, 0, 0}, 99, row}},
    };
    return all;
}

// "op: dtype" of all that has no kernel.
std::set<std::string> found() {
    std::set<std::string> out;
    for (const auto& [op, c] : small_cases())
        for (const DType t : kTypes) {
            Trial trial;
            trial.op = op;
            trial.order = c.order;
            for (const auto a : c.attrs)
                trial.attrs.i.push_back(a);
            if (ops::is_attention(op)) trial.attrs.f = {1, 0};
            for (std::size_t k = 0; k < c.shapes.size(); ++k)
                trial.inputs.emplace_back(k == c.indices ? DType::Int64 : t, c.shapes[k]);
            try {
                trial.node();
            } catch (const Error&) {  // the op has no such dtype at all
                continue;
            }
            gpu::Work w;
            gpu::Step s;
            bool has = false;
            try {
                has = gpu::write_heavy(w, s, trial.launch(), {});
            } catch (const Error&) {
            }
            if (!has) out.insert(fmt::format("{}: {}", op->name, name_of(t)));
        }
    return out;
}

// Rows between the markers, "| op, op | dtype, dtype |".
std::set<std::string> written() {
    std::ifstream in(PIPPIN_SOURCE_DIR "/docs/gpu.md");
    std::set<std::string> out;
    bool inside = false;
    const auto parts = [](const std::string& text) {
        std::vector<std::string> p;
        std::string word;
        std::istringstream in_words(text);
        while (std::getline(in_words, word, ',')) {
            std::erase_if(word, [](char c) { return c == ' ' || c == '`'; });
            p.push_back(word);
        }
        return p;
    };
    for (std::string line; std::getline(in, line);) {
        if (line.find("fallbacks begin") != std::string::npos) inside = true;
        if (line.find("fallbacks end") != std::string::npos) inside = false;
        if (!inside || !line.starts_with("| `")) continue;
        const auto middle = line.find('|', 1), end = line.find('|', middle + 1);
        for (const auto& op : parts(line.substr(1, middle - 1)))
            for (const auto& type : parts(line.substr(middle + 1, end - middle - 1)))
                out.insert(fmt::format("{}: {}", op, type));
    }
    return out;
}

TEST(Fallbacks, AreThoseOfTheDocs) {
    for (const graph::OpRecord* op : graph::registry())
        if (op->kind == graph::Kind::Heavy || op->kind == graph::Kind::Index) {
            EXPECT_TRUE(small_cases().count(op) || op == &ops::kCheckIndex)
                << op->name << " has no case here";
        }
    const auto here = found(), there = written();
    for (const auto& f : here)
        EXPECT_TRUE(there.count(f)) << f << " is missing in the table of docs/gpu.md";
    for (const auto& f : there)
        EXPECT_TRUE(here.count(f)) << f << " has a kernel, but stands in the table of docs/gpu.md";
}

class FallbackRuns : public GpuTest {};

TEST_F(FallbackRuns, AreCounted) {
    unsetenv("PIPPIN_STRICT_GPU");
    const Tensor x = randn({3, 4}, {DType::Float64, kGpu}),
                 y = randn({4, 5}, {DType::Float64, kGpu});
    x.eval(), y.eval();
    synchronize();
    const std::int64_t before = stats().fallbacks;
    const auto here = matmul(x, y).to_vector<double>();
    EXPECT_EQ(stats().fallbacks, before + 1);
    EXPECT_EQ(here, matmul(x.to(Device{}), y.to(Device{})).to_vector<double>());
    setenv("PIPPIN_STRICT_GPU", "1", 1);
    EXPECT_THROW((void)matmul(y.transpose(0, 1), x.transpose(0, 1)).to_vector<double>(),
                 DeviceError);
}

}  // namespace
}  // namespace pippin::gpu_test
