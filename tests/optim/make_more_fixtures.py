"""Writes expected_more.json: 20 steps of PyTorch's other optimizers, of Lamb by its paper's formulas,
of moving averages, and the rates of the other schedules.

Run with a Python that has torch and numpy:
    python3 tests/optim/make_more_fixtures.py > tests/optim/expected_more.json
"""
import json
import math

import numpy as np
import torch
from torch.optim import lr_scheduler, swa_utils

START = [[0.5, -1.25, 2.0], [0.0, 3.5, -0.75]]
STEPS = 20


def gradient(step):
    return [[math.sin(1.7 * step + 0.9 * i + 2.3 * j) for j in range(3)] for i in range(2)]


def flat(rows):
    return [float(f"{x:.9g}") for row in rows for x in row]


def run(kind, **options):
    given = dict(options)
    if "beta1" in options or "beta2" in options:
        options["betas"] = options.pop("beta1", 0.9), options.pop("beta2", 0.999)
    p = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    opt = getattr(torch.optim, kind)([p], foreach=False, **options)
    after = []
    for step in range(STEPS):
        p.grad = torch.tensor(gradient(step), dtype=torch.float64)
        opt.step()
        after.append(flat(p.tolist()))
    return dict(kind=kind, options=given, after=after)


def lamb(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0, start=START):
    """You et al., "Large batch optimization for deep learning" (2020), algorithm 2, phi the identity."""
    x = np.array(start)
    m, v, after = np.zeros_like(x), np.zeros_like(x), []
    for t in range(1, STEPS + 1):
        g = np.array(gradient(t - 1))
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        r = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
        u = r + weight_decay * x
        size, length = np.linalg.norm(x), np.linalg.norm(u)
        x = x - lr * (size / length if size > 0 and length > 0 else 1.0) * u
        after.append(flat(x.tolist()))
    return dict(kind="Lamb", options=dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay),
                start=flat(start), after=after)


def ema(decay):
    model = torch.nn.Linear(3, 2, bias=False).double()
    averaged = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(decay))
    after = []
    for step in range(6):
        with torch.no_grad():
            model.weight.copy_(torch.tensor(START, dtype=torch.float64) +
                               torch.tensor(gradient(step), dtype=torch.float64))
        averaged.update_parameters(model)
        after.append(flat(averaged.module.weight.tolist()))
    return dict(decay=decay, after=after)


def optimizer(lr):
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr, momentum=0.9)


def rates(opt, sched, steps):
    lrs = []
    for _ in range(steps):
        lrs.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step()
    return lrs


def schedule(kind, steps, lr=0.1, **options):
    opt = optimizer(lr)
    return dict(kind=kind, lr=lr, options=options,
                lrs=rates(opt, getattr(lr_scheduler, kind)(opt, **options), steps))


def warmup(warmup_steps, total_steps, steps, lr=0.1):
    """get_linear_schedule_with_warmup of Hugging Face's transformers."""
    def factor(step):
        if step < warmup_steps:
            return step / max(1, warmup_steps)
        return max(0.0, (total_steps - step) / max(1, total_steps - warmup_steps))
    opt = optimizer(lr)
    return dict(kind="LinearWarmupLR", lr=lr, options=dict(warmup_steps=warmup_steps, total_steps=total_steps),
                lrs=rates(opt, lr_scheduler.LambdaLR(opt, factor), steps))


def sequential(steps=16, lr=0.1):
    opt = optimizer(lr)
    parts = [lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=4),
             lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=5),
             lr_scheduler.ExponentialLR(opt, gamma=0.5)]
    return rates(opt, lr_scheduler.SequentialLR(opt, parts, milestones=[4, 11]), steps)


def plateau(metrics, lr=0.1, **options):
    opt = optimizer(lr)
    sched = lr_scheduler.ReduceLROnPlateau(opt, **options)
    lrs = []
    for m in metrics:
        sched.step(m)
        lrs.append(opt.param_groups[0]["lr"])
    return dict(lr=lr, options=options, metrics=[m if m == m else "nan" for m in metrics], lrs=lrs)


