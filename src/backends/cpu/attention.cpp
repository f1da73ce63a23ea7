// Attention on the CPU. A task is a head, or in the forward pass a block of its queries; scores of
// the block against all keys lie in the thread's scratch. The gradient computes them again and adds
// up the parts of keys and values block by block, so that results never depend on threads.
#include "backends/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/geometry.h"
#include "backends/cpu/matmul_small.h"
#include "backends/cpu/program_functions.h"
#include "backends/cpu/threads.h"
#include "graph/ops/records_attention.h"

namespace pippin::cpu {

namespace {

using std::int64_t;
namespace ops = graph::ops;

constexpr float kInf = std::numeric_limits<float>::infinity();

const AttentionRowFunctions& rows() {
    static const AttentionRowFunctions f = attention_row_functions();
    return f;
}
const SmallProductFunctions& products() {
    static const SmallProductFunctions f = small_product_functions();
    return f;
}

template <class T>
void widen(float* to, const T* from, int64_t n) {
    static const Fn f = find_convert(pippin::dtype_of<T>(), DType::Float32);
    f(to, from, nullptr, nullptr, static_cast<std::size_t>(n));
}
template <class T>
void narrow(T* to, const float* from, int64_t n) {
    static const Fn f = find_convert(DType::Float32, pippin::dtype_of<T>());
    f(to, from, nullptr, nullptr, static_cast<std::size_t>(n));
}

// Rows of contiguous floats.
struct Matrix {
    const float* data;
    int64_t row;
};
struct Result {
    float* data;
    int64_t row;
};

// Hands out parts of one thread's scratch.
class Room {
  public:
    explicit Room(void* at) : at_(static_cast<char*>(at)) {}
    float* floats(int64_t n) {
        float* p = reinterpret_cast<float*>(at_ + used_);
        used_ += align64(static_cast<std::size_t>(n) * sizeof(float));
        return p;
    }
    std::size_t used() const { return used_; }

  private:
    char* at_;
    std::size_t used_ = 0;
};

template <class T>
class AttentionBase : public HeavyKernel {
  public:
    explicit AttentionBase(const plan::HeavyLaunch& l)
        : attrs_(ops::attention_attrs(l.attrs)),
          q_(l.operands[0]),
          k_(l.operands[1]),
          v_(l.operands[2]),
          b_(q_.shape[0]),
          h_(q_.shape[1]),
          l_(q_.shape[2]),
          e_(q_.shape[3]),
          s_(k_.shape[2]),
          ev_(v_.shape[3]) {
        int next = 3;
        if (ops::has_mask(l.attrs)) {
            mask_ = l.operands[3];
            mask_at_ = next++;
        }
        if (ops::has_dropout(l.attrs)) {
            seed_at_ = next++;
            random_ = find_random(true, true);
        }
        // As many queries as leave their scores in a second-level cache beside the keys.
        block_ = std::clamp<int64_t>(48 * 1024 / std::max<int64_t>(s_, 1), 16, 128);
        block_ = std::clamp<int64_t>(l_, 1, block_);
        wide_ = (s_ + 15) / 16 * 16;
        threads_ = num_threads();
    }

  protected:
    static constexpr bool kHalf = !std::is_same_v<T, float>;

    // Scratch of one thread that both directions need.
    struct Scratch {
        float *scores, *panel, *uniform, *added;
        std::uint8_t* seen;
        float *q, *k, *v;  ///< halves as floats
    };
    Scratch scratch_of(Room& room) const {
        Scratch s{};
        s.scores = room.floats(block_ * wide_);
        s.panel = room.floats(products().panel_vectors * products().lanes * std::max(e_, ev_));
        s.uniform = room.floats(wide_);
        s.added = room.floats(wide_);
        s.seen = reinterpret_cast<std::uint8_t*>(room.floats(wide_ / 4 + 1));
        if (kHalf) {
            s.q = room.floats(block_ * e_);
            s.k = room.floats(s_ * e_);
            s.v = room.floats(s_ * ev_);
        }
        return s;
    }

    const T* row_of(const plan::Operand& o, const void* data, int64_t head, int64_t row) const {
        return static_cast<const T*>(data) + head / h_ * o.strides[0] + head % h_ * o.strides[1] +
               row * o.strides[2];
    }
    // `count` rows of one head from `first` on, as floats: where they are, or converted to `to`.
    Matrix floats_of(const plan::Operand& o, const void* data, int64_t head, int64_t first,
                     int64_t count, float* to) const {
        const T* from = row_of(o, data, head, first);
        if constexpr (kHalf) {
            const int64_t width = o.shape[3];
            for (int64_t i = 0; i < count; ++i)
                widen(to + i * width, from + i * o.strides[2], width);
            return {to, width};
        } else {
            return {from, o.strides[2]};
        }
    }

