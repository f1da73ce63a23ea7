// The Tensor handle: properties, gradients' bookkeeping, reading back, rebinding.
#include "pippin/tensor.h"

#include <cstring>

#include <fmt/format.h>

#include "graph/build.h"
#include "graph/grad_mode.h"
#include "pippin/ops.h"
#include "runtime/allocator.h"
#include "runtime/backend.h"
#include "tensor/flush.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

using graph::NodePtr;

const Shape& Tensor::shape() const { return node_of(*this)->shape; }
std::int64_t Tensor::dim() const { return shape().rank(); }
std::int64_t Tensor::numel() const { return shape().numel(); }
DType Tensor::dtype() const { return node_of(*this)->dtype; }
Device Tensor::device() const { return node_of(*this)->device; }

std::int64_t Tensor::size(std::int64_t d) const {
    const Shape& s = shape();
    const std::int64_t at = d < 0 ? d + s.rank() : d;
    if (at < 0 || at >= s.rank())
        throw IndexError(fmt::format("size: dimension {} of a tensor of shape {}", d, s.str()));
    return s[static_cast<int>(at)];
}

// --- gradients ---

bool Tensor::requires_grad() const { return node_of(*this)->requires_grad; }

bool Tensor::is_leaf() const {
    const NodePtr& n = node_of(*this);
    return n->grad_leaf || !n->requires_grad;
}

Tensor& Tensor::requires_grad_(bool value) {
    const NodePtr& n = node_of(*this);
    if (value && !is_floating(n->dtype))
        throw TypeError(fmt::format(
            "requires_grad_: only floating-point tensors have gradients, this one is {}",
            name_of(n->dtype)));
    if (!is_leaf())
        throw ValueError(
            "requires_grad_: this tensor was computed from others that require grad; use detach()");
    if (value == variable_->requires_grad) return *this;
    variable_->requires_grad = value;
    // The node may be shared with other variables, so the leaf gets one of its own.
    bind_leaf(*variable_, n);
    return *this;
}

void bind_leaf(Variable& v, const NodePtr& n) {
    NodePtr own;
    if (n->value) {
        own = graph::make_leaf(n->value, n->dtype, n->shape, n->device);
    } else {
        const graph::GradModeScope off(false);
        own = graph::detach(n);
    }
    own->requires_grad = own->grad_leaf = v.requires_grad;
    if (v.requires_grad) own->leaf_of = v.weak_from_this();
    v.set(std::move(own));
}

Tensor Tensor::grad() const {
    node_of(*this);
    return variable_->grad ? Tensor(variable_->grad) : Tensor();
}

void Tensor::set_grad(const Tensor& gradient) {
    const NodePtr& n = node_of(*this);
    if (!gradient.defined()) {
        variable_->grad.reset();
        return;
    }
    if (!(gradient.shape() == n->shape) || gradient.dtype() != n->dtype)
        throw ValueError(fmt::format("set_grad: the gradient is {}{}, the tensor {}{}",
                                     name_of(gradient.dtype()), gradient.shape().str(),
                                     name_of(n->dtype), n->shape.str()));
    variable_->grad = std::make_shared<Variable>(gradient.detach().variable()->node);
}

Tensor Tensor::detach() const {
    const NodePtr& n = node_of(*this);
    if (!n->requires_grad) return wrap(n);
    if (n->value) return wrap(graph::make_leaf(n->value, n->dtype, n->shape, n->device));
    const graph::GradModeScope off(false);
    return wrap(graph::detach(n));
}

// --- reading ---

namespace {

// Channels-last elements in row-major order, in a buffer of the processor's.
BufferPtr row_major(const void* data, std::size_t bytes, const Shape& s, std::size_t element) {
    BufferPtr out = runtime::allocate(Device{}, bytes);
    const std::int64_t n = s[0], c = s[1], hw = s[2] * s[3];
    const auto* from = static_cast<const std::byte*>(data);
    auto* to = static_cast<std::byte*>(out->memory.host);
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < c; ++j)
            for (std::int64_t k = 0; k < hw; ++k)
                std::memcpy(to + std::size_t((i * c + j) * hw + k) * element,
                            from + std::size_t((i * hw + k) * c + j) * element, element);
    return out;
}

const void* ready_data(const Tensor& t) {
    const NodePtr& n = node_of(t);
    if (!n->value) flush_for(*t.variable());
    const Value& v = *n->value;
    v.wait();
    if (v.host_copy) return v.host_copy->memory.host;
    const bool reorder = v.order == plan::Order::ChannelsLast;
    if (v.buffer->memory.host && !reorder) return v.buffer->memory.host;
    BufferPtr bytes = v.buffer;
    if (!bytes->memory.host) {
        bytes = runtime::allocate(Device{}, v.bytes);
        runtime::backend(v.buffer->device).download(bytes->memory.host, v.buffer->memory, v.bytes);
    }
    if (reorder) bytes = row_major(bytes->memory.host, v.bytes, n->shape, size_of(n->dtype));
    if (reorder && v.buffer->device == Device{}) {
        // The processor's plans take either order: one copy is enough.
        auto own = std::make_shared<Value>();
        own->buffer = std::move(bytes);
        own->bytes = v.bytes;
        n->value = std::move(own);
        return n->value->buffer->memory.host;
    }
    v.host_copy = std::move(bytes);
    return v.host_copy->memory.host;
}

