#!/usr/bin/env bash
# Builds the fuzz targets and runs each for some seconds, two at a time.
#   tools/run_fuzz.sh SECONDS [TARGET...]     safetensors, torch, image, ... (fuzz/*.cpp)
# FUZZ_SEED=N makes a run (almost) repeat itself; else each tries something else.
# Seeds are fuzz/corpus/TARGET and some test fixtures; what is found goes on in build/fuzz/corpus/TARGET.
# A fault leaves its input in build/fuzz/faults and is printed; the last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit
seconds=${1:?usage: run_fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
if ((${#targets[@]} == 0)); then
    for source in fuzz/*.cpp; do
        targets+=("$(basename "$source" .cpp)")
    done
fi

tools/setup.sh --fuzz && cmake --preset fuzz >/dev/null && cmake --build --preset fuzz ||
    { echo "the fuzz targets could not be built" >&2; echo "0 passed, 1 failed"; exit 1; }
mkdir -p build/fuzz/faults

# Fixtures of the tests that serve as seeds, too.
fixtures() {
    case $1 in
        safetensors) printf '%s\n' tests/fixtures/io ;;
        torch) printf '%s\n' tests/fixtures/io/torch ;;
        image) printf '%s\n' tests/fixtures/data ;;
    esac
}

run_one() {
    local name=$1 log=build/fuzz/$1.log
    local -a seeds
    mkdir -p "build/fuzz/corpus/$name"
    mapfile -t seeds < <(fixtures "$name")
    # An image header may claim 179 million pixels, which are decoded: hence the limits.
    build/fuzz/fuzz/fuzz_"$name" -seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=4096 \
        -malloc_limit_mb=2048 -max_len=65536 -artifact_prefix="build/fuzz/faults/$name-" \
        "build/fuzz/corpus/$name" "fuzz/corpus/$name" "${seeds[@]}" >"$log" 2>&1 </dev/null
    local status=$?
    printf '%-20s %s  %s\n' "$name" "$( ((status == 0)) && echo "no fault" || echo "FAULT")" \
        "$(grep -E '^Done|^SUMMARY' "$log" | tail -n 1)"
    ((status == 0)) || tail -n 60 "$log"
    return "$status"
}

passed=0 failed=0
for ((i = 0; i < ${#targets[@]}; i += 2)); do
    pids=()
    for name in "${targets[@]:i:2}"; do
        run_one "$name" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        if wait "$pid"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    done
done
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
