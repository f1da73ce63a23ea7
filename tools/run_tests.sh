#!/usr/bin/env bash
# Runs the tests of a build folder and counts them.
#   tools/run_tests.sh BUILD_DIR [REGEX]     only those whose name matches REGEX
# Prints a line for each program, the output of what failed, and at last "N passed, N failed".
# A crash, a time-out and a sanitizer's report count as one failure each. Exits non-zero if
# anything failed or if nothing ran.
# PIPPIN_TEST_TIMEOUT: seconds that one program may take (default 900).
set -u
build=$(realpath -- "${1:?usage: run_tests.sh BUILD_DIR [REGEX]}") || exit 2
only=${2:-}
list=$build/tests/list.txt
logs=$build/tests/logs
limit=${PIPPIN_TEST_TIMEOUT:-900}
mkdir -p "$logs"

passed=0 failed=0 skipped=0
failures=() skips=()

# Prints what a GoogleTest log says of the tests that did not end well: from their RUN line on, and
# all that follows the last test (a crash, a sanitizer's report). The thread sanitizer reports in the
# middle of tests that go on to pass.
failed_parts() {
    awk '
        /^\[ RUN      \]/        { block = $0; inside = 1; next }
        /^\[       OK \]/        { if (block ~ /ThreadSanitizer/) print block; block = ""; inside = 0; next }
        /^\[  SKIPPED \].*ms\)$/ { block = ""; inside = 0; next }
        /^\[  FAILED  \].*ms\)$/ { if (inside) { print block; print } block = ""; inside = 0; next }
        /^\[(----------|==========|  PASSED  |  FAILED  |  SKIPPED )\]/ && !inside { next }
                                 { block = block "\n" $0 }
        END                      { print block }
    ' "$1" | tail -n 300 | cat -s
}

# The sum of an attribute over the lines of GoogleTest's report that open an element.
attribute() { sed -nE "s/^ *<$2( .*)? $3=\"([0-9]+)\".*/\2/p" "$1" | awk '{sum += $1} END {print sum + 0}'; }

run_gtest() {
    local name=$1 program=$2 log=$logs/$1.log report=$logs/$1.xml
    local status ok=0 bad=0 skip=0 note=""
    rm -f "$report"
    timeout --kill-after=10 "$limit" "$program" --gtest_output="xml:$report" --gtest_color=no \
        >"$log" 2>&1 </dev/null
    status=$?
    if [[ -s $report ]]; then
        bad=$(($(attribute "$report" testsuites failures) + $(attribute "$report" testsuites errors)))
        skip=$(($(attribute "$report" testsuites disabled) + $(attribute "$report" testsuite skipped)))
        ok=$(($(attribute "$report" testsuites tests) - bad - skip))
    else  # the program did not get as far as writing its report
        ok=$(grep -c '^\[       OK \]' "$log")
        bad=$(grep -cE '^\[  FAILED  \] .*ms\)$' "$log")
    fi
    if ((status == 124 || status == 137)) && [[ ! -s $report ]]; then
        note="stopped after $limit s in $(last_test "$log")"
    elif [[ ! -s $report ]]; then
        note="crashed (exit $status) in $(last_test "$log")"
    elif ((status != 0 && bad == 0)); then
        note="ended with exit $status after its tests"
    elif ((ok + bad == 0)); then
        note="ran no test"
    fi
    while IFS= read -r line; do
        failures+=("$name: $line")
    done < <(sed -nE 's/^\[  FAILED  \] (.*) \([0-9]+ ms\)$/\1/p' "$log")
    if [[ -n $note ]]; then
        bad=$((bad + 1))
        failures+=("$name: $note")
    fi
    summary=$(printf '%d passed, %d failed' "$ok" "$bad")
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    while IFS= read -r line; do
        skips+=("$name: $line")
    done < <(awk '/^\[ RUN      \]/ {why = ""; next} /: Skipped$/ {getline why; next}
                  /^\[  SKIPPED \] .*ms\)$/ {print $4 (why ? " (" why ")" : "")}' "$log")
    ((bad == 0)) || failed_parts "$log"
}

last_test() {
    local test
    test=$(sed -nE 's/^\[ RUN      \] //p' "$1" | tail -n 1)
    printf '%s' "${test:-its start}"
}

run_script() {
    local name=$1 program=$2 log=$logs/${1//\//.}.log status
    timeout --kill-after=10 "$limit" bash "$program" >"$log" 2>&1 </dev/null
    status=$?
    if ((status == 0)); then
        passed=$((passed + 1)) summary="passed"
    elif ((status == 77)); then
        skipped=$((skipped + 1)) summary="skipped: $(tail -n 1 "$log")"
        skips+=("$name: $(tail -n 1 "$log")")
    else
        failed=$((failed + 1)) summary="failed (exit $status)"
        ((status != 124)) || summary="stopped after $limit s"
        failures+=("$name: $summary")
        tail -n 100 "$log"
    fi
}

while read -r kind name program; do
    if [[ $kind == env ]]; then
        export "$name${program:+ $program}"
        continue
    fi
    [[ $name =~ $only ]] || continue
    started=$(date +%s%N)
    summary=""
    if [[ ! -e $program ]]; then
        failed=$((failed + 1)) summary="is not built"
        failures+=("$name: $summary")
    else
        "run_$kind" "$name" "$program"
    fi
    elapsed=$((($(date +%s%N) - started) / 100000000))
    printf '%-24s %s  (%d.%d s)\n' "$name" "$summary" $((elapsed / 10)) $((elapsed % 10))
done < <(cat -- "$list" 2>/dev/null)

if ((${#failures[@]})); then
    printf '\nfailed:\n'
    printf '  %s\n' "${failures[@]}"
    printf 'full output: %s\n' "$logs"
fi
if ((skipped > 0)); then
    echo "$skipped skipped"
    ((${#skips[@]} == 0)) || printf '  %s\n' "${skips[@]}"
fi
((passed + failed > 0)) || echo "no test ran in $build${only:+ that matches '$only'}"
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
