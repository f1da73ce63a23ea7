// Networks by name.
#include <fmt/format.h>

#include "pippin/models.h"

namespace pippin::models {
namespace {

struct Entry {
    const char* name;
    nn::ModulePtr (*make)(std::int64_t num_classes);
};

template <auto F>
nn::ModulePtr made_by(std::int64_t num_classes) {
    return F(num_classes);
}

constexpr Entry kModels[] = {
    {"lenet5", made_by<lenet5>},       {"resnet18", made_by<resnet18>},
    {"resnet34", made_by<resnet34>},   {"resnet50", made_by<resnet50>},
    {"resnet101", made_by<resnet101>}, {"resnet152", made_by<resnet152>},
};

}  // namespace

std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const Entry& e : kModels)
        out.push_back(e.name);
    return out;
}

nn::ModulePtr create(std::string_view name, std::int64_t num_classes) {
    if (num_classes < 1)
        throw ValueError(
            fmt::format("models::create: num_classes must be positive, got {}", num_classes));
    for (const Entry& e : kModels)
        if (name == e.name) return e.make(num_classes);
    std::string known;
    for (const Entry& e : kModels)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", e.name);
    throw ValueError(
        fmt::format("models::create: there is no model \"{}\"; there are {}", name, known));
}

}  // namespace pippin::models
