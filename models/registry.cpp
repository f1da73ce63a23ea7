// Networks by name.
#include <fmt/format.h>

#include "pippin/bert.h"
#include "pippin/command_line.h"
#include "pippin/models.h"

namespace pippin::models {
namespace {

using Make = nn::ModulePtr (*)(std::int64_t num_classes);

template <auto F>
nn::ModulePtr made_by(std::int64_t num_classes) {
    return F(num_classes);
}
template <int Number>
nn::ModulePtr efficientnet(std::int64_t num_classes) {
    return efficientnet_b(Number, num_classes);
}
nn::ModulePtr bert_base(std::int64_t num_classes) {
    return nn::make<BertForSequenceClassification>(BertConfig::base(), num_classes);
}
nn::ModulePtr minilm(std::int64_t num_classes) {
    return nn::make<BertForSequenceClassification>(BertConfig::minilm(), num_classes);
}

struct Registry {
    std::vector<Info> infos;
    std::vector<Make> makers;

    void add(const char* name, Make make, Info i) {
        i.name = name;
        infos.push_back(i);
        makers.push_back(make);
    }
    Info& images(const char* name, Make make, std::int64_t size = 224, std::int64_t batch = 64) {
        add(name, make, {"", Shape{3, size, size}, 1000, 0, batch});
        return infos.back();
    }
    void large_images(const char* name, Make make, std::int64_t smallest) {
        images(name, make).smallest = smallest;
    }
    void square_images(const char* name, Make make) { images(name, make).one_size = true; }
    void tokens(const char* name, Make make) {
        add(name, make, {"", Shape{128}, 2, BertConfig{}.vocab_size, 64});
    }

    Registry() {
        add("lenet5", made_by<lenet5>, {"", Shape{1, 28, 28}, 10, 0, 64, 28, true});
        large_images("alexnet", made_by<alexnet>, 63);
        large_images("vgg11", made_by<vgg11>, 32);
        large_images("vgg13", made_by<vgg13>, 32);
        large_images("vgg16", made_by<vgg16>, 32);
        large_images("vgg19", made_by<vgg19>, 32);
        large_images("vgg11_bn", made_by<vgg11_bn>, 32);
        large_images("vgg13_bn", made_by<vgg13_bn>, 32);
        large_images("vgg16_bn", made_by<vgg16_bn>, 32);
        large_images("vgg19_bn", made_by<vgg19_bn>, 32);
        images("resnet18", made_by<resnet18>);
        images("resnet34", made_by<resnet34>);
        images("resnet50", made_by<resnet50>, 224, 128);
        images("resnet101", made_by<resnet101>);
        images("resnet152", made_by<resnet152>);
        images("resnet50d", made_by<resnet50d>);
        large_images("convmixer_768_32", made_by<convmixer_768_32>, 7);
        // Sizes of the published weights.
        images("efficientnet_b0", efficientnet<0>, 224);
        images("efficientnet_b1", efficientnet<1>, 240);
        images("efficientnet_b2", efficientnet<2>, 288);
        images("efficientnet_b3", efficientnet<3>, 300);
        images("efficientnet_b4", efficientnet<4>, 380);
        images("efficientnet_b5", efficientnet<5>, 456);
        images("efficientnet_b6", efficientnet<6>, 528);
        images("efficientnet_b7", efficientnet<7>, 600);
        square_images("vit_b_16", made_by<vit_b_16>);
        square_images("vit_b_32", made_by<vit_b_32>);
        square_images("vit_l_16", made_by<vit_l_16>);
        tokens("bert_base", bert_base);
        tokens("minilm", minilm);
    }
};

const Registry& registry() {
    static const Registry r;
    return r;
}

std::size_t position(const char* function, std::string_view name) {
    const auto& infos = registry().infos;
    std::vector<std::string> known;
    for (std::size_t i = 0; i < infos.size(); ++i) {
        if (infos[i].name == name) return i;
        known.push_back(infos[i].name);
    }
    // One name helps more than forty; all of them where none is near.
    std::string hint = suggestion(std::string(name), known);
    if (hint.empty()) hint = fmt::format("; there are {}", fmt::join(known, ", "));
    throw ValueError(fmt::format("models::{}: there is no model \"{}\"{}", function, name, hint));
}

}  // namespace

const std::vector<Info>& list() { return registry().infos; }

const Info& info(std::string_view name) { return list()[position("info", name)]; }

std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const Info& i : list())
        out.push_back(i.name);
    return out;
}

nn::ModulePtr create(std::string_view name, std::int64_t num_classes) {
    if (num_classes < 1)
        throw ValueError(
            fmt::format("models::create: num_classes must be positive, got {}", num_classes));
    return registry().makers[position("create", name)](num_classes);
}

Tensor example_input(const Info& info, std::int64_t batch) {
    Shape shape{batch};
    for (int d = 0; d < info.input.rank(); ++d)
        shape.push_back(info.input[d]);
    return info.vocabulary ? randint(0, info.vocabulary, shape) : randn(shape);
}

}  // namespace pippin::models
