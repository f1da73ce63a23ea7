// Says what is on images, with a model that finetune_image_folder has trained.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "image_task.h"
#include "pippin/data.h"
#include "pippin/io.h"
#include "pippin/models.h"
#include "pippin/pippin.h"

using namespace pippin;
namespace tf = pippin::transforms;

struct Args {
    std::string weights;
    std::vector<std::string> images;
    std::size_t top = 3;
    bool cpu = false;
};

struct Classifier {
    nn::ModulePtr model;
    std::vector<std::string> classes;
    examples::ImageInput input;
};

Classifier load_classifier(const std::string& path) {
    const auto file = io::load_safetensors(path);
    const auto entry = [&](const char* name) {
        const auto found = file.metadata().find(name);
        if (found == file.metadata().end())
            throw FileError(fmt::format(
                "{} does not say its {}; models of finetune_image_folder do", path, name));
        return found->second;
    };
    Classifier c;
    const auto classes = nlohmann::json::parse(entry("classes"), nullptr, false);
    if (!classes.is_array() || classes.empty())
        throw FileError(fmt::format("{}: its list of classes is damaged", path));
    for (const auto& name : classes)
        c.classes.push_back(name.is_string() ? name.get<std::string>() : name.dump());
    const std::int64_t size = std::atoll(entry("image_size").c_str());
    if (size < 1) throw FileError(fmt::format("{}: its image_size is damaged", path));
    c.input = examples::image_input(entry("model"), size);
    c.model = models::create(entry("model"), static_cast<std::int64_t>(c.classes.size()));
    c.model->load_state_dict(file.tensors());
    c.model->to(default_device());
    c.model->eval();
    return c;
}

void classify(const Args& args) {
    examples::use_device(args.cpu ? "cpu" : "");
    const Classifier c = load_classifier(args.weights);
    const tf::Compose prepare =
        examples::pixels(c.input, {tf::Resize(c.input.size * 8 / 7), tf::CenterCrop(c.input.size)});
    const NoGrad no_grad;
    for (const std::string& path : args.images) {
        const data::Array pixels = prepare(data::read_image(path));
        const Tensor x = from_bytes(pixels.raw(), pixels.shape(), pixels.dtype());
        const auto shares = softmax((*c.model)(x.unsqueeze(0)), 1).to_vector<float>();
        std::vector<std::size_t> order(shares.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
        std::string line = path + ":";
        for (std::size_t i = 0; i < std::min(args.top, order.size()); ++i)
            line +=
                fmt::format("{} {} {:.3f}", i ? "," : "", c.classes[order[i]], shares[order[i]]);
        fmt::print("{}\n", line);
    }
}

int main(int argc, char** argv) {
    Args args;
    CLI::App app("Says what is on images, with a model of finetune_image_folder.");
    app.add_option("--weights", args.weights, "model.safetensors")->required();
    app.add_option("--top", args.top, "how many classes to name")->check(examples::positive);
    app.add_flag("--cpu", args.cpu, "run on the processor");
    app.add_option("images", args.images, "image files")->required();
    app.footer(
        "Examples:\n  pippin launch inference --weights runs/finetuned/model.safetensors "
        "pets/cat/1.jpg --top 1");
    examples::parse(app, argc, argv);
    return examples::run([&] { classify(args); });
}
