#!/usr/bin/env bash
# The tool that makes a folder of JPEG files: names, balance, and what it refuses.
set -u
tool=$PIPPIN_BUILD_DIR/tools/make_image_folder
[[ -x $tool ]] || { echo "the tools are not built"; exit 77; }
[[ -d /usr/share/datasets/fashion-mnist ]] || { echo "Fashion-MNIST is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "failed: $*"; exit 1; }
# refuses PART ARGUMENTS...: the tool fails and says PART.
refuses() {
    local part=$1 said
    shift
    said=$("$tool" "$@" 2>&1) && fail "was accepted: $*"
    [[ $said == *"$part"* ]] || fail "no '$part' in: $said"
}

"$tool" --out "$work/images" --count 23 --size 32 || fail "exit $?"
(($(find "$work/images" -name '*.jpg' | wc -l) == 23)) || fail "not 23 files"
# The first three classes have one more.
for class in tshirt_3 trouser_3 pullover_3 dress_2 coat_2 sandal_2 shirt_2 sneaker_2 bag_2 ankle_boot_2; do
    [[ -s $work/images/$class.jpg ]] || fail "no $class.jpg"
done
[[ $(head -c 2 "$work/images/bag_1.jpg" | od -An -tx1 | tr -d ' ') == ffd8 ]] || fail "no JPEG"

refuses "is not empty" --out "$work/images" --count 10
refuses "$work/none: there is no such folder" --data_dir "$work/none" --out "$work/other"
refuses "cannot make this folder" --out "$work/images/bag_1.jpg/x"
refuses "--count" --out "$work/other" --count 0
refuses "--out" --count 10
echo ok
