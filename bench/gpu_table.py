"""Makes the GPU's part of docs/performance.md: a table and a chart of what bench/gpu and
bench/torch_gpu_peer.py (strict fp16) wrote on one machine, one after the other.

    python3 bench/gpu_table.py PIPPIN.jsonl TORCH.jsonl MODELS.jsonl CHART.svg

MODELS.jsonl is of `pippin models --json`. The table goes to standard output; shares are of an H200's
67 TFLOP/s in float32, counting two operations a multiply-add and backward as twice forward."""
import json
import sys

LIMIT = 67e12
ROWS = [("resnet50", 128), ("vgg16", 64), ("bert_base", 64), ("resnet18", 64), ("resnet18", 1), ("lenet5", 64)]


def read(path, key="name"):
    out = {}
    for line in open(path):
        if line.startswith("{") and key in (row := json.loads(line)):
            out[row[key]] = row
    return out


def main(pippin_file, torch_file, models_file, chart):
    value = lambda rows: {k: r["value"] for k, r in rows.items() if "value" in r}
    pippin, torch, models = value(read(pippin_file)), value(read(torch_file)), read(models_file, "model")
    bars = []
    print("| | Pippin fp32 | PyTorch | ratio | of the limit | Pippin fp16 | of its fp32 | PyTorch fp16 |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for model, batch in ROWS:
        for mode in ("train", "eval"):
            name = f"{model} b{batch} {mode}"
            a, b, half = pippin[name], torch[name], pippin[name + " fp16"]
            rate = a * 2 * models[model]["multiply_adds"] * (3 if mode == "train" else 1)
            bars.append((name, a / b, rate / LIMIT))
            print(f"| {model}, {batch}, {mode} | {a:.0f} | {b:.0f} | {a / b:.2f}x | {100 * rate / LIMIT:.0f} % |"
                  f" {half:.0f} | {half / a:.1f}x | {torch[name + ' fp16']:.0f} |")
    left, width, step = 170, 420, 26
    most = max(r for _, r, _ in bars)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 140}" height="{len(bars) * step + 50}" '
           'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
           f'<text x="{left}" y="18">Speed on an H200 as a multiple of PyTorch\'s, float32 (share of the device\'s limit)'
           '</text>']
    for k, (name, ratio, share) in enumerate(bars):
        y = 30 + k * step
        svg.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{name}</text>'
                   f'<rect x="{left}" y="{y}" width="{ratio / most * width:.1f}" height="{step - 8}" fill="#3b73b9"/>'
                   f'<text x="{left + ratio / most * width + 6:.1f}" y="{y + 14}">{ratio:.2f}x ({100 * share:.0f} %)</text>')
    x = left + width / most
    svg.append(f'<line x1="{x:.1f}" y1="26" x2="{x:.1f}" y2="{30 + len(bars) * step}" stroke="#888" '
               'stroke-dasharray="4 3"/></svg>')
    open(chart, "w").write("\n".join(svg) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