template <class T, class S>
void convert(const void* from, std::int64_t n, T* to) {
    const S* p = static_cast<const S*>(from);
    for (std::int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_same_v<T, bool>)
            to[i] = static_cast<double>(p[i]) != 0;
        else if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat>)
            to[i] = static_cast<T>(static_cast<float>(p[i]));
        else
            to[i] = static_cast<T>(p[i]);
    }
}

template <class T>
void convert_from(DType dtype, const void* from, std::int64_t n, T* to) {
    switch (dtype) {
        case DType::Bool:
        case DType::UInt8:
            return convert<T, std::uint8_t>(from, n, to);
        case DType::Int32:
            return convert<T, std::int32_t>(from, n, to);
        case DType::Int64:
            return convert<T, std::int64_t>(from, n, to);
        case DType::Float16:
            return convert<T, Half>(from, n, to);
        case DType::BFloat16:
            return convert<T, BFloat>(from, n, to);
        case DType::Float32:
            return convert<T, float>(from, n, to);
        case DType::Float64:
            return convert<T, double>(from, n, to);
    }
}

}  // namespace

const void* Tensor::raw_data() const { return ready_data(*this); }

const Tensor& Tensor::eval() const {
    ready_data(*this);
    return *this;
}

template <class T>
const T* Tensor::data() const {
    if (dtype() != dtype_of<T>())
        throw TypeError(
            fmt::format("data<{}>: the tensor is {}", name_of(dtype_of<T>()), name_of(dtype())));
    return static_cast<const T*>(ready_data(*this));
}

template <class T>
std::vector<T> Tensor::to_vector() const {
    const void* p = ready_data(*this);
    const std::int64_t n = numel();
    if constexpr (std::is_same_v<T, bool>) {
        auto bytes = std::make_unique<bool[]>(static_cast<std::size_t>(n));
        convert_from<bool>(dtype(), p, n, bytes.get());
        return std::vector<bool>(bytes.get(), bytes.get() + n);
    } else {
        std::vector<T> out(static_cast<std::size_t>(n));
        convert_from<T>(dtype(), p, n, out.data());
        return out;
    }
}

template <class T>
T Tensor::item() const {
    if (numel() != 1)
        throw ValueError(fmt::format(
            "item: only a tensor of one element can be read as a number; this one has shape {}",
            shape().str()));
    T out{};
    convert_from<T>(dtype(), ready_data(*this), 1, &out);
    return out;
}

#define PIPPIN_READ(T)                                    \
    template const T* Tensor::data<T>() const;            \
    template std::vector<T> Tensor::to_vector<T>() const; \
    template T Tensor::item<T>() const;
PIPPIN_READ(float)
PIPPIN_READ(double)
PIPPIN_READ(std::int64_t)
PIPPIN_READ(std::int32_t)
PIPPIN_READ(std::uint8_t)
PIPPIN_READ(bool)
template const Half* Tensor::data<Half>() const;
template const BFloat* Tensor::data<BFloat>() const;

// --- rebinding ---

namespace {

void check_writable(const Variable& v, const char* op) {
    if (v.requires_grad && graph::grad_mode())
        throw ValueError(fmt::format(
            "{}: a leaf that requires grad cannot be changed while gradients are recorded; "
            "do it inside NoGrad",
            op));
}

// The result of a compound assignment, where the tensor's dtype can hold its kind of number.
Tensor fitting(const Tensor& result, const Tensor& target, const Site& site) {
    const DType from = result.dtype(), to = target.dtype();
    if ((is_floating(from) && !is_floating(to)) || (from != DType::Bool && to == DType::Bool))
        at_site(site, [&] {
            throw TypeError(
                fmt::format("in-place arithmetic: the result is {}, which a tensor of {} does not "
                            "hold; cast one of them",
                            name_of(from), name_of(to)));
        });
    return result;
}

}  // namespace

Tensor& Tensor::assign_(const Tensor& value, Site site) {
    at_site(site, [&] {
        const NodePtr& old = node_of(*this, "assign_: the tensor");
        const NodePtr& n = node_of(value, "assign_: the value");
        check_writable(*variable_, "assign_");
        if (!(n->shape == old->shape))
            throw ValueError(fmt::format("assign_: the value has shape {}, the tensor {}",
                                         n->shape.str(), old->shape.str()));
        NodePtr converted = graph::cast(value.to(old->device).variable()->node, old->dtype);
        if (variable_->requires_grad)
            bind_leaf(*variable_, converted);
        else
            variable_->set(converted);
    });
    return *this;
}

