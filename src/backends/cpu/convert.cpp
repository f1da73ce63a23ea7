#include "backends/cpu/convert.h"

#include <vector>

#include "backends/cpu/geometry.h"
#include "backends/cpu/strided_copy.h"

namespace pippin::cpu {

namespace {

bool same_view(const plan::Operand& a, const plan::Operand& b) {
    if (a.dtype != b.dtype) return false;
    for (int d = 0; d < a.shape.rank(); ++d) {
        const auto i = static_cast<std::size_t>(d);
        if (a.shape[d] != 1 && a.strides[i] != b.strides[i]) return false;
    }
    return true;
}

class Converted : public HeavyKernel {
  public:
    Converted(const plan::HeavyLaunch& launch, const plan::HeavyLaunch& wanted,
              std::unique_ptr<HeavyKernel> inner)
        : inner_(std::move(inner)), pointers_(launch.operands.size()) {
        std::size_t at = align64(inner_->scratch_bytes);
        for (std::size_t i = 0; i < launch.operands.size(); ++i) {
            if (same_view(launch.operands[i], wanted.operands[i])) continue;
            steps_.push_back({i, launch.operands[i], wanted.operands[i], at});
            at += align64(bytes_of(wanted.operands[i]));
        }
        from_ = wanted.output;
        to_ = launch.output;
        converts_output_ = !same_view(from_, to_);
        output_at_ = at;
        if (converts_output_) at += align64(bytes_of(from_));
        scratch_bytes = at;
    }

    void run(void* const* operands, void* output) override {
        char* base = static_cast<char*>(scratch);
        std::copy(operands, operands + pointers_.size(), pointers_.begin());
        for (const Step& s : steps_) {
            copy_strided(s.from, operands[s.operand], s.to, base + s.at);
            pointers_[s.operand] = base + s.at;
        }
        inner_->scratch = scratch;
        void* result = converts_output_ ? base + output_at_ : output;
        inner_->run(pointers_.data(), result);
        if (converts_output_) copy_strided(from_, result, to_, output);
    }

  private:
    struct Step {
        std::size_t operand;
        plan::Operand from, to;
        std::size_t at;
    };
    std::unique_ptr<HeavyKernel> inner_;
    std::vector<Step> steps_;
    std::vector<void*> pointers_;
    plan::Operand from_, to_;
    std::size_t output_at_ = 0;
    bool converts_output_ = false;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_converted(const plan::HeavyLaunch& launch,
                                            const plan::HeavyLaunch& wanted,
                                            const MakeKernel& make) {
    return std::make_unique<Converted>(launch, wanted, make(wanted));
}

}  // namespace pippin::cpu
