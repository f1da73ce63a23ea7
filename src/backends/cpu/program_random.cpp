// Philox 4x32-10 (Salmon et al., 2011) over blocks of counters. plan/program.h defines the bits.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/program_random.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "backends/cpu/program_functions.h"
#include "backends/cpu/vec_loops.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu::HWY_NAMESPACE {
namespace {

constexpr std::size_t kGroup = 16;  // counters computed side by side

// Each round's two keys.
struct Schedule {
    std::uint64_t keys[20];
    explicit Schedule(std::uint64_t key) {
        auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
        for (std::size_t round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
            keys[2 * round] = k0, keys[2 * round + 1] = k1;
    }
};

// Four output words for each of kGroup counters, in 64-bit lanes whose upper halves are zero:
// processors multiply 32 by 32 bits into 64 there.
HWY_INLINE void philox(const std::uint64_t* counters, const std::uint64_t* key_and_stream,
                       std::uint64_t (&words)[4][kGroup]) {
    const hn::ScalableTag<std::uint64_t> d;
    const hn::Repartition<std::uint32_t, decltype(d)> d32;
    const std::size_t lanes = hn::Lanes(d);
    const auto low = hn::Set(d, 0xFFFFFFFFu);
    const std::uint64_t stream = key_and_stream[1];
    const Schedule schedule(key_and_stream[0]);
    for (std::size_t i = 0; i < kGroup; i += lanes) {
        const auto c = hn::LoadU(d, counters + i);
        auto x0 = hn::And(c, low), x1 = hn::ShiftRight<32>(c);
        auto x2 = hn::Set(d, stream & 0xFFFFFFFFu), x3 = hn::Set(d, stream >> 32);
        for (std::size_t round = 0; round < 10; ++round) {
            const auto k0 = hn::Set(d, schedule.keys[2 * round]);
            const auto k1 = hn::Set(d, schedule.keys[2 * round + 1]);
#if HWY_TARGET == HWY_SCALAR
            (void)d32;
            const auto p0 = hn::Set(d, std::uint64_t{0xD2511F53u} * hn::GetLane(x0));
            const auto p1 = hn::Set(d, std::uint64_t{0xCD9E8D57u} * hn::GetLane(x2));
#else
            const auto p0 = hn::MulEven(hn::BitCast(d32, x0), hn::Set(d32, 0xD2511F53u));
            const auto p1 = hn::MulEven(hn::BitCast(d32, x2), hn::Set(d32, 0xCD9E8D57u));
#endif
            const auto y0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), x1), k0);
            const auto y2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), x3), k1);
            x0 = y0, x1 = hn::And(p1, low), x2 = y2, x3 = hn::And(p0, low);
        }
        hn::StoreU(x0, d, words[0] + i);
        hn::StoreU(x1, d, words[1] + i);
        hn::StoreU(x2, d, words[2] + i);
        hn::StoreU(x3, d, words[3] + i);
    }
}

HWY_INLINE void put(std::int64_t* out, std::uint64_t bits) {
    *out = static_cast<std::int64_t>(bits);
}
HWY_INLINE void put(float* out, std::uint64_t bits) {
    *out = static_cast<float>(static_cast<std::int32_t>(bits >> 8)) * 0x1p-24f;
}

// Any counters: one block of four words for each element, of which it uses one.
template <class T>
void random_any(void* out, const void* a, const void* key, const void*, std::size_t n) {
    auto* o = static_cast<T*>(out);
    const auto* at = static_cast<const std::uint64_t*>(a);
    std::uint64_t counters[kGroup], words[4][kGroup];
    for (std::size_t i = 0; i < n; i += kGroup) {
        const std::size_t m = n - i < kGroup ? n - i : kGroup;
        std::uint64_t which[kGroup];
        for (std::size_t j = 0; j < kGroup; ++j) {
            const std::uint64_t x = at[i + (j < m ? j : 0)];
            counters[j] = x >> 2;
            which[j] = x & 3;
        }
        philox(counters, static_cast<const std::uint64_t*>(key), words);
        for (std::size_t j = 0; j < m; ++j)
            put(o + i + j, words[which[j]][j]);
    }
}

