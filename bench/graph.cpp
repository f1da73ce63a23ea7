// What the framework itself costs: building and hashing the graph of a step, per node, and running
// a cached plan, per launch beside its work.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "pippin/models.h"
#include "pippin/pippin.h"

using namespace pippin;

namespace {

double now_us() {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

// The number in "plan: N graph nodes in M launches".
std::pair<double, double> nodes_and_launches(const Tensor& t) {
    const std::string text = explain(t);
    return {std::stod(text.substr(text.find(':') + 1)),
            std::stod(text.substr(text.find(" in ") + 4))};
}

void step_cost(const char* name, const Tensor& x, std::int64_t classes) {
    const auto model = models::create(name, classes);
    const Tensor y = randint(0, classes, {x.size(0)}).eval();
    optim::SGD optimizer(model->parameters(), {.lr = 1e-3, .momentum = 0.9});
    std::vector<double> build, submit;
    double nodes = 0;
    for (int i = 0; i < 40; ++i) {
        synchronize();
        const double start = now_us();
        const Tensor loss = cross_entropy((*model)(x), y);
        optimizer.zero_grad();
        loss.backward();
        const double built = now_us();
        if (i == 5) {  // the update's nodes come on top
            nodes = nodes_and_launches(loss).first;
            continue;
        }
        optimizer.step();
        if (i > 5) {
            build.push_back(built - start);
            submit.push_back(now_us() - built);
        }
    }
    nodes += 5.0 * static_cast<double>(model->parameters().size());
    const double b = median(build), s = median(submit);
    fmt::print(
        "{:10} {:5.0f} nodes: build {:7.1f} us, update and submit {:7.1f} us, {:.3f} us a node\n",
        name, nodes, b, s, (b + s) / nodes);
}

void launch_cost() {
    // Products of 1x1 matrices: no work, and each depends on the one before.
    const Tensor w = ones({1, 1}).eval();
    std::vector<double> times;
    double launches = 0;
    for (int i = 0; i < 60; ++i) {
        Tensor x = ones({1, 1});
        x.eval();
        for (int k = 0; k < 200; ++k)
            x = matmul(x, w);
        if (i == 0) launches = nodes_and_launches(x).second;
        synchronize();
        Tensor again = w;
        for (int k = 0; k < 200; ++k)
            again = matmul(again, w);
        const double start = now_us();
        again.eval();
        times.push_back(now_us() - start);
    }
    fmt::print(
        "{:.0f} dependent launches of a cached plan: {:.1f} us, {:.3f} us a launch, its tiny work "
        "included\n",
        launches, median(times), median(times) / launches);
}

}  // namespace

int main() {
    step_cost("lenet5", randn({1, 1, 28, 28}).eval(), 10);
    step_cost("resnet18", randn({2, 3, 32, 32}).eval(), 10);
    step_cost("resnet50", randn({2, 3, 32, 32}).eval(), 10);
    launch_cost();
}
