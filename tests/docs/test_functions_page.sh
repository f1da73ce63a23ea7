#!/usr/bin/env bash
# docs/functions.md names every public function, and its check notices when one is missing.
set -euo pipefail
cd "$PIPPIN_SOURCE_DIR"
command -v python3 >/dev/null || exit 77
python3 tools/check_functions_page.py

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/tools" "$copy/docs" "$copy/include"
cp tools/check_functions_page.py "$copy/tools"
cp -r include/pippin "$copy/include"
sed 's/`huber_loss`,\?//; s/`LambdaLR`,\?//; s/`MaxPool1d`,\?//' docs/functions.md |
    sed 's/, `huber_loss`//' >"$copy/docs/functions.md"
if lacking=$(python3 "$copy/tools/check_functions_page.py"); then
    echo "the check does not notice that names are missing"
    exit 1
fi
for name in huber_loss LambdaLR MaxPool1d; do
    grep -q ": $name\$" <<<"$lacking" || { echo "$name is not reported"; exit 1; }
done