#if HWY_TARGET != HWY_SCALAR
// The same words of consecutive blocks, in the order of elements.
template <class T, class V>
HWY_INLINE void blocks_of(T* out, V c, const Schedule& schedule, std::uint64_t stream) {
    const hn::ScalableTag<std::uint64_t> d;
    const hn::Repartition<std::uint32_t, decltype(d)> d32;
    // Upper halves of lanes may hold anything: multiplications do not look at them.
    auto x0 = c, x1 = hn::ShiftRight<32>(c);
    auto x2 = hn::Set(d, stream), x3 = hn::ShiftRight<32>(x2);
    for (std::size_t round = 0; round < 10; ++round) {
        const auto p0 = hn::MulEven(hn::BitCast(d32, x0), hn::Set(d32, 0xD2511F53u));
        const auto p1 = hn::MulEven(hn::BitCast(d32, x2), hn::Set(d32, 0xCD9E8D57u));
        const auto k0 = hn::Set(d, schedule.keys[2 * round]);
        const auto k1 = hn::Set(d, schedule.keys[2 * round + 1]);
        // upper halves down: processors have another unit for this than for shifts and products
        const auto high0 = hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, p0)));
        const auto high1 = hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, p1)));
        x0 = hn::Xor3(high1, x1, k0);
        x2 = hn::Xor3(high0, x3, k1);
        x1 = p1, x3 = p0;
    }
    const auto low = hn::Set(d, 0xFFFFFFFFu);
    x0 = hn::And(x0, low), x1 = hn::And(x1, low), x2 = hn::And(x2, low), x3 = hn::And(x3, low);
    if constexpr (std::is_same_v<T, float>) {
        const hn::Repartition<float, decltype(d)> df;
        const hn::Repartition<std::int32_t, decltype(d)> di;
        const auto scale = hn::Set(df, 0x1p-24f);
        const auto a = hn::BitCast(d32, hn::Or(x0, hn::ShiftLeft<32>(x1)));
        const auto b = hn::BitCast(d32, hn::Or(x2, hn::ShiftLeft<32>(x3)));
        const auto fa = hn::Mul(hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(a))), scale);
        const auto fb = hn::Mul(hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(b))), scale);
        hn::StoreInterleaved2(hn::BitCast(d, fa), hn::BitCast(d, fb), d,
                              reinterpret_cast<std::uint64_t*>(out));
    } else {
        hn::StoreInterleaved4(x0, x1, x2, x3, d, reinterpret_cast<std::uint64_t*>(out));
    }
}
#endif

// Counters *a, *a + 1, ...: all four words of each block are used.
template <class T>
void random_consecutive(void* out, const void* a, const void* key, const void*, std::size_t n) {
    auto* o = static_cast<T*>(out);
    const std::uint64_t start = *static_cast<const std::uint64_t*>(a);
    std::uint64_t block = start >> 2;
    std::size_t skip = start & 3, done = 0;
#if HWY_TARGET == HWY_SCALAR
    constexpr std::size_t lanes = kGroup;
#else
    const hn::ScalableTag<std::uint64_t> d;
    const std::size_t lanes = hn::Lanes(d);
    const auto first = hn::Iota(d, 0);
    const auto* words_key = static_cast<const std::uint64_t*>(key);
    const Schedule schedule(words_key[0]);
#endif
    HWY_ALIGN T part[4 * kGroup];
    while (done < n) {
        std::size_t m = 4 * lanes - skip;
        if (m > n - done) m = n - done;
        T* to = m == 4 * lanes ? o + done : part;
#if HWY_TARGET == HWY_SCALAR
        std::uint64_t counters[kGroup], words[4][kGroup];
        for (std::size_t j = 0; j < kGroup; ++j)
            counters[j] = block + j;
        philox(counters, static_cast<const std::uint64_t*>(key), words);
        for (std::size_t j = 0; j < kGroup; ++j)
            for (std::size_t w = 0; w < 4; ++w)
                put(to + 4 * j + w, words[w][j]);
#else
        blocks_of(to, hn::Add(first, hn::Set(d, block)), schedule, words_key[1]);
#endif
        block += lanes;
        if (to == part) std::memcpy(o + done, part + skip, m * sizeof(T));
        done += m;
        skip = 0;
    }
}

void uniform_of_bits(void* out, const void* a, const void*, const void*, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
        put(static_cast<float*>(out) + i, static_cast<const std::uint64_t*>(a)[i]);
}

Fn find(bool uniform, bool consecutive) {
    if (uniform) return consecutive ? &random_consecutive<float> : &random_any<float>;
    return consecutive ? &random_consecutive<std::int64_t> : &random_any<std::int64_t>;
}

Fn of_bits() { return &uniform_of_bits; }

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pippin::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {
namespace {
HWY_EXPORT(find);
HWY_EXPORT(of_bits);
}  // namespace

Fn find_random(bool uniform, bool consecutive) {
    return HWY_DYNAMIC_DISPATCH(find)(uniform, consecutive);
}
Fn find_uniform_of_bits() { return HWY_DYNAMIC_DISPATCH(of_bits)(); }

}  // namespace pippin::cpu
#endif
