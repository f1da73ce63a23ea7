// Recurrent layers and cells. A layer's input part of all gates is one product over all time steps;
// each step is then one product with the state and what fuses with it.
#include "pippin/nn_rnn.h"

#include <algorithm>

#include "nn/repr.h"
#include "tensor/site.h"

namespace pippin::nn {
namespace {

Tensor start(const Shape& shape, std::int64_t hidden_size) {
    const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
    return uniform(shape, -bound, bound);
}

void check_sizes(const char* name, std::int64_t input_size, std::int64_t hidden_size) {
    if (input_size <= 0 || hidden_size <= 0)
        throw ValueError(fmt::format("{}: input_size {} and hidden_size {} must be positive", name,
                                     input_size, hidden_size));
}

// Part i of n equal ones of the last dimension.
Tensor gate(const Tensor& all, std::int64_t i, std::int64_t n) {
    const std::int64_t width = all.size(-1) / n;
    return narrow(all, -1, i * width, width);
}

// `inputs` holds W_ih x + b_ih in all of these.
Tensor elman(const Tensor& inputs, const Tensor& h, const Tensor& hh, const Tensor& bias_hh,
             RNN::Nonlinearity nonlinearity) {
    const Tensor sum = inputs + linear(h, hh, bias_hh);
    return nonlinearity == RNN::Nonlinearity::Tanh ? tanh(sum) : relu(sum);
}

LSTM::State lstm(const Tensor& inputs, const LSTM::State& s, const Tensor& hh,
                 const Tensor& bias_hh) {
    const Tensor all = inputs + linear(s.h, hh, bias_hh);
    const Tensor c =
        sigmoid(gate(all, 1, 4)) * s.c + sigmoid(gate(all, 0, 4)) * tanh(gate(all, 2, 4));
    return {sigmoid(gate(all, 3, 4)) * tanh(c), c};
}

Tensor gru(const Tensor& inputs, const Tensor& h, const Tensor& hh, const Tensor& bias_hh) {
    const Tensor state = linear(h, hh, bias_hh);
    const Tensor reset = sigmoid(gate(inputs, 0, 3) + gate(state, 0, 3)),
                 update = sigmoid(gate(inputs, 1, 3) + gate(state, 1, 3));
    const Tensor fresh = tanh(gate(inputs, 2, 3) + reset * gate(state, 2, 3));
    return fresh + update * (h - fresh);
}

template <class F>
auto called(const Site& site, F f) {
    const SiteScope scope(site);
    return at_site(site, f);
}

}  // namespace

Recurrent::Recurrent(const char* name, std::int64_t gates, std::int64_t input_size,
                     std::int64_t hidden_size, Options o)
    : name_(name), input_size_(input_size), hidden_size_(hidden_size), o_(o) {
    check_sizes(name, input_size, hidden_size);
    if (o.num_layers <= 0)
        throw ValueError(
            fmt::format("{}: num_layers must be positive, got {}", name, o.num_layers));
    if (!(o.dropout >= 0 && o.dropout <= 1))
        throw ValueError(fmt::format("{}: dropout must be from 0 to 1, got {}", name, o.dropout));
    const std::int64_t directions = o.bidirectional ? 2 : 1;
    for (std::int64_t layer = 0; layer < o.num_layers; ++layer) {
        const std::int64_t in = layer == 0 ? input_size : hidden_size * directions;
        for (std::int64_t d = 0; d < directions; ++d) {
            const std::string suffix = fmt::format("_l{}{}", layer, d ? "_reverse" : "");
            const auto make = [&](const char* what, const Shape& shape) {
                return register_parameter(what + suffix, start(shape, hidden_size));
            };
            Weights w;
            w.ih = make("weight_ih", {gates * hidden_size, in});
            w.hh = make("weight_hh", {gates * hidden_size, hidden_size});
            if (o.bias) {
                w.bias_ih = make("bias_ih", {gates * hidden_size});
                w.bias_hh = make("bias_hh", {gates * hidden_size});
            }
            weights_.push_back(std::move(w));
        }
    }
}

void Recurrent::check_state(const Tensor& state, const char* what, bool batched,
                            std::int64_t n) const {
    if (!state.defined()) return;
    Shape expected{static_cast<std::int64_t>(weights_.size())};
    if (batched) expected.push_back(n);
    expected.push_back(hidden_size_);
    if (!(state.shape() == expected))
        throw ValueError(fmt::format("{}: the initial {} must have shape {}, it has {}", name_,
                                     what, expected.str(), state.shape().str()));
}

// A sequence that is over keeps its state; in the reverse direction, one that has not begun.
Recurrent::Step Recurrent::moved_where(const Tensor& valid, const Step& next, const Step& before) {
    return {where(valid, next.h, before.h),
            next.c.defined() ? where(valid, next.c, before.c) : Tensor{}};
}

Recurrent::All Recurrent::run(const Tensor& x, const Tensor& h, const Tensor& c,
                              bool has_cell) const {
    const bool batched = x.dim() == 3;
    if ((x.dim() != 2 && !batched) || x.size(-1) != input_size_)
        throw ValueError(fmt::format("{}: expected ({}, {}) or (L, {}), got a tensor of shape {}",
                                     name_, o_.batch_first ? "N, L" : "L, N", input_size_,
                                     input_size_, x.shape().str()));
    const Tensor y = batched ? (o_.batch_first ? transpose(x, 0, 1) : x) : unsqueeze(x, 1);
    if (y.size(0) == 0)
        throw ValueError(
            fmt::format("{}: the sequence has no elements (shape {})", name_, x.shape().str()));
    All all = run_steps(y, h, c, has_cell, batched, {});
    if (!batched)
        all.output = squeeze(all.output, 1);
    else if (o_.batch_first)
        all.output = transpose(all.output, 0, 1);
    return all;
}

Recurrent::All Recurrent::run(const PackedSequence& x, const Tensor& h, const Tensor& c,
                              bool has_cell) const {
    const Tensor& y = x.padded();
    if (y.dim() != 3 || y.size(-1) != input_size_)
        throw ValueError(fmt::format("{}: expected packed steps of {} numbers, got (L, N, ...) {}",
                                     name_, input_size_, y.shape().str()));
    return run_steps(y, h, c, has_cell, true, x.valid());
}

Recurrent::All Recurrent::run_steps(Tensor y, const Tensor& h, const Tensor& c, bool has_cell,
                                    bool batched, const Tensor& valid) const {
    const std::int64_t length = y.size(0), n = y.size(1);
    check_state(h, "h", batched, n);
    check_state(c, "c", batched, n);
    const auto initial = [&](const Tensor& state, std::size_t i) {
        if (!state.defined()) return zeros({n, hidden_size_}, {y.dtype(), y.device()});
        const Tensor own = state[static_cast<std::int64_t>(i)];
        return batched ? own : unsqueeze(own, 0);
    };

    const std::size_t directions = o_.bidirectional ? 2 : 1;
    std::vector<Tensor> last_h, last_c;
    for (std::size_t i = 0; i < weights_.size(); i += directions) {
        std::vector<Tensor> outputs;
        for (std::size_t d = 0; d < directions; ++d) {
            const Weights& w = weights_[i + d];
            const Tensor inputs = linear(y, w.ih, w.bias_ih);
            Step s{initial(h, i + d), has_cell ? initial(c, i + d) : Tensor{}};
            std::vector<Tensor> steps;
            for (std::int64_t t = 0; t < length; ++t) {
                const std::int64_t at = d == 0 ? t : length - 1 - t;
                const Step next = step(inputs[at], s, w);
                s = valid.defined() ? moved_where(unsqueeze(valid[at], 1), next, s) : next;
                steps.push_back(s.h);
            }
            if (d == 1) std::reverse(steps.begin(), steps.end());
            outputs.push_back(stack(steps));
            last_h.push_back(s.h);
            if (has_cell) last_c.push_back(s.c);
        }
        y = directions == 2 ? cat(outputs, -1) : outputs[0];
        if (i + directions < weights_.size()) y = dropout(y, o_.dropout, is_training());
    }
    const auto states = [&](const std::vector<Tensor>& all) {
        if (all.empty()) return Tensor{};
        return batched ? stack(all) : cat(all);
    };
    return {y, states(last_h), states(last_c)};
}

std::string Recurrent::extra_repr() const {
    std::string out = fmt::format("{}, {}", input_size_, hidden_size_);
    if (o_.num_layers != 1) out += fmt::format(", num_layers={}", o_.num_layers);
    if (!o_.bias) out += ", bias=False";
    if (o_.batch_first) out += ", batch_first=True";
    if (o_.dropout != 0) out += ", dropout=" + repr(o_.dropout);
    if (o_.bidirectional) out += ", bidirectional=True";
    return out;
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, Options o, Nonlinearity nonlinearity)
    : Recurrent("RNN", 1, input_size, hidden_size, o), nonlinearity_(nonlinearity) {}
Recurrent::Step RNN::step(const Tensor& x, const Step& before, const Weights& w) const {
    return {elman(x, before.h, w.hh, w.bias_hh, nonlinearity_), {}};
}
Tensor RNN::forward(const Tensor& x) { return run(x, {}, {}, false).output; }
RNN::Result RNN::forward(const Tensor& x, const Tensor& h) {
    All all = run(x, h, {}, false);
    return {all.output, all.h};
}
RNN::PackedResult RNN::forward(const PackedSequence& x, const Tensor& h) {
    const All all = run(x, h, {}, false);
    return {PackedSequence(all.output, x.lengths()), all.h};
}
RNN::PackedResult RNN::operator()(const PackedSequence& x, const Tensor& h, Site site) {
    return called(site, [&] { return forward(x, h); });
}
RNN::Result RNN::operator()(const Tensor& x, const Tensor& h, Site site) {
    return called(site, [&] { return forward(x, h); });
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, Options o)
    : Recurrent("LSTM", 4, input_size, hidden_size, o) {}
Recurrent::Step LSTM::step(const Tensor& x, const Step& before, const Weights& w) const {
    State s = lstm(x, {before.h, before.c}, w.hh, w.bias_hh);
    return {s.h, s.c};
}
Tensor LSTM::forward(const Tensor& x) { return run(x, {}, {}, true).output; }
LSTM::Result LSTM::forward(const Tensor& x, const State& state) {
    All all = run(x, state.h, state.c, true);
    return {all.output, {all.h, all.c}};
}
LSTM::PackedResult LSTM::forward(const PackedSequence& x, const State& state) {
    const All all = run(x, state.h, state.c, true);
    return {PackedSequence(all.output, x.lengths()), {all.h, all.c}};
}
LSTM::PackedResult LSTM::operator()(const PackedSequence& x, const State& state, Site site) {
    return called(site, [&] { return forward(x, state); });
}
LSTM::Result LSTM::operator()(const Tensor& x, const State& state, Site site) {
    return called(site, [&] { return forward(x, state); });
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, Options o)
    : Recurrent("GRU", 3, input_size, hidden_size, o) {}
Recurrent::Step GRU::step(const Tensor& x, const Step& before, const Weights& w) const {
    return {gru(x, before.h, w.hh, w.bias_hh), {}};
}
Tensor GRU::forward(const Tensor& x) { return run(x, {}, {}, false).output; }
GRU::Result GRU::forward(const Tensor& x, const Tensor& h) {
    All all = run(x, h, {}, false);
    return {all.output, all.h};
}
GRU::PackedResult GRU::forward(const PackedSequence& x, const Tensor& h) {
    const All all = run(x, h, {}, false);
    return {PackedSequence(all.output, x.lengths()), all.h};
}
GRU::PackedResult GRU::operator()(const PackedSequence& x, const Tensor& h, Site site) {
    return called(site, [&] { return forward(x, h); });
}
GRU::Result GRU::operator()(const Tensor& x, const Tensor& h, Site site) {
    return called(site, [&] { return forward(x, h); });
}

// --- cells ---

RecurrentCell::RecurrentCell(const char* name, std::int64_t gates, std::int64_t input_size,
                             std::int64_t hidden_size, bool bias)
    : name_(name), input_size_(input_size), hidden_size_(hidden_size) {
    check_sizes(name, input_size, hidden_size);
    const auto make = [&](const char* what, const Shape& shape) {
        return register_parameter(what, start(shape, hidden_size));
    };
    weight_ih = make("weight_ih", {gates * hidden_size, input_size});
    weight_hh = make("weight_hh", {gates * hidden_size, hidden_size});
    if (!bias) return;
    bias_ih = make("bias_ih", {gates * hidden_size});
    bias_hh = make("bias_hh", {gates * hidden_size});
}

Tensor RecurrentCell::state_for(const Tensor& x, const Tensor& state, const char* what) const {
    if ((x.dim() != 1 && x.dim() != 2) || x.size(-1) != input_size_)
        throw ValueError(fmt::format("{}: expected (N, {}) or ({}), got a tensor of shape {}",
                                     name_, input_size_, input_size_, x.shape().str()));
    Shape expected = x.shape();
    expected[expected.rank() - 1] = hidden_size_;
    if (!state.defined()) return zeros(expected, {x.dtype(), x.device()});
    if (!(state.shape() == expected))
        throw ValueError(fmt::format("{}: the state {} must have shape {}, it has {}", name_, what,
                                     expected.str(), state.shape().str()));
    return state;
}

std::string RecurrentCell::extra_repr() const {
    return fmt::format("{}, {}{}", input_size_, hidden_size_,
                       bias_ih.defined() ? "" : ", bias=False");
}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, bool bias,
                 RNN::Nonlinearity nonlinearity)
    : RecurrentCell("RNNCell", 1, input_size, hidden_size, bias), nonlinearity_(nonlinearity) {}