    // c [m, n] = a [m, k] b [k, n], or a b^T with b [n, k], or a^T b with a [k, m]; added to c or
    // instead of it.
    enum Form { kPlain, kTransposedB, kTransposedA };
    void product(Form form, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, Result c,
                 bool added, float* panel) const {
        if (m == 0 || n == 0) return;
        SmallProduct p{};
        p.m = m, p.n = n, p.k = k;
        p.a = a.data;
        p.a_row = form == kTransposedA ? 1 : a.row;
        p.a_col = form == kTransposedA ? a.row : 1;
        p.b = b.data;
        p.b_row = form == kTransposedB ? 1 : b.row;
        p.b_col = form == kTransposedB ? b.row : 1;
        p.c = c.data;
        p.c_row = c.row;
        p.residual = added ? c.data : nullptr;
        p.residual_row = c.row;
        p.activation = plan::Activation::None;
        p.panel = panel;
        products().run(p);
    }

    // Keys that a block of queries ending before `end` sees any of.
    int64_t visible(int64_t end) const { return attrs_.causal ? std::min(s_, end) : s_; }

    // The weights of `count` queries from `first` on, in s.scores: e^(score - maximum), and what
    // each row is to be multiplied with.
    void weights(const Scratch& s, void* const* operands, int64_t head, int64_t first,
                 int64_t count, Matrix q, Matrix k, float* factors) const {
        const int64_t n = visible(first + count);
        product(kTransposedB, count, n, e_, q, k, {s.scores, wide_}, false, s.panel);
        for (int64_t i = 0; i < count; ++i) {
            float* row = s.scores + i * wide_;
            const int64_t seen = visible(first + i + 1);
            const float* added = nullptr;
            const std::uint8_t* allowed = nullptr;
            if (mask_at_ >= 0)
                mask_row(s, operands[mask_at_], head, first + i, seen, &added, &allowed);
            const float most =
                rows().scores(row, seen, static_cast<float>(attrs_.scale), added, allowed);
            float sum = 0;
            if (most != -kInf) sum = rows().exponents(row, seen, most);
            factors[i] = most == -kInf ? 0 : 1 / sum;
            std::fill(row + (most == -kInf ? 0 : seen), row + n, 0.f);
        }
    }

    // Uniform numbers of query `row`, one for each key.
    const float* uniform(const Scratch& s, void* const* operands, int64_t head, int64_t row) const {
        const auto counter = static_cast<std::uint64_t>((head * l_ + row) * s_);
        random_(s.uniform, &counter, operands[seed_at_], nullptr, static_cast<std::size_t>(s_));
        return s.uniform;
    }
    bool drops() const { return seed_at_ >= 0; }
    // With probability 1 nothing is left, whatever the factor.
    float kept_factor() const {
        return attrs_.dropout >= 1 ? 0 : static_cast<float>(1 / (1 - attrs_.dropout));
    }

    graph::AttentionAttrs attrs_;
    plan::Operand q_, k_, v_, mask_;
    int64_t b_, h_, l_, e_, s_, ev_;
    int64_t block_ = 1, wide_ = 16;
    int mask_at_ = -1, seed_at_ = -1, threads_ = 1;
    Fn random_ = nullptr;

  private:
    // The mask of one row, in place where it is contiguous.
    void mask_row(const Scratch& s, const void* data, int64_t head, int64_t row, int64_t n,
                  const float** added, const std::uint8_t** seen) const {
        const auto stride = [&](int d) {
            return mask_.shape[d] == 1 ? 0 : mask_.strides[static_cast<std::size_t>(d)];
        };
        const int64_t at = head / h_ * stride(0) + head % h_ * stride(1) + row * stride(2);
        const int64_t step = stride(3);
        if (mask_.dtype == DType::Bool) {
            const auto* from = static_cast<const std::uint8_t*>(data) + at;
            for (int64_t j = 0; step != 1 && j < n; ++j)
                s.seen[j] = from[j * step];
            *seen = step == 1 ? from : s.seen;
            return;
        }
        const T* from = static_cast<const T*>(data) + at;
        if constexpr (kHalf) {
            for (int64_t j = 0; j < n; ++j)
                s.added[j] = static_cast<float>(from[j * step]);
            *added = s.added;
        } else {
            for (int64_t j = 0; step != 1 && j < n; ++j)
                s.added[j] = from[j * step];
            *added = step == 1 ? from : s.added;
        }
    }
};

template <class T>
class Attention : public AttentionBase<T> {
    using Base = AttentionBase<T>;

  public:
    explicit Attention(const plan::HeavyLaunch& l) : Base(l) {
        Room room(nullptr);
        parts(room);
        thread_bytes_ = room.used();
        this->scratch_bytes = thread_bytes_ * static_cast<std::size_t>(this->threads_);
    }

