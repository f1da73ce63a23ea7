// pippin models: the networks that come with Pippin.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "model_cost.h"

namespace pippin::cli {
namespace {

struct Args {
    std::vector<std::string> models;
    bool json = false;
};

std::string input_text(const models::Info& info) {
    std::string out;
    for (const std::int64_t extent : info.input)
        out += fmt::format("{}{}", out.empty() ? "" : " x ", extent);
    return info.vocabulary ? out + " tokens" : out;
}

// 25557032 as 25,557,032
std::string grouped(std::int64_t n) {
    std::string out = std::to_string(n);
    for (std::size_t at = out.size(); at > 3;)
        out.insert(at -= 3, ",");
    return out;
}

int run(const Args& a) {
    std::vector<models::Info> infos;
    for (const std::string& name : a.models)
        infos.push_back(models::info(name));
    if (a.models.empty()) infos = models::list();
    if (!a.json)
        fmt::print("{:17} {:>12}  {:>15}  {:>8}  {:>8}\n", "model", "parameters", "input", "GMACs",
                   "classes");
    for (const models::Info& info : infos) {
        const std::int64_t parameters =
            models::create(info.name, info.num_classes)->num_parameters();
        const std::int64_t cost = forward_multiply_adds(info);
        if (a.json) {
            nlohmann::json j{
                {"model", info.name},
                {"parameters", parameters},
                {"input", std::vector<std::int64_t>(info.input.begin(), info.input.end())},
                {"num_classes", info.num_classes},
                {"multiply_adds", cost}};
            if (info.vocabulary) j["vocabulary"] = info.vocabulary;
            fmt::print("{}\n", j.dump());
        } else {
            fmt::print("{:17} {:>12}  {:>15}  {:>8}  {:>8}\n", info.name, grouped(parameters),
                       input_text(info),
                       fmt::format("{:.{}f}", double(cost) * 1e-9, cost < 100'000'000 ? 4 : 2),
                       info.num_classes);
        }
    }
    if (!a.json) fmt::print("GMACs: thousand million multiply-adds of one sample's forward pass\n");
    return 0;
}

std::function<int()> setup(CLI::App& app) {
    auto a = std::make_shared<Args>();
    app.add_option("models", a->models, "names (default: all)")
        ->type_name("MODEL")
        ->check(model_name());
    app.add_flag("--json", a->json, "one JSON object a line");
    app.footer("Examples:\n  pippin models\n  pippin models resnet50 vit_b_16 --json");
    return [a] { return run(*a); };
}

const Register command{{"models", "list the networks: parameters, input and cost", setup}};

}  // namespace
}  // namespace pippin::cli
