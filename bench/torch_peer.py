"""The PyTorch side of `pippin bench --compare torch`: one measurement, as one line of JSON.

Takes the case as JSON ({"model", "mode", "precision", "batch", "seconds", "threads"}), runs the same
training step or evaluation in contiguous and channels-last layout and prints the better one."""
import contextlib
import json
import resource
import sys
import time

case = json.loads(sys.argv[1])
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(case["threads"])


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, 10))


def make():
    if case["model"] == "lenet5":
        return lenet5(), torch.randn(case["batch"], 1, 28, 28), 10
    import torchvision
    return torchvision.models.get_model(case["model"]), torch.randn(case["batch"], 3, 224, 224), 1000


def measure(channels_last):
    torch.manual_seed(0)
    model, x, classes = make()
    y = torch.randint(0, classes, (case["batch"],))
    training = case["mode"] == "train"
    model.train(training)
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
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
for layout in (False, True):
    results.append(measure(layout))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
best = max(results)
# The peak only ever grows: the first layout's is one layout's own.
print(json.dumps({"samples_per_s": best[0], "first_step_s": results[0][1], "peak_bytes": peaks[0],
                  "contiguous": results[0][0], "channels_last": results[1][0]}))
