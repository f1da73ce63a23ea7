// What the image examples share: a folder of images split in two, and a model with a new
// classifier.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "flags.h"
#include "pippin/accelerator.h"
#include "pippin/data.h"
#include "pippin/models.h"
#include "pippin/pippin.h"
#include "pippin/train.h"
#include "pippin/weights.h"

namespace examples {

struct ImageTask {
    pippin::data::DatasetPtr train, eval;  ///< 80 % and 20 % of the images
    std::int64_t num_classes = 0;
};

/// The images that a model takes.
struct ImageInput {
    std::int64_t size = 224, channels = 3;
};

/// Those of a network of `pippin models`: of the size that it was made for where `size` is 0.
/// UsageError for a size that it cannot take.
inline ImageInput image_input(const std::string& model, std::int64_t size) {
    const pippin::models::Info& info = pippin::models::info(model);
    const std::int64_t own = info.input[1];
    if (size == 0) return {own, info.input[0]};
    if (info.one_size && size != own)
        throw UsageError(
            fmt::format("--image_size {}: {} takes images of {} x {} alone; leave "
                        "--image_size out",
                        size, model, own, own));
    if (size < info.smallest)
        throw UsageError(fmt::format("--image_size {}: {} takes images of {} x {} and more", size,
                                     model, info.smallest, info.smallest));
    return {size, info.input[0]};
}

/// The steps, and what all models want after them: gray images where they take one channel, and
/// ImageNet's mean and deviation.
inline pippin::transforms::Compose pixels(const ImageInput& input,
                                          std::vector<pippin::transforms::Compose::Step> steps) {
    namespace tf = pippin::transforms;
    const bool gray = input.channels == 1;
    if (gray) steps.emplace_back(tf::Grayscale());
    steps.emplace_back(tf::ToTensor());
    steps.emplace_back(gray ? tf::Normalize({0.449f}, {0.226f})
                            : tf::Normalize({0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}));
    return tf::Compose(steps);
}

/// A network of `pippin models` that takes images.
inline const CLI::Validator image_model(
    [](std::string& text) -> std::string {
        std::vector<std::string> known;
        for (const pippin::models::Info& info : pippin::models::list()) {
            if (info.vocabulary) continue;
            if (info.name == text) return "";
            known.push_back(info.name);
        }
        return fmt::format("expected a network for images of `pippin models`, got \"{}\"{}", text,
                           pippin::suggestion(text, known));
    },
    "MODEL");

/// Files are named <label>_<number>.jpg. Random crops train, the whole image measures.
inline ImageTask load_images(const std::string& folder, const ImageInput& input,
                             std::uint64_t seed) {
    namespace tf = pippin::transforms;
    namespace data = pippin::data;
    data::ImageFolder images(folder, pixels(input, {tf::RandomResizedCrop(input.size, {0.5, 1.0})}),
                             data::Labels::FileNames);
    const auto for_training = std::make_shared<const data::ImageFolder>(images);
    images.set_transform(pixels(input, {tf::Resize(input.size, input.size)}));
    const auto for_measuring = std::make_shared<const data::ImageFolder>(images);
    ImageTask task;
    task.num_classes = static_cast<std::int64_t>(images.classes().size());
    // Both copies split alike under one seed.
    task.train = data::random_split(for_training, {0.8, 0.2}, seed)[0];
    task.eval = data::random_split(for_measuring, {0.8, 0.2}, seed)[1];
    if (task.train->size() == 0 || task.eval->size() == 0)
        throw pippin::ValueError(
            fmt::format("{} images in {} are too few to split", images.size(), folder));
    return task;
}

/// Shuffled batches of the training images. A last batch of one image is left out: small networks
/// end in one value a channel then, which batch norm cannot normalize.
inline pippin::data::DataLoader train_loader(const ImageTask& task, std::int64_t batch_size,
                                             std::uint64_t seed, int workers) {
    return pippin::data::DataLoader(
        task.train, {.batch_size = batch_size,
                     .shuffle = true,
                     .seed = seed,
                     .workers = workers,
                     .drop_last = batch_size > 1 && task.train->size() > batch_size &&
                                  task.train->size() % batch_size == 1});
}

/// A new classifier alone bears a higher rate than a whole network that starts from nothing.
inline double default_lr(const std::string& weights) { return weights.empty() ? 2e-3 : 3e-2; }
inline constexpr const char* kDefaultLr = "3e-2 with --weights, 2e-3 without";

inline void add_image_flags(CLI::App& app, std::string& data_dir, std::int64_t& image_size,
                            std::string& model, std::string& weights) {
    app.add_option("--data_dir", data_dir, "folder of images")->required();
    app.add_option("--image_size", image_size, "pixels a side; default: the model's own size")
        ->always_capture_default(false)
        ->check(positive);
    app.add_option("--model", model, "see `pippin models`")->check(image_model);
    app.add_option("--weights", weights,
                   "pretrained weights (safetensors or .pth): only the last layer is trained");
}

/// A model for that many classes. With weights, all but its last layer is loaded and frozen.
inline std::shared_ptr<pippin::nn::Module> make_model(const std::string& name,
                                                      std::int64_t num_classes,
                                                      const std::string& weights) {
    const auto model = pippin::models::create(name, num_classes);
    if (weights.empty()) return model;
    // The last layer, as the models call it: resnet's fc, the others' classifier or head.
    const std::string last = model->named_parameters().back().first;
    const std::string head = last.substr(0, last.rfind('.') + 1);
    pippin::load_weights(*model, weights, {.ignore = {head}});
    for (auto& [key, parameter] : model->named_parameters())
        parameter.requires_grad_(key.rfind(head, 0) == 0);
    return model;
}

/// The share of the loader's images whose class the model tells right.
inline double measure(const pippin::Accelerator& accelerator, pippin::nn::Module& model,
                      pippin::data::DataLoader& loader) {
    model.eval();
    const pippin::NoGrad no_grad;
    pippin::train::Accuracy right;
    for (const auto& batch : loader) {
        const auto autocast = accelerator.autocast();
        right.add(accelerator.gather_for_metrics(model(batch.data)),
                  accelerator.gather_for_metrics(batch.target));
        pippin::flush();  // work starts while the next batch is being made
    }
    return right.value();
}

}  // namespace examples