Tensor& Tensor::operator+=(const Operand& o) {
    return assign_(fitting(*this + o, *this, o.site), o.site);
}
Tensor& Tensor::operator-=(const Operand& o) {
    return assign_(fitting(*this - o, *this, o.site), o.site);
}
Tensor& Tensor::operator*=(const Operand& o) {
    return assign_(fitting(*this * o, *this, o.site), o.site);
}
Tensor& Tensor::operator/=(const Operand& o) {
    return assign_(fitting(*this / o, *this, o.site), o.site);
}
Tensor& Tensor::zero_() { return fill_(0); }
Tensor& Tensor::fill_(double value) { return assign_(full_like(*this, value)); }

Tensor Tensor::to(DType dtype) const { return cast(*this, dtype); }

Tensor Tensor::to(Device device) const {
    const NodePtr& n = node_of(*this);
    if (device == n->device) return *this;
    runtime::backend(device);  // raises when there is none
    if (n->requires_grad && graph::grad_mode())
        throw ValueError(fmt::format(
            "to: gradients do not go from {} to {}; move the inputs and the module before the "
            "forward pass, or detach() the tensor",
            device.str(), n->device.str()));
    if (!n->value) flush_for(*variable_);
    const Value& from = *n->value;
    from.wait();
    auto v = std::make_shared<Value>();
    v->bytes = from.bytes;
    v->order = from.order;
    v->buffer = runtime::allocate(device, v->bytes);
    const runtime::Memory& source = from.buffer->memory;
    const runtime::Memory& target = v->buffer->memory;
    if (source.host) {
        runtime::backend(device).upload(target, source.host, v->bytes);
    } else if (target.host) {
        runtime::backend(n->device).download(target.host, source, v->bytes);
    } else {
        const BufferPtr between = runtime::allocate(Device{}, v->bytes);
        runtime::backend(n->device).download(between->memory.host, source, v->bytes);
        runtime::backend(device).upload(target, between->memory.host, v->bytes);
    }
    return wrap(graph::make_leaf(std::move(v), n->dtype, n->shape, device));
}

// --- creation from memory ---

Tensor from_bytes(const void* data, const Shape& shape, DType dtype, Device device) {
    for (auto extent : shape)
        if (extent < 0)
            throw ValueError(fmt::format("from_bytes: negative extent in shape {}", shape.str()));
    auto v = std::make_shared<Value>();
    v->bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    v->buffer = runtime::allocate(device, v->bytes);
    runtime::backend(device).upload(v->buffer->memory, data, v->bytes);
    return wrap(graph::make_leaf(std::move(v), dtype, shape, device));
}

template <class T>
Tensor tensor(const std::vector<T>& data, const Shape& shape, Options o) {
    if (static_cast<std::int64_t>(data.size()) != shape.numel())
        throw ValueError(fmt::format("tensor: {} elements given for shape {} of {}", data.size(),
                                     shape.str(), shape.numel()));
    const Device device = o.device.value_or(default_device());
    Tensor t;
    if constexpr (std::is_same_v<T, bool>) {
        const std::vector<std::uint8_t> bytes(data.begin(), data.end());
        t = from_bytes(bytes.data(), shape, DType::Bool, device);
    } else {
        t = from_bytes(data.data(), shape, dtype_of<T>(), device);
    }
    // Double literals are what people write for float32 tensors; doubles by type stay.
    if (o.dtype && *o.dtype != t.dtype()) t = cast(t, *o.dtype);
    if (o.requires_grad) t.requires_grad_();
    return t;
}
template Tensor tensor(const std::vector<float>&, const Shape&, Options);
template Tensor tensor(const std::vector<double>&, const Shape&, Options);
template Tensor tensor(const std::vector<std::int64_t>&, const Shape&, Options);
template Tensor tensor(const std::vector<std::int32_t>&, const Shape&, Options);
template Tensor tensor(const std::vector<std::uint8_t>&, const Shape&, Options);
template Tensor tensor(const std::vector<bool>&, const Shape&, Options);

// Literals with a decimal point are float32, as in PyTorch.
template <class T>
Tensor::Tensor(std::initializer_list<T> values)
    : Tensor(pippin::tensor(std::vector<std::conditional_t<std::is_same_v<T, double>, float, T>>(
          values.begin(), values.end()))) {}
template Tensor::Tensor(std::initializer_list<float>);
template Tensor::Tensor(std::initializer_list<double>);
template Tensor::Tensor(std::initializer_list<std::int64_t>);
template Tensor::Tensor(std::initializer_list<bool>);

}  // namespace pippin
