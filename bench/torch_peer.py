"""The PyTorch side of `pippin bench --compare torch`: one measurement, as one line of JSON.

Takes the case as JSON ({"model", "mode", "precision", "batch", "seconds", "threads",
"input", "vocabulary", "num_classes"}; "compile": true), runs the same training step or evaluation in
contiguous and, for images, channels-last layout, where asked for also as torch.compile makes it
of them (which needs a C++ compiler), and prints the best one. Networks come from torchvision, timm
(resnet50d, convmixer_768_32) and transformers (bert_base, minilm)."""
import contextlib
import json
import logging
import resource
import sys
import time

case = json.loads(sys.argv[1])
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(case["threads"])
logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # that there is no CUDA


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, 10))


def bert(**sizes):
    import transformers
    config = transformers.BertConfig(num_labels=case["num_classes"], vocab_size=case["vocabulary"], **sizes)
    model = transformers.BertForSequenceClassification(config)

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(input_ids=ids).logits

    return Logits()


def make():
    name, shape = case["model"], [case["batch"]] + case["input"]
    if case["vocabulary"]:
        x = torch.randint(0, case["vocabulary"], shape)
    else:
        x = torch.randn(shape)
    if name == "lenet5":
        model = lenet5()
    elif name == "bert_base":
        model = bert()
    elif name == "minilm":
        model = bert(hidden_size=384, num_hidden_layers=6, intermediate_size=1536)
    elif name in ("resnet50d", "convmixer_768_32"):
        import timm
        model = timm.create_model(name)
    else:
        import torchvision
        model = torchvision.models.get_model(name)
    return model, x


def measure(channels_last, compiled=False):
    torch.manual_seed(0)
    model, x = make()
    y = torch.randint(0, case["num_classes"], (case["batch"],))
    training = case["mode"] == "train"
    model.train(training)
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if compiled:
        torch._dynamo.reset()
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    cast = (lambda: torch.autocast("cpu", torch.bfloat16)) if case["precision"] == "bf16" else contextlib.nullcontext

    def step():
        if not training:
            with torch.no_grad(), cast():
                model(x)
            return
        with cast():
            loss = F.cross_entropy(model(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    for _ in range(3):
        step()
    times, end = [], time.perf_counter() + case["seconds"] / 2
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return case["batch"] / sorted(times)[len(times) // 2], first


peaks, results = [], []
layouts = (False, True) if len(case["input"]) == 3 else (False,)
for layout in layouts:
    results.append(measure(layout))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
if case.get("compile"):
    for layout in layouts:
        try:
            results.append(measure(layout, compiled=True))
        except Exception as error:  # no compiler, or a network that it cannot do: the others stand
            print(f"torch.compile failed: {str(error).splitlines()[0]}", file=sys.stderr)
best = max(results)
# The peak only ever grows: the first layout's is one layout's own. Compiled ones follow the layouts.
print(json.dumps({"samples_per_s": best[0], "first_step_s": results[0][1], "peak_bytes": peaks[0],
                  "layouts": [r[0] for r in results]}))
