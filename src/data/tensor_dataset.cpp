#include <fmt/format.h>

#include <cstring>

#include "pippin/dataset.h"
#include "pippin/error.h"

namespace pippin::data {
namespace {

Array copy_of(const Tensor& t) {
    Array a(t.dtype(), t.shape());
    if (a.nbytes() > 0) std::memcpy(a.raw(), t.raw_data(), a.nbytes());
    return a;
}

std::size_t row_bytes(const Array& rows) {
    const auto n = static_cast<std::size_t>(rows.shape()[0]);
    return n == 0 ? 0 : rows.nbytes() / n;
}

void gather_rows(const Array& rows, std::span<const std::int64_t> indices, Array& batch) {
    Shape shape = rows.shape();
    shape[0] = static_cast<std::int64_t>(indices.size());
    batch.reset(rows.dtype(), shape);
    const std::size_t bytes = row_bytes(rows);
    if (bytes == 0) return;
    std::byte* to = batch.raw();
    for (const std::int64_t i : indices) {
        std::memcpy(to, rows.raw() + static_cast<std::size_t>(i) * bytes, bytes);
        to += bytes;
    }
}

}  // namespace

TensorDataset::TensorDataset(const Tensor& data, const Tensor& target) {
    if (!data.defined() || !target.defined() || data.dim() == 0 || target.dim() == 0 ||
        data.shape()[0] != target.shape()[0])
        throw ValueError(
            fmt::format("TensorDataset: data {} and target {} must be (N, ...) with the same N",
                        data.defined() ? data.shape().str() : "(undefined)",
                        target.defined() ? target.shape().str() : "(undefined)"));
    size_ = data.shape()[0];
    data_ = copy_of(data);
    target_ = copy_of(target);
}

Example TensorDataset::load(std::int64_t index, Draws draws) const {
    Example row;
    load_batch({&index, 1}, draws, row);
    for (Array* a : {&row.data, &row.target}) {
        Shape shape = a->shape();
        shape.erase(0);
        a->reset(a->dtype(), shape);  // as many bytes as before, so they stay
    }
    return row;
}

void TensorDataset::load_batch(std::span<const std::int64_t> indices, Draws, Example& batch) const {
    gather_rows(data_, indices, batch.data);
    gather_rows(target_, indices, batch.target);
}

}  // namespace pippin::data