falling = [1.0, 0.9, 0.9, 0.89995, 0.91, 0.8, 0.81, 0.82, 0.83, 0.84, 0.85, 0.86, 0.87, 0.88, 0.5, 0.6, 0.6, 0.6]
print(json.dumps(dict(
    start=flat(START), gradients=[flat(gradient(s)) for s in range(STEPS)],
    optimizers=[
        run("SGD", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05),
        run("Adam", lr=0.05, amsgrad=True),
        run("Adam", lr=0.05, beta1=0.8, beta2=0.5, amsgrad=True, weight_decay=0.1),
        run("AdamW", lr=0.05, beta2=0.5, amsgrad=True, weight_decay=0.1),
        run("AdamW", lr=0.05),
        run("RMSprop"), run("RMSprop", lr=0.02, alpha=0.9, eps=1e-3, weight_decay=0.05),
        run("RMSprop", lr=0.02, momentum=0.7), run("RMSprop", lr=0.02, alpha=0.8, centered=True, eps=1e-2),
        run("RMSprop", lr=0.02, alpha=0.8, momentum=0.5, centered=True, eps=1e-2, weight_decay=0.1),
        run("Adagrad"), run("Adagrad", lr=0.1, lr_decay=0.1, weight_decay=0.05),
        run("Adagrad", lr=0.1, initial_accumulator_value=0.5, eps=1e-3),
        run("Adadelta"), run("Adadelta", lr=0.7, rho=0.8, eps=1e-3, weight_decay=0.05),
        run("Adamax"), run("Adamax", lr=0.05, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.1),
        run("NAdam"), run("NAdam", lr=0.05, beta1=0.8, beta2=0.95, eps=1e-3, weight_decay=0.1),
        run("NAdam", lr=0.05, momentum_decay=0.1, decoupled_weight_decay=True, weight_decay=0.1),
        run("RAdam"), run("RAdam", lr=0.05, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.1),
        run("RAdam", lr=0.05, decoupled_weight_decay=True, weight_decay=0.1),
        lamb(), lamb(lr=0.05, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.1),
        lamb(lr=0.05, start=[[0.0] * 3] * 2),
    ],
    ema=[ema(0.9), ema(0.0), ema(1.0)],
    schedules=[
        schedule("MultiStepLR", 12, milestones=[2, 5, 5, 9], gamma=0.5),
        schedule("ExponentialLR", 8, gamma=0.8),
        schedule("ConstantLR", 8), schedule("ConstantLR", 6, factor=0.5, total_iters=3),
        schedule("LinearLR", 8), schedule("LinearLR", 12, start_factor=0.1, end_factor=0.8, total_iters=9),
        schedule("PolynomialLR", 8), schedule("PolynomialLR", 12, total_iters=10, power=2.5),
        schedule("CosineAnnealingWarmRestarts", 14, T_0=4),
        schedule("CosineAnnealingWarmRestarts", 25, T_0=3, T_mult=2, eta_min=0.01),
        schedule("CosineAnnealingLR", 25, T_max=7, eta_min=0.01),
        schedule("StepLR", 9, step_size=2),
        warmup(3, 10, 13), warmup(0, 5, 7), warmup(4, 4, 6),
    ],
    sequential=sequential(),
    plateaus=[
        plateau(falling, patience=2), plateau(falling, patience=0, factor=0.5, cooldown=2),
        plateau([-m for m in falling], mode="max", patience=1, threshold=0.2),
        plateau(falling, patience=1, threshold=0.3, threshold_mode="abs", min_lr=0.002),
        plateau([-m for m in falling], mode="max", patience=1, threshold=0.05, threshold_mode="abs"),
        plateau([1.0, math.nan, math.nan, 0.5, math.nan], patience=1),
        plateau([1.0] * 8, lr=1e-7, patience=0),
    ]), indent=None, separators=(",", ":")))
