// Whether this processor has matrix units (AMX) for bfloat16 and the system lets us use them.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#define PIPPIN_HAS_AMX 1
#endif

namespace pippin::cpu {

/// Asks once. PIPPIN_CPU_SPLIT=0 in the environment says no, to compare.
bool has_amx();

}  // namespace pippin::cpu
