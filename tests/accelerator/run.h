// A small training run: what the accelerator's tests train.
#pragma once

#include <vector>

#include "pippin/accelerator.h"
#include "pippin/pippin.h"

namespace pippin::test {

inline constexpr std::int64_t kSamples = 40;

inline data::TensorDataset samples() {
    std::vector<float> x(kSamples * 6);
    std::vector<std::int64_t> y(kSamples);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>((i * 37 % 101) / 50.0 - 1);
    for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = static_cast<std::int64_t>(i * 7 % 3);
    return data::TensorDataset(tensor(x, {kSamples, 6}), tensor(y, {kSamples}));
}

/// Model with dropout, AdamW and a schedule, over a shuffled loader: everything a checkpoint must
/// keep takes part.
struct TestRun {
    explicit TestRun(AcceleratorOptions o = {}, std::int64_t batch = 8, double dropout = 0.3)
        : accelerator((manual_seed(11), o)),
          model(nn::sequential(nn::make<nn::Linear>(6, 16), nn::make<nn::Tanh>(),
                               nn::make<nn::Dropout>(dropout), nn::make<nn::Linear>(16, 3))),
          optimizer(model->parameters(), {.lr = 1e-2}),
          schedule(optimizer, 3, 0.7),
          loader(samples(), {.batch_size = batch, .shuffle = true, .seed = 5}) {
        accelerator.prepare(*model, optimizer, loader, schedule);
    }

    Tensor train(const data::Batch& batch) {
        Tensor loss;
        {
            const auto autocast = accelerator.autocast();
            loss = cross_entropy((*model)(batch.data), batch.target);
        }
        accelerator.backward(loss);
        optimizer.step();
        schedule.step();
        optimizer.zero_grad();
        return loss;
    }

    std::vector<float> weights() const {
        std::vector<float> out;
        for (const Tensor& p : model->parameters())
            for (const float v : p.to_vector<float>())
                out.push_back(v);
        return out;
    }

    Accelerator accelerator;
    std::shared_ptr<nn::Sequential> model;
    optim::AdamW optimizer;
    optim::StepLR schedule;
    data::DataLoader loader;
};

}  // namespace pippin::test
