// pippin estimate-memory: what training a network takes, from the plan of its step.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "pippin/autograd.h"
#include "pippin/bert_folder.h"
#include "pippin/io.h"
#include "pippin/models.h"
#include "pippin/pippin.h"
#include "runtime/value.h"
#include "tensor/flush.h"
#include "tensor/variable.h"

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;

struct Args {
    std::string subject;
    std::vector<std::string> dtypes{"float32", "float16", "bfloat16"};
    std::int64_t batch = 1, length = 128;
    bool batch_given = false, length_given = false;
};

struct Size {
    std::int64_t numbers = 0, largest = 0;  ///< of all tensors; of the largest layer's
};

std::string human(double bytes) {
    for (const char* unit : {"B", "KiB", "MiB", "GiB"}) {
        if (bytes < 1024 || unit == std::string("GiB"))
            return fmt::format("{:.{}f} {}", bytes, bytes < 10 && unit != std::string("B") ? 2 : 1,
                               unit);
        bytes /= 1024;
    }
    return "";
}

DType dtype_named(const std::string& name) {
    for (const DType t : {float32, float16, bfloat16, float64})
        if (name == name_of(t)) return t;
    throw ValueError("there is no dtype " + name);
}

// A flag that changes nothing is a mistake.
void refuse(bool given, const char* name, const std::string& subject, const char* what) {
    if (given) throw UsageError(fmt::format("{}: {} {}; leave it out", name, subject, what));
}

// The parameters of one layer have one name before the last dot.
Size size_of_state(const nn::Module::Named& state) {
    Size s;
    std::string layer;
    std::int64_t own = 0;
    for (const auto& [name, t] : state) {
        const std::string of = name.substr(0, std::min(name.rfind('.'), name.size()));
        if (of != layer) own = 0;
        layer = of;
        own += t.numel();
        s.numbers += t.numel();
        s.largest = std::max(s.largest, own);
    }
    return s;
}

// Leaves without bytes: the step is planned and never run.
void make_hollow(nn::Module& model) {
    for (auto& [name, t] : model.state_dict()) {
        const graph::NodePtr& n = t.variable()->node;
        bind_leaf(*t.variable(),
                  graph::make_leaf(std::make_shared<Value>(), n->dtype, n->shape, n->device));
    }
}
Tensor hollow(const Tensor& like) {
    const graph::NodePtr& n = node_of(like);
    return wrap(graph::make_leaf(std::make_shared<Value>(), n->dtype, n->shape, n->device));
}

struct Planned {
    std::int64_t forward = 0;   ///< bytes beside weights and inputs, evaluating
    std::int64_t training = 0;  ///< the same of forward and backward, gradients included
    std::int64_t input = 0;
};

Planned plan_step(nn::Module& model, const Tensor& x,
                  const std::function<Tensor(const Tensor&)>& run, DType compute) {
    Planned p;
    p.input = x.numel() * static_cast<std::int64_t>(size_of(x.dtype()));
    const Autocast autocast(compute == float64 ? float32 : compute);
    {
        model.eval();
        const NoGrad no_grad;
        const PlanCost cost = plan_cost(run(x));
        p.forward = cost.arena_bytes + cost.output_bytes;
    }
    model.train();
    model.requires_grad_();
    const Tensor logits = run(x);
    const Tensor target = hollow(zeros({logits.size(0)}, int64));
    const Tensor loss = cross_entropy(logits, target);
    loss.backward();
    const PlanCost cost = plan_cost(loss);
    p.training = cost.arena_bytes + cost.output_bytes;
    return p;
}

void report(const std::string& name, const Size& size, const Args& args,
            const std::function<Planned(DType)>& plan) {
    fmt::print("memory of {}{}\n\n", name,
               plan ? fmt::format(", batches of {}", args.batch) : std::string());
    fmt::print("{:9} {:>13} {:>11}", "dtype", "largest layer", "weights");
    if (plan)
        fmt::print(" {:>11} {:>11} {:>11} {:>13} {:>11}", "gradients", "Adam", "evaluating",
                   "activations", "training");
    else
        fmt::print(" {:>18}", "training with Adam");
    fmt::print("\n");
    for (const std::string& dtype : args.dtypes) {
        const DType t = dtype_named(dtype);
        const double each = static_cast<double>(size_of(t));
        const double n = static_cast<double>(size.numbers);
        fmt::print("{:9} {:>13} {:>11}", dtype, human(static_cast<double>(size.largest) * each),
                   human(n * each));
        if (!plan) {
            fmt::print(" {:>18}\n", human(4 * n * each));
            continue;
        }
        // Mixed precision keeps weights, gradients and moments in float32.
        const double kept = t == float64 ? 8 : 4;
        const Planned p = plan(t);
        const double activations = static_cast<double>(p.training) - n * kept;
        fmt::print(" {:>11} {:>11} {:>11} {:>13} {:>11}\n", human(n * kept), human(2 * n * kept),
                   human(n * kept + static_cast<double>(p.forward + p.input)),
                   human(std::max(activations, 0.0)),
                   human(3 * n * kept + static_cast<double>(p.training + p.input)));
    }
    if (plan)
        fmt::print(
            "\nfrom the plan of one step; half types: weights, gradients and Adam's moments stay "
            "float32,\nmatrix products and convolutions compute in the half type (autocast)\n");
}

