#!/usr/bin/env bash
# Installs what Pippin needs to be built and tested. Where everything is there already, it does
# nothing at all: no network, no sudo. Called by `make demo` and `make test`; --fuzz: also what
# fuzzing needs.
set -u
export LC_ALL=C  # apt's messages in one language

packages=(
    g++ make cmake ninja-build ccache clang-format
    libdnnl-dev libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev
    libjpeg-dev libpng-dev zlib1g-dev libzip-dev libutf8proc-dev libcairo2-dev fonts-dejavu-core
    libvulkan-dev libvulkan-volk-dev glslang-dev spirv-tools mesa-vulkan-drivers
    spirv-cross vulkan-validationlayers
    libopenmpi-dev openmpi-bin
    libgtest-dev libbenchmark-dev
    dataset-fashion-mnist fortunes fortunes-min
)

# What tools/run_fuzz.sh needs beside.
[[ ${1:-} != --fuzz ]] || packages+=(clang libclang-rt-dev)

say() { printf 'setup: %s\n' "$*"; }
complain() { printf 'setup: %s\n' "$*" >&2; }

# Systems without apt: say what is needed, and go on if the commands are there. CMake names each
# library that it does not find.
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "this is not a Debian system, so nothing is installed for you. Pippin needs:"
    say "  commands:  a C++20 compiler (g++ 12, clang 14 or newer), make, cmake 3.25, ninja; ccache and clang-format are optional"
    say "  libraries: oneDNN, Highway, fmt, CLI11, nlohmann-json, yaml-cpp, libjpeg, libpng, zlib, libzip, utf8proc, GoogleTest, Google Benchmark (optional), cairo (optional: charts as PNG); Vulkan headers, volk and glslang for GPUs (and, for their tests, spirv-cross and the validation layer); OpenMPI for several processes"
    say "  data:      the four Fashion-MNIST files, for the demo (Debian has them in dataset-fashion-mnist)"
    missing=()
    for command in cmake ninja; do
        command -v "$command" >/dev/null || missing+=("$command")
    done
    command -v "${CXX:-c++}" >/dev/null || missing+=("${CXX:-c++}")
    if ((${#missing[@]})); then
        complain "not found: ${missing[*]}. Install them and try again."
        exit 1
    fi
    say "the commands are there: going on"
    exit 0
fi

# Prints those of the packages that are not installed.
list_missing() {
    local installed package
    installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
        awk '$1 == "installed" {print $2}' | tr '\n' ' ')"
    for package in "${packages[@]}"; do
        [[ $installed == *" $package "* ]] || printf '%s\n' "$package"
    done
}

mapfile -t missing < <(list_missing)
((${#missing[@]})) || exit 0

say "installing ${missing[*]}"
by_hand() {
    complain "to do it by hand, as root:"
    complain "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
}
as_root=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        complain "installing needs root, and there is no sudo here"
        by_hand
        exit 1
    fi
    if ! sudo -n true 2>/dev/null && ! sudo -v; then  # the second asks for the password
        complain "installing needs root, and sudo did not let you"
        by_hand
        exit 1
    fi
    as_root=(sudo)
fi

apt() {
    "${as_root[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get \
        -o DPkg::Lock::Timeout=120 -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# A failed update is told only if the installation fails too: old lists are often good enough.
apt update -q >"$log" 2>&1
apt install -y -q --no-install-recommends "${missing[@]}" 2>&1 | tee -a "$log"

mapfile -t missing < <(list_missing)
if ((${#missing[@]} == 0)); then
    say "done"
    exit 0
fi

# Which package failed, and why, in apt's own words. One package that cannot be had keeps apt from
# installing the others, so those are told apart.
held_up=()
for package in "${missing[@]}"; do
    reason=$(apt-get install -s --no-install-recommends "$package" 2>&1 | grep '^E:' | head -n 1)
    [[ -n $reason ]] || reason=$(grep -E '^E:' "$log" | grep -F -- "$package" | head -n 1)
    if [[ -n $reason ]]; then
        complain "could not install $package: $reason"
    else
        held_up+=("$package")
    fi
done
if ((${#held_up[@]} == ${#missing[@]})); then
    complain "could not install ${missing[*]}: $(grep '^E:' "$log" | head -n 1)"
elif ((${#held_up[@]})); then
    complain "not installed because of these: ${held_up[*]}"
fi
if grep -qE '^[WE]: Failed to fetch' "$log"; then
    complain "the package server could not be reached:"
    grep -E '^[WE]: Failed to fetch' "$log" | head -n 2 >&2
    complain "check the network (and the proxy in apt's settings), then try again"
else
    complain "check that apt's sources name the main archive of Debian 12 or newer, then try again"
fi
by_hand
exit 1
