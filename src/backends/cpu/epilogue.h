// Bias, residual and activation applied to a result that is in memory already.
#pragma once

#include "plan/plan.h"

namespace pippin::cpu {

/// For kernels that cannot do their launch's epilogue, or a part of it, on the way out.
class EpiloguePass {
  public:
    EpiloguePass() = default;
    /// `channel_dim` is the output's dim that the bias runs along.
    EpiloguePass(const plan::HeavyLaunch& launch, int channel_dim);

    void drop_bias() { bias_ = -1; }
    void drop_residual() { residual_ = -1; }
    void drop_activation() { activation_ = plan::Activation::None; }
    bool needed() const {
        return bias_ >= 0 || residual_ >= 0 || activation_ != plan::Activation::None;
    }
    void run(void* const* operands, void* output) const;

  private:
    template <class T>
    void run_typed(void* const* operands, void* output) const;

    int bias_ = -1, residual_ = -1;
    plan::Activation activation_ = plan::Activation::None;
    plan::Operand output_, bias_view_, residual_view_;
    int channel_dim_ = 0;
};

}  // namespace pippin::cpu
