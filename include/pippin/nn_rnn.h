// Recurrent layers and cells: RNN, LSTM, GRU, with PyTorch's parameter names (weight_ih_l0,
// weight_hh_l0_reverse, ...), defaults and initialisation. proj_size is left out. A layer takes and
// gives packed sequences (nn_packed.h) too; its last states are then those at each sequence's end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pippin/module.h"
#include "pippin/nn_packed.h"

namespace pippin::nn {

struct RecurrentOptions {
    std::int64_t num_layers = 1;
    bool bias = true;
    bool batch_first = false;  ///< (N, L, ...) and not (L, N, ...); states keep (layers, N, ...)
    double dropout = 0;        ///< on each layer's output but the last one's, in training
    bool bidirectional = false;
};

/// What the recurrent layers share. Inputs are (L, N, input_size), (N, L, input_size) if
/// batch_first, or (L, input_size); outputs have hidden_size * directions at the end. States are
/// (num_layers * directions, N, hidden_size), each layer's reverse direction behind its forward
/// one, without N where the input has none.
class Recurrent : public Module {
  public:
    using Options = RecurrentOptions;
    std::string extra_repr() const override;
    std::string type_name() const override { return name_; }

  protected:
    struct Weights {
        Tensor ih, hh, bias_ih, bias_hh;  ///< biases are undefined in a layer without
    };
    /// States of one direction of one layer, (N, hidden); c is the LSTM's.
    struct Step {
        Tensor h, c;
    };
    Recurrent(const char* name, std::int64_t gates, std::int64_t input_size,
              std::int64_t hidden_size, Options o);
    /// One time step: `x` holds the input's part of all gates, with bias_ih.
    virtual Step step(const Tensor& x, const Step& before, const Weights& w) const = 0;
    struct All {
        Tensor output, h, c;
    };
    /// Undefined states are zeros.
    All run(const Tensor& x, const Tensor& h, const Tensor& c, bool has_cell) const;
    /// The output, (L, N, hidden), has no meaning behind the sequences' ends.
    All run(const PackedSequence& x, const Tensor& h, const Tensor& c, bool has_cell) const;

  private:
    /// y (L, N, input); `valid` (L, N) says where the states move on, undefined: everywhere.
    All run_steps(Tensor y, const Tensor& h, const Tensor& c, bool has_cell, bool batched,
                  const Tensor& valid) const;
    static Step moved_where(const Tensor& valid, const Step& next, const Step& before);
    void check_state(const Tensor& state, const char* what, bool batched, std::int64_t n) const;
    const char* name_;
    std::int64_t input_size_, hidden_size_;
    Options o_;
    std::vector<Weights> weights_;  ///< by layer, then direction
};

/// Elman's: h' = f(W_ih x + b_ih + W_hh h + b_hh), f tanh or relu.
class RNN : public Recurrent {
  public:
    struct Result {
        Tensor output, h;
    };
    struct PackedResult {
        PackedSequence output;
        Tensor h;
    };
    enum class Nonlinearity { Tanh, Relu };
    RNN(std::int64_t input_size, std::int64_t hidden_size, Options o = {},
        Nonlinearity nonlinearity = Nonlinearity::Tanh);
    Tensor forward(const Tensor& x) override;  ///< the output, from a state of zeros
    Result forward(const Tensor& x, const Tensor& h);
    PackedResult forward(const PackedSequence& x, const Tensor& h = {});
    using Module::operator();
    Result operator()(const Tensor& x, const Tensor& h, Site site = Site::current());
    PackedResult operator()(const PackedSequence& x, const Tensor& h = {},
                            Site site = Site::current());

  protected:
    Step step(const Tensor& x, const Step& before, const Weights& w) const override;

  private:
    Nonlinearity nonlinearity_;
};

/// Hochreiter and Schmidhuber 1997; gates in the order input, forget, cell, output.
class LSTM : public Recurrent {
  public:
    struct State {
        Tensor h, c;
    };
    struct Result {
        Tensor output;
        State state;
    };
    struct PackedResult {
        PackedSequence output;
        State state;
    };
    LSTM(std::int64_t input_size, std::int64_t hidden_size, Options o = {});
    Tensor forward(const Tensor& x) override;  ///< the output, from a state of zeros
    Result forward(const Tensor& x, const State& state);
    PackedResult forward(const PackedSequence& x, const State& state = {});
    using Module::operator();
    Result operator()(const Tensor& x, const State& state, Site site = Site::current());
    PackedResult operator()(const PackedSequence& x, const State& state = {},
                            Site site = Site::current());

  protected:
    Step step(const Tensor& x, const Step& before, const Weights& w) const override;
};

/// Cho et al. 2014, in the form where the reset gate scales W_hh h + b_hh; gates in the order
/// reset, update, new.
class GRU : public Recurrent {
  public:
    using Result = RNN::Result;
    using PackedResult = RNN::PackedResult;
    GRU(std::int64_t input_size, std::int64_t hidden_size, Options o = {});
    Tensor forward(const Tensor& x) override;  ///< the output, from a state of zeros
    Result forward(const Tensor& x, const Tensor& h);
    PackedResult forward(const PackedSequence& x, const Tensor& h = {});
    using Module::operator();
    Result operator()(const Tensor& x, const Tensor& h, Site site = Site::current());
    PackedResult operator()(const PackedSequence& x, const Tensor& h = {},
                            Site site = Site::current());

  protected:
    Step step(const Tensor& x, const Step& before, const Weights& w) const override;
};

/// What the cells share: one step of (N, input_size) or (input_size), parameters weight_ih,
/// weight_hh, bias_ih, bias_hh. Undefined states are zeros.
class RecurrentCell : public Module {
  public:
    std::string extra_repr() const override;
    std::string type_name() const override { return name_; }
    Tensor weight_ih, weight_hh, bias_ih, bias_hh;

  protected:
    RecurrentCell(const char* name, std::int64_t gates, std::int64_t input_size,
                  std::int64_t hidden_size, bool bias);
    /// The state for this input, which it checks.
    Tensor state_for(const Tensor& x, const Tensor& state, const char* what) const;

  private:
    const char* name_;
    std::int64_t input_size_, hidden_size_;
};

class RNNCell : public RecurrentCell {
  public:
    RNNCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true,
            RNN::Nonlinearity nonlinearity = RNN::Nonlinearity::Tanh);
    Tensor forward(const Tensor& x) override { return forward(x, {}); }
    Tensor forward(const Tensor& x, const Tensor& h);
    using Module::operator();
    Tensor operator()(const Tensor& x, const Tensor& h, Site site = Site::current());
    std::string extra_repr() const override;

  private:
    RNN::Nonlinearity nonlinearity_;
};

class LSTMCell : public RecurrentCell {
  public:
    LSTMCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true)
        : RecurrentCell("LSTMCell", 4, input_size, hidden_size, bias) {}
    Tensor forward(const Tensor& x) override { return forward(x, LSTM::State{}).h; }
    LSTM::State forward(const Tensor& x, const LSTM::State& state);
    using Module::operator();
    LSTM::State operator()(const Tensor& x, const LSTM::State& state, Site site = Site::current());
};

class GRUCell : public RecurrentCell {
  public:
    GRUCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true)
        : RecurrentCell("GRUCell", 3, input_size, hidden_size, bias) {}
    Tensor forward(const Tensor& x) override { return forward(x, {}); }
    Tensor forward(const Tensor& x, const Tensor& h);
    using Module::operator();
    Tensor operator()(const Tensor& x, const Tensor& h, Site site = Site::current());
};

}  // namespace pippin::nn