Tensor RNNCell::forward(const Tensor& x, const Tensor& h) {
    const Tensor state = state_for(x, h, "h");
    return elman(linear(x, weight_ih, bias_ih), state, weight_hh, bias_hh, nonlinearity_);
}
Tensor RNNCell::operator()(const Tensor& x, const Tensor& h, Site site) {
    return called(site, [&] { return forward(x, h); });
}
std::string RNNCell::extra_repr() const {
    return RecurrentCell::extra_repr() +
           (nonlinearity_ == RNN::Nonlinearity::Relu ? ", nonlinearity=relu" : "");
}

LSTM::State LSTMCell::forward(const Tensor& x, const LSTM::State& state) {
    const LSTM::State s{state_for(x, state.h, "h"), state_for(x, state.c, "c")};
    return lstm(linear(x, weight_ih, bias_ih), s, weight_hh, bias_hh);
}
LSTM::State LSTMCell::operator()(const Tensor& x, const LSTM::State& state, Site site) {
    return called(site, [&] { return forward(x, state); });
}

Tensor GRUCell::forward(const Tensor& x, const Tensor& h) {
    const Tensor state = state_for(x, h, "h");
    return gru(linear(x, weight_ih, bias_ih), state, weight_hh, bias_hh);
}
Tensor GRUCell::operator()(const Tensor& x, const Tensor& h, Site site) {
    return called(site, [&] { return forward(x, h); });
}

}  // namespace pippin::nn
