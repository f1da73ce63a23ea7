#include "torch/fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <stdexcept>

namespace pippin::test {

namespace {

// Largest difference relative to max(1, |expected|). Integers and bool must be equal.
struct Tolerance {
    DType dtype;
    double value;
};
constexpr Tolerance kTolerances[] = {
    {DType::Float64, 1e-10},
    {DType::Float32, 1e-5},
    {DType::Float16, 2e-3},
    {DType::BFloat16, 1.6e-2},
};

double tolerance(DType dtype) {
    for (const Tolerance& t : kTolerances)
        if (t.dtype == dtype) return t.value;
    return 0;
}

bool near(double got, double want, double allowed) {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
    if (std::isinf(want) || std::isinf(got)) return got == want;
    return std::abs(got - want) <= allowed * std::max(1.0, std::abs(want));
}

template <class T>
std::string first_difference(const std::vector<T>& got, const std::vector<T>& want,
                             double allowed) {
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = want.size(); i-- > 0;) {
        const bool same =
            allowed == 0 ? got[i] == want[i]
                         : near(static_cast<double>(got[i]), static_cast<double>(want[i]), allowed);
        if (!same) ++wrong, first = i;
    }
    if (wrong == 0) return "";
    return fmt::format("{} of {} elements differ, first [{}]: got {}, PyTorch {}", wrong,
                       want.size(), first, got[first], want[first]);
}

std::string values_differ(const Tensor& got, const Tensor& want, double scale) {
    if (is_floating(want.dtype()))
        return first_difference(got.to_vector<double>(), want.to_vector<double>(),
                                tolerance(want.dtype()) * scale);
    return first_difference(got.to_vector<std::int64_t>(), want.to_vector<std::int64_t>(), 0);
}

std::string kind_differs(const Tensor& got, const Shape& shape, DType dtype) {
    if (got.shape() == shape && got.dtype() == dtype) return "";
    return fmt::format("got {} {}, PyTorch {} {}", name_of(got.dtype()), got.shape().str(),
                       name_of(dtype), shape.str());
}

}  // namespace

double number(const Json& j) {
    if (!j.is_string()) return j.get<double>();
    const auto text = j.get<std::string>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    const double inf = std::numeric_limits<double>::infinity();
    if (text == "inf") return inf;
    if (text == "-inf") return -inf;
    throw std::invalid_argument("no number: " + text);
}

Fixture::Fixture(const std::string& name)
    : file_(io::load_safetensors(PIPPIN_FIXTURES "/torch/" + name + ".safetensors")),
      cases_(Json::parse(file_.metadata().at("cases"))) {}

std::string Fixture::difference(const Tensor& got, const Json& expected, double scale) const {
    if (!got.defined()) return "got an undefined tensor";
    if (expected.is_string()) {
        const Tensor want = tensor(expected.get<std::string>());
        const std::string kind = kind_differs(got, want.shape(), want.dtype());
        return kind.empty() ? values_differ(got, want, scale) : kind;
    }
    const DType dtype = dtype_named(expected.at("dtype").get<std::string>());
    const std::string kind = kind_differs(got, Shape(expected.at("shape").get<Dims>()), dtype);
    if (!kind.empty()) return kind;
    const Tensor at = tensor(expected.at("at").get<std::string>());
    const Tensor want = tensor(expected.at("values").get<std::string>());
    const std::string samples =
        values_differ(index_select(got.detach().flatten(), 0, at), want, scale);
    if (!samples.empty()) return "samples: " + samples;

    double sum = 0, sumsq = 0, sumabs = 0;
    for (const double v : got.to_vector<double>())
        sum += v, sumsq += v * v, sumabs += std::abs(v);
    const double want_sum = number(expected.at("sum")), want_sumsq = number(expected.at("sumsq"));
    const double allowed = tolerance(dtype) * scale;
    const auto n = static_cast<double>(got.numel());
    if (!(std::abs(sum - want_sum) <= allowed * std::max(n, sumabs)))
        return fmt::format("sum: got {}, PyTorch {}", sum, want_sum);
    if (!(std::abs(sumsq - want_sumsq) <= 2 * allowed * std::max(n, want_sumsq)))
        return fmt::format("sum of squares: got {}, PyTorch {}", sumsq, want_sumsq);
    return "";
}

// A file of op cases is one whose cases name ops; training curves and files of dtypes do not.
const std::vector<std::string>& case_files() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> found;
        for (const auto& file : std::filesystem::directory_iterator(PIPPIN_FIXTURES "/torch")) {
            if (file.path().extension() != ".safetensors") continue;
            const auto metadata = io::load_safetensors(file.path().string()).metadata();
            const auto cases = metadata.find("cases");
            if (cases == metadata.end()) continue;
            const Json json = Json::parse(cases->second);
            if (!json.empty() && json[0].contains("op")) found.push_back(file.path().stem());
        }
        std::sort(found.begin(), found.end());
        return found;
    }();
    return names;
}

const Tensor& Call::tensor(std::size_t i) const {
    if (!tensors.at(i).defined()) throw std::invalid_argument("this op needs a tensor here");
    return tensors[i];
}

Tensor Call::optional_tensor(std::size_t i) const {
    return i < tensors.size() ? tensors[i] : Tensor{};
}

Operand Call::operand(std::size_t i) const {
    const Json& j = numbers.at(i);
    if (j.is_boolean()) return j.get<bool>();
    if (j.is_number_integer()) return j.get<std::int64_t>();
    if (!j.is_null()) return number(j);
    return tensor(i);
}

double Call::real(const char* name, double otherwise) const {
    return has(name) ? number(args[name]) : otherwise;
}
std::int64_t Call::integer(const char* name, std::int64_t otherwise) const {
    return has(name) ? args[name].get<std::int64_t>() : otherwise;
}
bool Call::flag(const char* name, bool otherwise) const {
    return has(name) ? args[name].get<bool>() : otherwise;
}
Dims Call::dims(const char* name) const { return has(name) ? args[name].get<Dims>() : Dims{}; }
Options Call::options() const {
    return has("dtype") ? Options(dtype_named(args["dtype"].get<std::string>())) : Options{};
}

}  // namespace pippin::test