int of_file(const Args& args) {
    const char* what = "holds weights alone, whatever they are trained on";
    refuse(args.batch_given, "--batch", args.subject, what);
    refuse(args.length_given, "--length", args.subject, what);
    const io::SafeTensors file = io::load_safetensors(args.subject);
    Size s;
    for (const io::TensorInfo& t : file.entries()) {
        std::int64_t n = 1;
        for (const std::int64_t e : t.shape)
            n *= e;
        s.numbers += n;
        s.largest = std::max(s.largest, n);
    }
    report(args.subject, s, args, {});
    return 0;
}

std::int64_t text_length(const Args& args, std::int64_t most) {
    if (args.length_given && args.length > most)
        throw UsageError(fmt::format("--length {}: {} takes texts of {} tokens and less",
                                     args.length, args.subject, most));
    return std::min(args.length, most);
}

std::string with_length(const std::string& name, std::int64_t length) {
    return fmt::format("{}, texts of {} tokens", name, length);
}

int of_bert(const Args& args) {
    const models::BertConfig config = models::read_bert_config(args.subject);
    const auto make = [&] {
        return std::make_shared<models::BertForSequenceClassification>(config);
    };
    const Size size = size_of_state(make()->named_parameters());
    const std::int64_t length = text_length(args, config.max_positions);
    report(with_length(args.subject, length), size, args, [&](DType t) {
        const auto model = make();  // a new one each time: what is pending is in the plan
        make_hollow(*model);
        const Tensor ids = hollow(zeros({args.batch, length}, int64));
        return plan_step(
            *model, ids, [&](const Tensor& x) { return model->forward(x); }, t);
    });
    return 0;
}

int of_model(const Args& args) {
    models::Info info = models::info(args.subject);
    if (info.vocabulary)
        info.input = Shape{text_length(args, models::BertConfig{}.max_positions)};
    else
        refuse(args.length_given, "--length", info.name, "takes images, not texts");
    const auto make = [&] { return models::create(info.name, info.num_classes); };
    const Size size = size_of_state(make()->named_parameters());
    report(info.vocabulary ? with_length(info.name, info.input[0]) : info.name, size, args,
           [&](DType t) {
               const auto model = make();  // a new one each time: what is pending is in the plan
               make_hollow(*model);
               const Tensor x = hollow(models::example_input(info, args.batch));
               return plan_step(
                   *model, x, [&](const Tensor& in) { return model->forward(in); }, t);
           });
    return 0;
}

bool is_file_name(const fs::path& path) {
    return path.extension() == ".safetensors" || path.extension() == ".json";
}

std::function<int()> setup(CLI::App& app) {
    auto args = std::make_shared<Args>();
    app.add_option("model", args->subject,
                   "a name of `pippin models`, a BERT's config.json, or a .safetensors file")
        ->type_name("MODEL")
        ->required()
        ->check(checked([](const std::string& text) -> std::string {
            if (is_file_name(text)) return "";
            return model_name(", a BERT's config.json or a .safetensors file")(text);
        }));
    app.add_option("--dtypes", args->dtypes, "float32, float16, bfloat16, float64")
        ->delimiter(',')
        ->check(one_of({"float32", "float16", "bfloat16", "float64"}));
    const CLI::Option* batch =
        app.add_option("--batch", args->batch, "samples in a batch")->check(CLI::Range(1, 1 << 20));
    const CLI::Option* length =
        app.add_option("--length", args->length, "tokens of a text (default: 128)")
            ->check(CLI::Range(1, 1 << 20));
    app.footer(
        "Examples:\n  pippin estimate-memory resnet50 --batch 32\n  pippin estimate-memory "
        "minilm/config.json --batch 16 --length 64\n  pippin estimate-memory model.safetensors "
        "--dtypes float32");
    return [=]() -> int {
        args->batch_given = batch->count() > 0;
        args->length_given = length->count() > 0;
        const fs::path path = args->subject;
        if (path.extension() == ".safetensors") return of_file(*args);
        if (path.extension() == ".json") return of_bert(*args);
        return of_model(*args);
    };
}

const Register command{{"estimate-memory", "what training a network takes, from its plan", setup}};

}  // namespace
}  // namespace pippin::cli
