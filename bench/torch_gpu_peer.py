"""The PyTorch side of bench/gpu.cpp, on the same GPU: the same lines of JSON. Modes as arguments: strict (no
TF32), tf32 (in convolutions), fp16 (autocast)."""
import contextlib
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda"


def report(name, value, unit):
    print(json.dumps({"name": name, "value": float(f"{value:.6g}"), "unit": unit}), flush=True)


def median_time(rounds, calls, f):
    f()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            f()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, 10))


class Block(nn.Module):
    def __init__(self, inner, planes, stride, bottleneck):
        super().__init__()
        out = planes * (4 if bottleneck else 1)
        shapes = ([(inner, planes, 1, 1), (planes, planes, 3, stride), (planes, out, 1, 1)] if bottleneck
                  else [(inner, planes, 3, stride), (planes, planes, 3, 1)])
        layers = []
        for i, (a, b, k, s) in enumerate(shapes):
            layers += [nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b)]
            if i + 1 < len(shapes):
                layers.append(nn.ReLU(inplace=True))
        self.body = nn.Sequential(*layers)
        self.skip = None
        if stride != 1 or inner != out:
            self.skip = nn.Sequential(nn.Conv2d(inner, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + (x if self.skip is None else self.skip(x)))


def resnet(depths, bottleneck):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for i, depth in enumerate(depths):
        for j in range(depth):
            layers.append(Block(inner, 64 << i, 2 if i > 0 and j == 0 else 1, bottleneck))
            inner = (64 << i) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000))


def make(name):
    """The network and a function that makes its input for a batch size."""
    if name == "lenet5":
        return lenet5(), lambda n: torch.randn(n, 1, 28, 28, device=device), 10
    image = lambda n: torch.randn(n, 3, 224, 224, device=device)
    if name == "bert_base":
        import transformers
        model = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=2))

        class Logits(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids):
                return self.model(input_ids=ids).logits

        return Logits(), lambda n: torch.randint(0, 30522, (n, 128), device=device), 2
    if name == "vgg16":
        import torchvision
        return torchvision.models.vgg16(), image, 1000
    return resnet([2, 2, 2, 2], False) if name == "resnet18" else resnet([3, 4, 6, 3], True), image, 1000


def model_speed(name, batch, train, suffix, fp16=False):
    torch.manual_seed(0)
    model, example, classes = make(name)
    model = model.to(device).train(train)
    x, y = example(batch), torch.randint(0, classes, (batch,), device=device)
    if fp16 and x.dim() == 4:  # the better layout there
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    cast = (lambda: torch.autocast("cuda", torch.float16)) if fp16 else contextlib.nullcontext

    def step():
        if train:
            optimizer.zero_grad()
            with cast():
                loss = F.cross_entropy(model(x).float(), y)
            loss.backward()
            optimizer.step()
        else:
            with torch.no_grad(), cast():
                model(x)

    title = f"{name} b{batch} {'train' if train else 'eval'}{suffix}"
    torch.cuda.reset_peak_memory_stats()
    step()
    once = median_time(3, 1, step)
    calls = max(1, min(200, int(0.4 / once)))
    report(title, batch / median_time(5, calls, step), "samples/s")
    report(title + " peak memory", torch.cuda.max_memory_allocated() / 2**20, "MiB")


for mode in sys.argv[1:] or ("strict", "tf32", "fp16"):
    tf32 = mode != "strict"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = tf32
    suffix = {"strict": "", "tf32": " (TF32 convolutions)", "fp16": " fp16"}[mode]
    if not tf32:
        for n in (1024, 4096, 8192):
            a, b = torch.rand(n, n, device=device), torch.rand(n, n, device=device)
            t = median_time(5, 3 if n > 4000 else 50, lambda: a @ b)
            report(f"matmul {n}", 2 * n**3 / t / 1e12, "TFLOP/s")
        x = torch.rand(1 << 28, device=device)
        z = torch.empty_like(x)
        report("copy-like program, 1 GB", 2 * (1 << 30) / median_time(5, 10, lambda: x + 1.0) / 1e9, "GB/s")
        report("device copy, 1 GB", 2 * (1 << 30) / median_time(5, 10, lambda: z.copy_(x)) / 1e9, "GB/s")
        report("sum, 1 GB", (1 << 30) / median_time(5, 10, lambda: x.sum()) / 1e9, "GB/s")
        report("softmax of rows of 1024, 1 GB",
               2 * (1 << 30) / median_time(5, 10, lambda: x.reshape(-1, 1024).softmax(1)) / 1e9, "GB/s")
        del x, z
    for name, batch in (("lenet5", 64), ("resnet18", 1), ("resnet18", 64), ("resnet50", 128),
                        ("vgg16", 64), ("bert_base", 64)):
        for train in (True, False):
            model_speed(name, batch, train, suffix, mode == "fp16")
