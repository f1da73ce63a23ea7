// Fine-tunes or trains a residual network on a folder of images named <label>_<number>.jpg: 80 % of
// them train, 20 % measure. Prints the accuracy after each epoch.
#include <fmt/format.h>

#include <optional>

#include "flags.h"
#include "pippin/data.h"
#include "pippin/io.h"
#include "pippin/models.h"
#include "pippin/pippin.h"
#include "pippin/train.h"

using namespace pippin;
namespace tf = pippin::transforms;

struct Args {
    std::string data_dir, mixed_precision = "no", model = "resnet50", weights;
    bool cpu = false;
    int epochs = 3, workers = 2;
    std::int64_t batch_size = 64, image_size = 224;
    double lr = 3e-2;
    std::uint64_t seed = 42;
};

// Pretrained weights for another number of classes: all but the classifier is loaded and frozen.
void load_pretrained(nn::Module& model, const std::string& path) {
    nn::Module::Named state;
    const nn::Module::Named own = model.state_dict();
    for (auto& [name, tensor] : io::load_safetensors(path).tensors())
        if (name.rfind("fc.", 0) != 0) state.emplace_back(name, tensor);
    for (const auto& [name, tensor] : own)
        if (name.rfind("fc.", 0) == 0) state.emplace_back(name, tensor);
    model.load_state_dict(state);
    for (auto& [name, parameter] : model.named_parameters())
        parameter.requires_grad_(name.rfind("fc.", 0) == 0);
}

void train_model(const Args& args) {
    examples::use_device(args.cpu ? "cpu" : "");
    manual_seed(args.seed);
    // Weights stay float32; convolutions and matrix products read them as bfloat16.
    const DType precision = args.mixed_precision == "bf16" ? bfloat16 : float32;

    const tf::Normalize normalize({0.485f, 0.456f, 0.406f},
                                  {0.229f, 0.224f, 0.225f});  // ImageNet's
    const tf::Compose for_training{tf::RandomResizedCrop(args.image_size, {0.5, 1.0}),
                                   tf::ToTensor(), normalize};
    const tf::Compose for_measuring{tf::Resize(args.image_size, args.image_size), tf::ToTensor(),
                                    normalize};
    data::ImageFolder images(args.data_dir, for_training, data::Labels::FileNames);
    const auto num_classes = static_cast<std::int64_t>(images.classes().size());
    const auto train_images = std::make_shared<const data::ImageFolder>(images);
    images.set_transform(for_measuring);
    const auto eval_images = std::make_shared<const data::ImageFolder>(images);
    // Both copies split alike under one seed.
    const auto train_set = data::random_split(train_images, {0.8, 0.2}, args.seed)[0];
    const auto eval_set = data::random_split(eval_images, {0.8, 0.2}, args.seed)[1];
    if (train_set->size() == 0 || eval_set->size() == 0)
        throw ValueError(
            fmt::format("{} images in {} are too few to split", images.size(), args.data_dir));
    data::DataLoader train_loader(train_set, {.batch_size = args.batch_size,
                                              .shuffle = true,
                                              .seed = args.seed,
                                              .workers = args.workers});
    data::DataLoader eval_loader(eval_set,
                                 {.batch_size = args.batch_size, .workers = args.workers});

    const auto model = models::create(args.model, num_classes);
    if (!args.weights.empty()) load_pretrained(*model, args.weights);
    fmt::print("device: {}, {} ({})\n", default_device().str(), default_device().description(),
               default_device_reason());
    fmt::print("{} on {} images of {} classes, {} to measure, precision {}\n", args.model,
               train_set->size(), num_classes, eval_set->size(), name_of(precision));

    optim::Adam optimizer(model->parameters(), {.lr = args.lr / 25});
    optim::OneCycleLR schedule(
        optimizer, {.max_lr = args.lr, .total_steps = args.epochs * train_loader.size()});
    // A bar for people; whoever reads the output from a pipe gets one line an epoch.
    train::ProgressBar bar(
        {.epochs = args.epochs, .images_per_epoch = train_set->size(), .lines_per_epoch = 0});

    for (int epoch = 0; epoch < args.epochs; ++epoch) {
        model->train();
        bar.begin_epoch();
        for (const auto& batch : train_loader) {
            Tensor loss;
            {
                const Autocast autocast(precision);
                loss = cross_entropy((*model)(batch.data), batch.target);
            }
            optimizer.zero_grad();
            loss.backward();
            optimizer.step();
            schedule.step();
            bar.update(batch.target.size(0), loss);
        }
        bar.end_epoch();

        model->eval();
        train::Accuracy right;
        {
            const NoGrad no_grad;
            for (const auto& batch : eval_loader) {
                const Autocast autocast(precision);
                right.add((*model)(batch.data), batch.target);
                flush();  // work starts while the next batch is being made
            }
        }
        fmt::print("epoch {}: {:.2f}\n", epoch, 100 * right.value());
        std::fflush(stdout);
    }
}

int main(int argc, char** argv) {
    Args args;
    CLI::App app("Trains a residual network on a folder of images named <label>_<number>.jpg.");
    app.option_defaults()->always_capture_default();
    app.add_option("--data_dir", args.data_dir, "folder of images")->required();
    app.add_option("--mixed_precision", args.mixed_precision, "no (float32) or bf16")
        ->envname("PIPPIN_MIXED_PRECISION")
        ->check(CLI::IsMember({"no", "bf16"}));
    app.add_flag("--cpu", args.cpu, "train on the processor");
    app.add_option("--epochs", args.epochs)->check(CLI::PositiveNumber);
    app.add_option("--batch_size", args.batch_size)->check(CLI::PositiveNumber);
    app.add_option("--image_size", args.image_size)->check(CLI::PositiveNumber);
    app.add_option(
        "--lr", args.lr,
        "highest learning rate of the one-cycle schedule; without --weights rather 2e-3");
    app.add_option("--seed", args.seed);
    app.add_option("--model", args.model,
                   "one of resnet18, resnet34, resnet50, resnet101, resnet152");
    app.add_option(
        "--weights", args.weights,
        "pretrained weights (safetensors, torchvision's names): only the classifier is trained");
    app.add_option("--workers", args.workers, "threads that make batches ahead");
    examples::parse(app, argc, argv);
    return examples::run([&] { train_model(args); });
}
