#!/usr/bin/env bash
# Installs the build to a fresh prefix, then builds and runs a small project that knows Pippin
# only by find_package(pippin).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$PIPPIN_BUILD_DIR" --prefix "$work/prefix" >"$work/install.log" ||
    { cat "$work/install.log"; exit 1; }

# The package must work after the sources and the build are gone.
package=$(dirname "$(find "$work/prefix" -name pippin-config.cmake)")
if grep -rnF -e "$PIPPIN_SOURCE_DIR/" "$package"; then
    echo "the installed package refers to the source or build folder"
    exit 1
fi

# The folder is copied, so that nothing of this project is above it.
cp -r "$PIPPIN_SOURCE_DIR/tests/install/consumer" "$work/consumer"
cmake -S "$work/consumer" -B "$work/build" -G Ninja \
    -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
result=$("$work/build/app")
if [[ $result != 12 ]]; then
    echo "the program printed '$result' instead of 12"
    exit 1
fi

# Programs are installed with the library, and find it where it is shared.
if [[ -x $PIPPIN_BUILD_DIR/bin/pippin ]]; then
    "$work/prefix/bin/pippin" --help >/dev/null
    # Completion and the manual page are made by the build of everything.
    if [[ -f $PIPPIN_BUILD_DIR/shell/pippin.man ]]; then
        for file in bash-completion/completions/pippin zsh/site-functions/_pippin man/man1/pippin.1; do
            [[ -s $work/prefix/share/$file ]] || { echo "share/$file was not installed"; exit 1; }
        done
    fi
fi
for example in "$PIPPIN_BUILD_DIR"/examples/*; do
    [[ -f $example && -x $example ]] || continue
    find "$work/prefix" -path "*/pippin/examples/$(basename "$example")" | grep -q . ||
        { echo "$(basename "$example") was not installed"; exit 1; }
done