    void run(void* const* operands, void* output) override {
        const int64_t blocks = (this->l_ + this->block_ - 1) / this->block_;
        const int64_t tasks = this->b_ * this->h_ * blocks;
        const int64_t work = this->b_ * this->h_ * this->l_ * this->s_ * (this->e_ + this->ev_) / 8;
        const int most = std::min(this->threads_, threads_for(tasks, work));
        parallel_threads(most, [&](int t) {
            Room room(static_cast<char*>(this->scratch) +
                      thread_bytes_ * static_cast<std::size_t>(t));
            const Parts p = parts(room);
            int64_t head = -1;
            Matrix k{}, v{};
            for (int64_t i = tasks * t / most; i < tasks * (t + 1) / most; ++i) {
                if (i / blocks != head) {
                    head = i / blocks;
                    k = this->floats_of(this->k_, operands[1], head, 0, this->s_, p.s.k);
                    v = this->floats_of(this->v_, operands[2], head, 0, this->s_, p.s.v);
                }
                block(p, operands, static_cast<T*>(output), head, i % blocks * this->block_, k, v);
            }
        });
    }

  private:
    struct Parts {
        typename Base::Scratch s;
        float *factors, *y;
    };
    Parts parts(Room& room) const {
        Parts p{this->scratch_of(room), room.floats(this->block_), nullptr};
        if (Base::kHalf) p.y = room.floats(this->block_ * this->ev_);
        return p;
    }

    void block(const Parts& p, void* const* operands, T* output, int64_t head, int64_t first,
               Matrix k, Matrix v) const {
        const int64_t count = std::min(this->block_, this->l_ - first);
        const int64_t ev = this->ev_, n = this->visible(first + count);
        const Matrix q = this->floats_of(this->q_, operands[0], head, first, count, p.s.q);
        this->weights(p.s, operands, head, first, count, q, k, p.factors);
        if (this->drops())
            for (int64_t i = 0; i < count; ++i) {
                float* row = p.s.scores + i * this->wide_;
                const float* u = this->uniform(p.s, operands, head, first + i);
                rows().drop(row, row, u, n, static_cast<float>(this->attrs_.dropout),
                            this->kept_factor());
            }
        // [B, L, H, Ev]
        T* to = output + ((head / this->h_ * this->l_ + first) * this->h_ + head % this->h_) * ev;
        const int64_t step = this->h_ * ev;
        Result y{p.y, ev};
        if constexpr (!Base::kHalf) y = {to, step};
        this->product(Base::kPlain, count, ev, n, {p.s.scores, this->wide_}, v, y, false,
                      p.s.panel);
        for (int64_t i = 0; i < count; ++i) {
            rows().scale(y.data + i * y.row, ev, p.factors[i]);
            if constexpr (Base::kHalf) narrow(to + i * step, y.data + i * ev, ev);
        }
    }

    std::size_t thread_bytes_ = 0;
};

template <class T>
class AttentionGrad : public AttentionBase<T> {
    using Base = AttentionBase<T>;

  public:
    explicit AttentionGrad(const plan::HeavyLaunch& l)
        : Base(l), dy_(l.operands.back()), dy_at_(static_cast<int>(l.operands.size()) - 1) {
        // It comes as [B, L, H, Ev].
        std::swap(dy_.shape[1], dy_.shape[2]);
        std::swap(dy_.strides[1], dy_.strides[2]);
        Room room(nullptr);
        parts(room);
        thread_bytes_ = room.used();
        this->scratch_bytes = thread_bytes_ * static_cast<std::size_t>(this->threads_);
    }

    void run(void* const* operands, void* output) override {
        const int64_t tasks = this->b_ * this->h_;
        const int64_t work = tasks * this->l_ * this->s_ * (this->e_ + this->ev_) / 4;
        const int most = std::min(this->threads_, threads_for(tasks, work));
        parallel_threads(most, [&](int t) {
            Room room(static_cast<char*>(this->scratch) +
                      thread_bytes_ * static_cast<std::size_t>(t));
            const Parts p = parts(room);
            for (int64_t i = tasks * t / most; i < tasks * (t + 1) / most; ++i)
                head(p, operands, static_cast<T*>(output), i);
        });
    }

  private:
    struct Parts {
        typename Base::Scratch s;
        float *factors, *dp, *dropped, *dy, *dq, *dk, *dv;
    };
    Parts parts(Room& room) const {
        Parts p{this->scratch_of(room),
                room.floats(this->block_),
                room.floats(this->block_ * this->wide_),
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                nullptr};
        if (this->drops()) p.dropped = room.floats(this->block_ * this->wide_);
        if (Base::kHalf) {
            p.dy = room.floats(this->block_ * this->ev_);
            p.dq = room.floats(this->block_ * this->e_);
            p.dk = room.floats(this->s_ * this->e_);
            p.dv = room.floats(this->s_ * this->ev_);
        }
        return p;
    }

