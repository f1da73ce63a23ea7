#!/usr/bin/env bash
# Checks that all C++ files have the style of .clang-format; with --fix, gives it to them.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v clang-format >/dev/null || { echo "check-format: clang-format is missing (tools/setup.sh installs it)" >&2; exit 1; }

# Files that git knows or would add; in a source archive without git, all.
list() {
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -z --cached --others --exclude-standard -- '*.h' '*.hpp' '*.cpp' '*.cc'
    else
        find . \( -path ./build -o -path ./runs \) -prune -o \
            \( -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.cc' \) -print0
    fi
}
mapfile -d '' -t listed < <(list)
files=()
for file in "${listed[@]}"; do
    [[ -f $file ]] && files+=("$file")  # git also lists files that were just deleted
done
if ((${#files[@]} == 0)); then
    echo "check-format: no C++ files"
    exit 0
fi

if [[ ${1:-} == --fix ]]; then
    clang-format -i -- "${files[@]}"
    exit 0
fi
if ! clang-format --dry-run -Werror -- "${files[@]}"; then
    echo "check-format: the files above differ from the style; 'make format' mends them" >&2
    exit 1
fi
echo "check-format: ${#files[@]} files in style"
