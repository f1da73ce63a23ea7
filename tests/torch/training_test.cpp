// Ten training steps against PyTorch's, from the same weights on the same batches: losses,
// parameters and the statistics of batch norm. See training.py for how the batches and weights are
// made.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "pippin/models.h"
#include "pippin/optim.h"
#include "torch/fixture.h"

namespace pippin::test {
namespace {

constexpr int kSteps = 10, kBatches = 3;
constexpr std::int64_t kBatch = 8, kClasses = 10, kSamples = 8;
// Of a loss, relative; of a parameter, relative to max(1, |w|); of the change that the ten steps
// made to a tensor, relative to its length.
constexpr double kLossTolerance = 1e-4, kParameterTolerance = 1e-3, kChangeTolerance = 5e-2;

std::pair<Tensor, Tensor> batch_of(const Json& image, std::uint32_t number) {
    const auto c = image[0].get<std::int64_t>(), h = image[1].get<std::int64_t>(),
               w = image[2].get<std::int64_t>();
    const Tensor x = patchy_images({kBatch, c, h, w}, number);
    std::vector<std::int64_t> classes;
    for (const std::uint32_t v : hash32(kBatch, 6000 + number))
        classes.push_back(v % kClasses);
    return {x, tensor(classes)};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Json& c, std::vector<Tensor> parameters) {
    const Json& o = c.at("options");
    const double lr = o.at("lr"), weight_decay = o.at("weight_decay");
    if (c.at("optimizer") == "SGD")
        return std::make_unique<optim::SGD>(
            std::move(parameters),
            optim::SGDOptions{
                .lr = lr, .momentum = o.at("momentum"), .weight_decay = weight_decay});
    return std::make_unique<optim::AdamW>(std::move(parameters),
                                          optim::AdamOptions{.lr = lr,
                                                             .beta1 = o.at("beta1"),
                                                             .beta2 = o.at("beta2"),
                                                             .eps = o.at("eps"),
                                                             .weight_decay = weight_decay});
}

double relative(double got, double want, double least = 1) {
    return std::abs(got - want) / std::max(least, std::abs(want));
}

// What is wrong with one tensor after the last step; empty if nothing is.
std::string difference(const Tensor& t, const Json& want) {
    const std::vector<double> now = t.to_vector<double>(),
                              start = generate(want.at("start")).to_vector<double>(),
                              probe = generate({t.numel()}, 99).to_vector<double>();
    double sum = 0, squares = 0, change = 0, along = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
        const double d = now[i] - start[i];
        sum += now[i], squares += now[i] * now[i], change += d * d, along += d * probe[i];
    }
    change = std::sqrt(change);
    std::string out;
    const auto check = [&](const std::string& what, double got, double expected, double error,
                           double allowed) {
        if (!(error <= allowed))
            out += fmt::format("\n  {}: got {}, PyTorch {}, off by {:.2g} tolerances", what, got,
                               expected, error / allowed);
    };
    const std::vector<std::uint32_t> at = hash32(kSamples, 88);
    for (std::size_t i = 0; i < at.size(); ++i) {
        const std::size_t k = at[i] % now.size();
        const double v = want.at("values")[i];
        check(fmt::format("element {}", k), now[k], v, relative(now[k], v), kParameterTolerance);
    }
    const double mean = want.at("mean"), norm = want.at("norm");
    const double want_change = want.at("change"), want_along = want.at("along");
    const double got_mean = sum / static_cast<double>(now.size()), got_norm = std::sqrt(squares);
    check("mean", got_mean, mean, relative(got_mean, mean), kParameterTolerance);
    check("norm", got_norm, norm, relative(got_norm, norm), kParameterTolerance);
    const double size = std::max({want_change, 1e-4 * norm, 1e-6});
    check("change", change, want_change, std::abs(change - want_change) / size, kChangeTolerance);
    check("change along a direction", along, want_along, std::abs(along - want_along) / size,
          kChangeTolerance);
    return out;
}

class TorchTraining : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchTraining, TenStepsAgree) {
    const Fixture fixture(GetParam());
    const Json& c = fixture.cases().at(0);
    const nn::ModulePtr model = models::create(c.at("model").get<std::string>(), kClasses);

    nn::Module::Named start;
    for (const Json& s : c.at("state"))
        start.emplace_back(s["start"].at("name").get<std::string>(), generate(s["start"]));
    for (const auto& [name, count] : c.at("counters").items())
        start.emplace_back(name, zeros({}, int64));
    model->load_state_dict(start);
    std::vector<std::string> names;
    for (const auto& entry : model->state_dict())
        names.push_back(entry.first);
    EXPECT_EQ(names, c.at("names").get<std::vector<std::string>>());

    const auto optimizer = make_optimizer(c, model->parameters());
    for (int step = 0; step < kSteps; ++step) {
        const auto [x, y] = batch_of(c.at("image"), static_cast<std::uint32_t>(step % kBatches));
        const Tensor loss = cross_entropy((*model)(x), y);
        optimizer->zero_grad();
        loss.backward();
        optimizer->step();
        const double want = c.at("losses")[static_cast<std::size_t>(step)];
        const double got = loss.item<double>();
        EXPECT_LE(relative(got, want, 1e-30), kLossTolerance)
            << "step " << step << ": loss " << got << ", PyTorch " << want;
    }

    std::map<std::string, Tensor> after;
    for (const auto& [name, t] : model->state_dict())
        after[name] = t.detach();
    for (const Json& s : c.at("state")) {
        const auto name = s["start"].at("name").get<std::string>();
        EXPECT_EQ(difference(after.at(name), s), "") << name;
    }
    for (const auto& [name, count] : c.at("counters").items())
        EXPECT_EQ(after.at(name).item<std::int64_t>(), count.get<std::int64_t>()) << name;
}

INSTANTIATE_TEST_SUITE_P(All, TorchTraining,
                         ::testing::Values("lenet5_sgd", "lenet5_adamw", "resnet18_sgd",
                                           "resnet18_adamw"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace pippin::test
