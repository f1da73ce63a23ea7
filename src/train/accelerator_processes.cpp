// What the processes of a run tell each other beside gradients.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "pippin/ops.h"
#include "train/accelerator_impl.h"

namespace pippin {
namespace {

std::string type_of(const Tensor& t) {
    return fmt::format("{}{}", name_of(t.dtype()), t.shape().str());
}

void check_alike(const char* what, const Tensor& t) {
    const std::vector<std::string> types = dist::all_gather(type_of(t));
    for (std::size_t k = 1; k < types.size(); ++k)
        if (types[k] != types[0])
            throw ValueError(fmt::format(
                "Accelerator.{}: process 0 has {}, process {} has {}; pad_across_processes() makes "
                "lengths equal",
                what, types[0], k, types[k]));
}

std::size_t bytes_of(const Tensor& t) {
    return static_cast<std::size_t>(t.numel()) * size_of(t.dtype());
}

}  // namespace

int Accelerator::process_index() const { return impl_->place.rank; }
int Accelerator::local_process_index() const { return impl_->place.local_rank; }
int Accelerator::num_processes() const { return impl_->place.size; }

void Accelerator::wait_for_everyone() const {
    synchronize();
    dist::barrier();
}

Tensor Accelerator::gather(const Tensor& t) const {
    if (num_processes() == 1) return t;
    check_alike("gather", t);
    const std::vector<std::byte> all = dist::all_gather(t.raw_data(), bytes_of(t));
    std::vector<std::int64_t> extents;
    for (const std::int64_t extent : t.shape())
        extents.push_back(extent);
    if (extents.empty()) extents.push_back(1);
    extents[0] *= num_processes();
    return from_bytes(all.data(), Shape(extents), t.dtype(), t.device());
}

Tensor Accelerator::gather_for_metrics(const Tensor& t) const {
    if (num_processes() == 1) return t;
    const Tensor all = gather(t);
    const data::DataLoader* loader = impl_->active_loader();
    if (!loader || loader->position().batch < loader->size()) return all;
    const std::int64_t samples = loader->last_samples();
    return all.size(0) > samples ? narrow(all, 0, 0, samples) : all;
}

std::vector<std::string> Accelerator::gather_object(const std::string& text) const {
    return dist::all_gather(text);
}

Tensor Accelerator::reduce(const Tensor& t, const std::string& reduction, double scale) const {
    if (reduction != "sum" && reduction != "mean")
        throw ValueError(fmt::format(
            "Accelerator.reduce: the reduction must be sum or mean, got \"{}\"", reduction));
    const bool mean = reduction == "mean";
    if (mean && !is_floating(t.dtype()))
        throw TypeError(
            fmt::format("Accelerator.reduce: integers ({}) have no mean; cast them to float32",
                        name_of(t.dtype())));
    Tensor sum = t.detach();
    if (num_processes() > 1) {
        check_alike("reduce", t);
        const auto summed = [&]<class T>(std::vector<T> values, dist::Element element) {
            dist::all_reduce(values.data(), values.size(), element, dist::Op::Sum);
            return tensor(values, t.shape(), t.device()).to(t.dtype());
        };
        if (t.dtype() == float64)
            sum = summed(t.to_vector<double>(), dist::Element::Float64);
        else if (is_floating(t.dtype()))
            sum = summed(t.to_vector<float>(), dist::Element::Float32);
        else
            sum = summed(t.to_vector<std::int64_t>(), dist::Element::Int64);
    }
    const double factor = mean ? scale / num_processes() : scale;
    return factor == 1 ? sum : sum * factor;
}

Tensor Accelerator::broadcast(const Tensor& t, int from_process) const {
    if (from_process < 0 || from_process >= num_processes())
        throw ValueError(fmt::format("Accelerator.broadcast: there is no process {} of {}",
                                     from_process, num_processes()));
    if (num_processes() == 1) return t;
    check_alike("broadcast", t);
    std::vector<std::byte> bytes(bytes_of(t));
    std::memcpy(bytes.data(), t.raw_data(), bytes.size());
    dist::broadcast(bytes.data(), bytes.size(), from_process);
    return from_bytes(bytes.data(), t.shape(), t.dtype(), t.device());
}

Tensor Accelerator::pad_across_processes(const Tensor& t, int dim, double pad_index,
                                         bool pad_first) const {
    const std::int64_t own = t.size(dim);  // IndexError for another dim
    std::int64_t longest = own;
    dist::all_reduce(&longest, 1, dist::Element::Int64, dist::Op::Max);
    if (longest == own) return t;
    std::vector<std::int64_t> extents;
    for (const std::int64_t extent : t.shape())
        extents.push_back(extent);
    const auto at = static_cast<std::size_t>(dim < 0 ? dim + t.dim() : dim);
    extents[at] = longest - own;
    const Tensor padding = full(Shape(extents), pad_index, {t.dtype(), t.device()});
    const std::vector<Tensor> parts = pad_first ? std::vector{padding, t} : std::vector{t, padding};
    return cat(parts, static_cast<std::int64_t>(at));
}

Accelerator::Guard::~Guard() { end_(); }

Accelerator::Guard Accelerator::no_sync() const {
    ++impl_->no_sync;
    return Guard([impl = impl_] { --impl->no_sync; });
}

Accelerator::Guard Accelerator::main_process_first() const {
    if (!is_main_process()) dist::barrier();
    return Guard([main = is_main_process()] {
        if (main && std::uncaught_exceptions() == 0) dist::barrier();
    });
}

Accelerator::Guard Accelerator::local_main_process_first() const {
    if (!is_local_main_process()) dist::barrier();
    return Guard([main = is_local_main_process()] {
        if (main && std::uncaught_exceptions() == 0) dist::barrier();
    });
}

std::vector<std::int64_t> Accelerator::part_of(std::int64_t items, bool apply_padding) const {
    const std::int64_t n = num_processes(), k = process_index();
    const std::int64_t each = items / n, more = items % n;
    const std::int64_t from = each * k + std::min(k, more), to = from + each + (k < more ? 1 : 0);
    std::vector<std::int64_t> own;
    for (std::int64_t i = from; i < to; ++i)
        own.push_back(i);
    const auto longest = static_cast<std::size_t>(each + (more > 0 ? 1 : 0));
    while (apply_padding && own.size() < longest)
        own.push_back(items - 1);
    return own;
}

Tensor Accelerator::split_between_processes(const Tensor& all, bool apply_padding) const {
    if (num_processes() == 1) return all;
    const std::vector<std::int64_t> own = part_of(all.size(0), apply_padding);
    return index_select(all, 0, tensor(own, {static_cast<std::int64_t>(own.size())}, all.device()));
}

}  // namespace pippin
