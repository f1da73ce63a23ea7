// Trains or fine-tunes any model on a folder of images with one folder for each class. Leaves
// model.safetensors, which the example `inference` reads, metrics.csv and curve.svg.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "image_task.h"
#include "training_flags.h"

using namespace pippin;
namespace fs = std::filesystem;
namespace tf = pippin::transforms;

struct Args : examples::TrainingFlags {
    std::string data_dir, model = "resnet18", weights, output_dir = "runs/finetuned";
    bool freeze = false;
    std::int64_t image_size = 0;
    double weight_decay = 0.01, eval_share = 0.2;
};

int train_model(Args args) {
    if (args.lr <= 0) args.lr = 1e-3;
    Accelerator accelerator({.mixed_precision = args.mixed_precision,
                             .cpu = args.cpu,
                             .gradient_accumulation_steps = args.gradient_accumulation_steps});
    set_seed(args.seed);

    const auto input = examples::image_input(args.model, args.image_size);
    data::ImageFolder images(
        args.data_dir,
        examples::pixels(input, {tf::RandomResizedCrop(input.size), tf::RandomHorizontalFlip()}));
    const auto for_training = std::make_shared<const data::ImageFolder>(images);
    images.set_transform(
        examples::pixels(input, {tf::Resize(input.size * 8 / 7), tf::CenterCrop(input.size)}));
    const auto for_measuring = std::make_shared<const data::ImageFolder>(images);
    const std::vector<double> shares{1 - args.eval_share, args.eval_share};
    const auto train_set = data::random_split(for_training, shares, args.seed)[0];
    const auto eval_set = data::random_split(for_measuring, shares, args.seed)[1];
    if (train_set->size() == 0 || eval_set->size() == 0)
        throw ValueError(
            fmt::format("{} images in {} are too few to split", images.size(), args.data_dir));
    auto train_loader =
        examples::train_loader({train_set, eval_set}, args.batch_size, args.seed, args.workers);
    data::DataLoader eval_loader(eval_set,
                                 {.batch_size = args.batch_size, .workers = args.workers});

    const auto classes = static_cast<std::int64_t>(images.classes().size());
    const auto model = models::create(args.model, classes);
    if (!args.weights.empty()) {
        // The classifier of other classes does not fit; everything else must.
        const LoadReport report = load_weights(*model, args.weights, {.skip_mismatched = true});
        accelerator.print(report.str());
        if (args.freeze)
            for (const std::string& name : report.loaded)
                for (auto& [own, parameter] : model->named_parameters())
                    if (own == name) parameter.requires_grad_(false);
    }
    accelerator.print(fmt::format("{} on {} images of {} classes, {} to measure", args.model,
                                  train_set->size(), classes, eval_set->size()));

    optim::AdamW optimizer(model->parameters(), {.lr = args.lr, .weight_decay = args.weight_decay});
    const std::int64_t windows = (train_loader.size() + args.gradient_accumulation_steps - 1) /
                                 args.gradient_accumulation_steps;
    optim::OneCycleLR schedule(optimizer,
                               {.max_lr = args.lr, .total_steps = args.epochs * windows});
    accelerator.prepare(*model, optimizer, train_loader, eval_loader, schedule);

    const fs::path output = args.output_dir;
    // Of several processes one writes files.
    const bool writes = accelerator.is_main_process();
    std::optional<train::MetricsCsv> metrics;
    if (writes)
        metrics.emplace(output / "metrics.csv",
                        std::vector<std::string>{"epoch", "train_loss", "accuracy"});
    train::Series losses{"training", {}, true}, accuracies{"test", {}, true};
    const auto save = [&] {
        fs::create_directories(output);
        io::save_safetensors(
            output / "model.safetensors", model->state_dict(),
            {{"format", "pt"},
             {"model", args.model},
             {"image_size", std::to_string(input.size)},
             {"classes", nlohmann::json(images.classes())
                             .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)}});
    };
    train::ProgressBar bar({.epochs = args.epochs,
                            .images_per_epoch = train_set->size(),
                            .quiet = !accelerator.is_main_process()});
    double best = -1;
    for (int epoch = 1; epoch <= args.epochs; ++epoch) {
        model->train();
        bar.begin_epoch();
        train::Mean mean_loss;
        for (const auto& batch : train_loader) {
            const auto window = accelerator.accumulate();
            Tensor loss;
            {
                const auto autocast = accelerator.autocast();
                loss = cross_entropy((*model)(batch.data), batch.target);
            }
            mean_loss.add(loss.detach(), batch.target.size(0));
            accelerator.backward(loss);
            optimizer.step();
            schedule.step();
            optimizer.zero_grad();
            bar.update(batch.target.size(0), loss);
            if (accelerator.stop_requested()) break;
        }
        const double accuracy = examples::measure(accelerator, *model, eval_loader);
        const double loss = mean_loss.value();
        bar.end_epoch(fmt::format("test accuracy {:.4f}", accuracy), loss);
        losses.points.emplace_back(epoch, loss);
        accuracies.points.emplace_back(epoch, accuracy);
        if (writes) {
            metrics->add({static_cast<double>(epoch), loss, accuracy});
            train::write_curves_svg(output / "curve.svg", args.model,
                                    {{"loss", "epoch", "loss", {losses}},
                                     {"accuracy", "epoch", "accuracy", {accuracies}}});
            if (accuracy > best) save();
        }
        best = std::max(best, accuracy);
        if (accelerator.stop_requested()) break;
    }
    accelerator.print(fmt::format("best accuracy {:.4f}; the model is in {}", best,
                                  (output / "model.safetensors").string()));
    return accelerator.exit_code();  // of a signal that ended the run early
}

int main(int argc, char** argv) {
    Args args;
    args.epochs = 5;
    args.batch_size = 32;
    CLI::App app("Trains or fine-tunes a model on a folder of images, a folder for each class.");
    examples::add_training_flags(app, args, "1e-3");
    app.add_option("--data_dir", args.data_dir, "folder with a folder of images for each class")
        ->required();
    app.add_option("--model", args.model, "see `pippin models`")->check(examples::image_model);
    app.add_option("--image_size", args.image_size, "pixels a side; default: the model's own size")
        ->always_capture_default(false)
        ->check(examples::positive);
    app.add_option("--weights", args.weights, "pretrained weights: safetensors, .pt or .pth");
    app.add_flag("--freeze", args.freeze, "train only what the weights do not have");
    app.add_option("--output_dir", args.output_dir, "where the results go");
    app.add_option("--weight_decay", args.weight_decay)->check(CLI::NonNegativeNumber);
    app.add_option("--eval_share", args.eval_share, "share of the images that measure")
        ->check(CLI::Range(0.01, 0.9));
    app.footer(
        "Examples:\n  pippin launch finetune_image_folder --data_dir pets --image_size 128\n  "
        "pippin launch finetune_image_folder --data_dir pets --model resnet50 --weights "
        "resnet50.pth --freeze");
    examples::parse(app, argc, argv);
    return examples::run([&] { return train_model(args); });
}
