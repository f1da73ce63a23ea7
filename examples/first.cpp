// The README's example: learns which points lie inside a circle.
#include <pippin/pippin.h>

#include <iostream>

using namespace pippin;

int main() {
    manual_seed(0);
    const Tensor x = randn({1024, 2});
    const Tensor y = cast((x * x).sum({1}) > 1.4, int64);
    nn::Sequential net(
        {nn::make<nn::Linear>(2, 32), nn::make<nn::ReLU>(), nn::make<nn::Linear>(32, 2)});
    optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
    for (int step = 0; step <= 500; ++step) {
        const Tensor loss = cross_entropy(net(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        if (step % 100 == 0)
            std::cout << "step " << step << "  loss " << loss.item<float>() << "\n";
    }
    const NoGrad no_grad;
    const Tensor right = cast(net(x).argmax(1) == y, float32).mean();
    std::cout << "accuracy " << right.item<float>() << "\n";
}