    // A part of the output as [B, N, H, W]: where rows of one head go.
    struct Place {
        T* data;
        int64_t row;
    };
    Place place(T* part, int64_t head, int64_t n, int64_t width) const {
        return {part + (head / this->h_ * n * this->h_ + head % this->h_) * width,
                this->h_ * width};
    }
    static Result result(const Place& to, float* tile, int64_t width) {
        if constexpr (Base::kHalf)
            return {tile, width};
        else
            return {to.data, to.row};
    }
    static void clear(const Result& r, int64_t n, int64_t width) {
        for (int64_t i = 0; i < n; ++i)
            std::fill(r.data + i * r.row, r.data + i * r.row + width, 0.f);
    }
    static void finish(const Place& to, const Result& r, int64_t n, int64_t width) {
        if constexpr (Base::kHalf)
            for (int64_t i = 0; i < n; ++i)
                narrow(to.data + i * to.row, r.data + i * r.row, width);
    }

    void head(const Parts& p, void* const* operands, T* output, int64_t head) const {
        const int64_t e = this->e_, ev = this->ev_, s = this->s_, heads = this->b_ * this->h_;
        const Place to_q = place(output, head, this->l_, e);
        const Place to_k = place(output + heads * this->l_ * e, head, s, e);
        const Place to_v = place(output + heads * (this->l_ + s) * e, head, s, ev);
        const Result dk = result(to_k, p.dk, e), dv = result(to_v, p.dv, ev);
        clear(dk, s, e);
        clear(dv, s, ev);
        const Matrix k = this->floats_of(this->k_, operands[1], head, 0, s, p.s.k);
        const Matrix v = this->floats_of(this->v_, operands[2], head, 0, s, p.s.v);
        for (int64_t first = 0; first < this->l_; first += this->block_) {
            const int64_t count = std::min(this->block_, this->l_ - first);
            const int64_t n = this->visible(first + count), wide = this->wide_;
            const Matrix q = this->floats_of(this->q_, operands[0], head, first, count, p.s.q);
            const Matrix dy = this->floats_of(dy_, operands[dy_at_], head, first, count, p.dy);
            this->weights(p.s, operands, head, first, count, q, k, p.factors);
            for (int64_t i = 0; i < count; ++i)
                rows().scale(p.s.scores + i * wide, n, p.factors[i]);
            this->product(Base::kTransposedB, count, n, ev, dy, v, {p.dp, wide}, false, p.s.panel);
            const float* used = p.s.scores;
            if (this->drops()) {
                used = p.dropped;
                const auto rate = static_cast<float>(this->attrs_.dropout);
                const float factor = this->kept_factor();
                for (int64_t i = 0; i < count; ++i) {
                    const float* u = this->uniform(p.s, operands, head, first + i);
                    float* dp = p.dp + i * wide;
                    rows().drop(p.dropped + i * wide, p.s.scores + i * wide, u, n, rate, factor);
                    rows().drop(dp, dp, u, n, rate, factor);
                }
            }
            this->product(Base::kTransposedA, n, ev, count, {used, wide}, dy, dv, true, p.s.panel);
            for (int64_t i = 0; i < count; ++i)
                rows().gradient(p.dp + i * wide, p.s.scores + i * wide, n,
                                static_cast<float>(this->attrs_.scale));
            const Place block_q{to_q.data + first * to_q.row, to_q.row};
            const Result dq = result(block_q, p.dq, e);
            this->product(Base::kPlain, count, e, n, {p.dp, wide}, k, dq, false, p.s.panel);
            finish(block_q, dq, count, e);
            this->product(Base::kTransposedA, n, e, count, {p.dp, wide}, q, dk, true, p.s.panel);
        }
        finish(to_k, dk, s, e);
        finish(to_v, dv, s, ev);
    }

    plan::Operand dy_;
    int dy_at_;
    std::size_t thread_bytes_ = 0;
};

template <template <class> class Kernel>
std::unique_ptr<HeavyKernel> make(const plan::HeavyLaunch& l) {
    switch (l.output.dtype) {
        case DType::Float32:
            return std::make_unique<Kernel<float>>(l);
        case DType::Float16:
            return std::make_unique<Kernel<Half>>(l);
        case DType::BFloat16:
            return std::make_unique<Kernel<BFloat>>(l);
        default:
            throw Error("attention is for float32, float16 and bfloat16");
    }
}

}  // namespace

std::unique_ptr<HeavyKernel> make_attention(const plan::HeavyLaunch& l) {
    return make<Attention>(l);
}
std::unique_ptr<HeavyKernel> make_attention_grad(const plan::HeavyLaunch& l) {
    return make<AttentionGrad>(l);
}

}  // namespace pippin::cpu
