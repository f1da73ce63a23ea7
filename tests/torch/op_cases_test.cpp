// Every op against what PyTorch computed: dtypes, shapes, values and gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "pippin/device.h"
#include "torch/fixture.h"

namespace pippin::test {
namespace {

constexpr std::uint32_t kUpstreamSeed = 1000;

struct OpCase {
    const Fixture* fixture;
    const Json* json;
};

// All cases by op. A file that cannot be read is kept for a test to report.
struct AllCases {
    std::map<std::string, std::unique_ptr<Fixture>> fixtures;
    std::map<std::string, std::vector<OpCase>> by_op;
    std::string error;

    AllCases() {
        try {
            for (const std::string& name : case_files()) {
                const Fixture& f = *(fixtures[name] = std::make_unique<Fixture>(name));
                for (const Json& j : f.cases())
                    by_op[j.at("op").get<std::string>()].push_back({&f, &j});
            }
        } catch (const std::exception& e) {
            error = e.what();
        }
    }
};

const AllCases& all_cases() {
    static const AllCases cases;
    return cases;
}

std::vector<std::string> ops_with_cases() {
    std::vector<std::string> names;
    for (const auto& [name, cases] : all_cases().by_op)
        names.push_back(name);
    return names;
}

Call make_call(const OpCase& c) {
    const Json& j = *c.json;
    Call call;
    call.args = j.at("args");
    for (const Json& in : j.at("in")) {
        call.numbers.push_back(in.is_object() && in.contains("scalar") ? in["scalar"] : Json());
        if (in.is_string())
            call.tensors.push_back(c.fixture->tensor(in.get<std::string>()));
        else if (in.is_object() && in.contains("gen"))
            call.tensors.push_back(generate(in["gen"]));
        else
            call.tensors.emplace_back();
    }
    return call;
}

// "dtype/rank" or "bool", "int", "real": a tensor of ones, or a one.
Operand kind_of_one(const std::string& kind) {
    if (kind == "bool") return true;
    if (kind == "int") return 1;
    if (kind == "real") return 1.0;
    const auto slash = kind.find('/');
    return ones(kind.substr(slash + 1) == "0" ? Shape{} : Shape{1},
                dtype_named(kind.substr(0, slash)));
}

void run_promotion(const Json& args) {
    std::vector<std::pair<std::string, Tensor>> results;
    for (const auto& [pair, want] : args.at("table").items()) {
        const auto space = pair.find(' ');
        std::string got;
        try {
            Call call;
            const Operand a = kind_of_one(pair.substr(0, space));
            const Operand b = kind_of_one(pair.substr(space + 1));
            for (const Operand& o : {a, b}) {
                call.tensors.push_back(o.tensor);
                call.numbers.push_back(o.kind == Operand::Kind::Bool      ? Json(true)
                                       : o.kind == Operand::Kind::Integer ? Json(1)
                                       : o.kind == Operand::Kind::Real    ? Json(1.0)
                                                                          : Json());
            }
            results.emplace_back(pair, dispatch(args.at("op").get<std::string>(), call)[0]);
            got = name_of(results.back().second.dtype());
        } catch (const Error&) {
            got = "error";
        }
        EXPECT_EQ(got, want.get<std::string>()) << pair;
    }
    // One plan computes them all. They come from ones: the results are 0, 1 or 2.
    for (const auto& [pair, t] : results)
        EXPECT_LE(std::abs(t.to_vector<double>()[0] - 1), 1) << pair;
}

void run_case(const OpCase& c) {
    const Json& j = *c.json;
    const auto op = j.at("op").get<std::string>();
    if (op == "promotion") return run_promotion(j.at("args"));
    Call call = make_call(c);
    if (j.contains("error")) {
        // Indices are only checked when the op runs.
        EXPECT_THROW(
            {
                for (const Tensor& t : dispatch(op, call))
                    t.eval();
                synchronize();
            },
            Error);
        return;
    }
    if (j.contains("grad"))
        for (std::size_t i = 0; i < j["grad"].size(); ++i)
            if (!j["grad"][i].is_null()) call.tensors[i].requires_grad_();

    const std::vector<Tensor> out = dispatch(op, call);
    const double scale = std::sqrt(j.at("k").get<double>());
    ASSERT_EQ(out.size(), j.at("out").size());
    for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(c.fixture->difference(out[i], j["out"][i], scale), "") << "output " << i;
    if (!j.contains("grad") || ::testing::Test::HasFatalFailure()) return;

    for (std::size_t i = 0; i < out.size(); ++i)
        // An op without a gradient (floor) ends the graph, where PyTorch goes on with zeros.
        if (j["up"][i].get<bool>() && out[i].requires_grad())
            out[i].backward(generate(out[i].shape(), kUpstreamSeed + static_cast<std::uint32_t>(i),
                                     8, 1, 0, out[i].dtype()),
                            true);
    for (std::size_t i = 0; i < j["grad"].size(); ++i) {
        if (j["grad"][i].is_null()) continue;
        Tensor grad = call.tensors[i].grad();
        if (!grad.defined()) grad = zeros_like(call.tensors[i]);
        EXPECT_EQ(c.fixture->difference(grad, j["grad"][i], scale), "")
            << "gradient of input " << i;
    }
}

class TorchOp : public ::testing::TestWithParam<std::string> {};

TEST_P(TorchOp, Cases) {
    for (const OpCase& c : all_cases().by_op.at(GetParam())) {
        const auto id = c.json->at("id").get<std::string>();
        SCOPED_TRACE(id);
        try {
            run_case(c);
        } catch (const std::exception& e) {
            ADD_FAILURE() << e.what();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, TorchOp, ::testing::ValuesIn(ops_with_cases()),
                         [](const auto& test) { return test.param; });

TEST(TorchFixtures, AllAreReadAndEveryOpHasCases) {
    EXPECT_EQ(all_cases().error, "");
    const std::vector<std::string> with_cases = ops_with_cases();
    for (const std::string& op : dispatched_ops())
        EXPECT_TRUE(std::binary_search(with_cases.begin(), with_cases.end(), op)) << op;
}

}  // namespace
}  // namespace pippin::test
