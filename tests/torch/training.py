"""Ten training steps of two networks with two optimizers, for tools/make_fixtures.py.

Weights and batches come from `generate`, so that nothing large is stored. The steps are chosen so that
PyTorch's own float32 and float64 agree to a tenth of what the test allows (`check`): an
implementation that computes the same must then agree too.
"""
import math

import torch
import torchvision

STEPS, BATCH, BATCHES, CLASSES = 10, 8, 3, 10
LOSS_TOLERANCE, PARAMETER_TOLERANCE, CHANGE_TOLERANCE = 1e-4, 1e-3, 5e-2
SAMPLES = 8


def lenet5():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, CLASSES))


def resnet18():
    return torchvision.models.resnet18(num_classes=CLASSES)


CURVES = {
    "lenet5_sgd": dict(model="lenet5", image=[1, 28, 28], optimizer="SGD",
                       options=dict(lr=0.05, momentum=0.9, weight_decay=5e-4)),
    "lenet5_adamw": dict(model="lenet5", image=[1, 28, 28], optimizer="AdamW",
                         options=dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.05)),
    "resnet18_sgd": dict(model="resnet18", image=[3, 32, 32], optimizer="SGD",
                         options=dict(lr=1e-4, momentum=0.9, weight_decay=5e-4)),
    "resnet18_adamw": dict(model="resnet18", image=[3, 32, 32], optimizer="AdamW",
                           options=dict(lr=3e-5, beta1=0.9, beta2=0.999, eps=1e-5, weight_decay=0.05)),
}


def initial(name, tensor, number):
    """The formula's arguments for one parameter or buffer of floating point."""
    if name.endswith("running_mean"):
        return dict(seed=number, scale=0.0, offset=0.0)
    if name.endswith("running_var"):
        return dict(seed=number, scale=0.0, offset=1.0)
    if tensor.dim() == 1:  # of a norm or a bias
        return dict(seed=number, scale=2.0**-4, offset=1.0 if name.endswith("weight") else 0.0)
    return dict(seed=number, scale=math.sqrt(3.0 / (tensor.numel() / tensor.shape[0])), offset=0.0)


def make(config, generate, dtype):
    model = {"lenet5": lenet5, "resnet18": resnet18}[config["model"]]()
    specs = []
    with torch.no_grad():
        for number, (name, t) in enumerate(model.state_dict().items()):
            if t.is_floating_point():
                specs.append(dict(name=name, shape=list(t.shape), **initial(name, t, number)))
                arguments = {k: v for k, v in specs[-1].items() if k != "name"}
                t.copy_(generate(**arguments))
    return model.to(dtype), specs


def batch_of(config, number, generate, hash32):
    """Images of coarse patches under fine noise: unlike plain noise, they differ from each other in
    deep layers too, whose batch norms would blow up rounding otherwise. And their classes."""
    c, h, w = config["image"]
    coarse = generate([BATCH, c, 4, 1, 4, 1], 5000 + number)
    x = coarse.expand(BATCH, c, 4, h // 4, 4, w // 4).reshape(BATCH, c, h, w)
    x = x + generate([BATCH, c, h, w], 5500 + number, scale=0.25)
    return x, torch.from_numpy((hash32(BATCH, 6000 + number) % CLASSES).astype("int64"))


def train(config, generate, hash32, dtype):
    model, specs = make(config, generate, dtype)
    options = dict(config["options"])
    if "beta1" in options:
        options["betas"] = options.pop("beta1"), options.pop("beta2")
    optimizer = getattr(torch.optim, config["optimizer"])(model.parameters(), **options)
    losses = []
    for step in range(STEPS):
        x, y = batch_of(config, step % BATCHES, generate, hash32)
        loss = torch.nn.functional.cross_entropy(model(x.to(dtype)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict(), specs


def digest(t, spec, generate, hash32):
    """What the test compares of a tensor after the last step."""
    start = generate(**{k: v for k, v in spec.items() if k != "name"}).double()
    t = t.detach().double()
    flat, n = t.flatten(), t.numel()
    at = hash32(SAMPLES, 88).astype("int64") % n
    probe = generate([n], 99).double()  # a direction of its own, beside the sampled elements
    change = (t - start).flatten()
    return dict(values=[float(flat[i]) for i in at], mean=float(flat.mean()), norm=float(flat.norm()),
                change=float(change.norm()), along=float(change @ probe))


def check(name, losses, losses64, names, digests, digests64):
    """PyTorch's float32 against its float64: within a tenth of each tolerance."""
    worst = dict(loss=(0.0, ""), parameter=(0.0, ""), change=(0.0, ""))

    def saw(kind, error, where):
        worst[kind] = max(worst[kind], (error, where))

    for step, (a, b) in enumerate(zip(losses, losses64)):
        saw("loss", abs(a - b) / max(1e-30, abs(b)) / LOSS_TOLERANCE, f"step {step}")
    for tensor, a, b in zip(names, digests, digests64):
        for x, y in zip(a["values"] + [a["mean"], a["norm"]], b["values"] + [b["mean"], b["norm"]]):
            saw("parameter", abs(x - y) / max(1, abs(y)) / PARAMETER_TOLERANCE, tensor)
        # A float32 weight itself is no finer than a part of its size.
        size = max(b["change"], 1e-4 * b["norm"], 1e-6)
        for key in ("change", "along"):
            saw("change", abs(a[key] - b[key]) / size / CHANGE_TOLERANCE, tensor)
    print(name, "losses", " ".join(f"{v:.4f}" for v in losses))
    print("  float32 off float64, in tolerances:",
          ", ".join(f"{kind} {error:.2g} ({where})" for kind, (error, where) in worst.items()))
    assert max(worst.values())[0] <= 0.1, f"{name} is too sensitive to rounding: choose a smaller step"


def run(name, writer, generate, hash32):
    config = CURVES[name]
    results = []
    for dtype in (torch.float32, torch.float64):
        losses, state, specs = train(config, generate, hash32, dtype)
        results.append((losses, [digest(state[s["name"]], s, generate, hash32) for s in specs]))
    check(name, results[0][0], results[1][0], [s["name"] for s in specs], results[0][1], results[1][1])
    counters = {k: int(v) for k, v in state.items() if not v.is_floating_point()}
    # The float64 run is the reference: float32's own rounding is in the tolerance.
    writer.cases.append(dict(
        **config, losses=results[1][0], counters=counters, names=list(state),
        state=[dict(start=s, **d) for s, d in zip(specs, results[1][1])]))
