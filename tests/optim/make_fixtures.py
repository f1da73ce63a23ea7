"""Writes expected.json: what PyTorch's optimizers and schedules do with given gradients.

Run with a Python that has torch: python3 tests/optim/make_fixtures.py > tests/optim/expected.json
"""
import json
import math

import torch
from torch.optim import lr_scheduler

START = [[0.5, -1.25, 2.0], [0.0, 3.5, -0.75]]
STEPS = 6


def gradient(step):
    return [[math.sin(1.7 * step + 0.9 * i + 2.3 * j) for j in range(3)] for i in range(2)]


def run(kind, schedule=None, **options):
    p = torch.tensor(START, requires_grad=True)
    opt = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}[kind](
        [p], foreach=False, **options)
    sched = None
    if schedule:
        sched = lr_scheduler.OneCycleLR(opt, **schedule)
    after = []
    for step in range(STEPS):
        p.grad = torch.tensor(gradient(step))
        opt.step()
        if sched:
            sched.step()
        after.append([x for row in p.tolist() for x in row])
    if "betas" in options:
        options["beta1"], options["beta2"] = options.pop("betas")
    return dict(kind=kind, options=options, one_cycle=schedule, after=after)


def schedule(kind, steps, lr=0.1, momentum=0.9, **options):
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr, momentum=momentum)
    sched = {"StepLR": lr_scheduler.StepLR, "CosineAnnealingLR": lr_scheduler.CosineAnnealingLR,
             "OneCycleLR": lr_scheduler.OneCycleLR}[kind](opt, **options)
    lrs, momenta = [], []
    for _ in range(steps):
        lrs.append(opt.param_groups[0]["lr"])
        momenta.append(opt.param_groups[0]["momentum"])
        opt.step()
        sched.step()
    return dict(kind=kind, lr=lr, momentum=momentum, options=options, lrs=lrs, momenta=momenta)


print(json.dumps(dict(
    start=[x for row in START for x in row],
    gradients=[[x for row in gradient(s) for x in row] for s in range(STEPS)],
    optimizers=[
        run("SGD", lr=0.1),
        run("SGD", lr=0.1, weight_decay=0.05),
        run("SGD", lr=0.1, momentum=0.9),
        run("SGD", lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05),
        run("SGD", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05),
        run("SGD", lr=0.1, momentum=0.9,
            schedule=dict(max_lr=0.2, total_steps=6, cycle_momentum=True)),
        run("Adam", lr=0.05),
        run("Adam", lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
        run("Adam", lr=0.05, schedule=dict(max_lr=0.1, total_steps=6, cycle_momentum=True)),
        run("AdamW", lr=0.05),
        run("AdamW", lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.2),
    ],
    schedules=[
        schedule("StepLR", 12, step_size=4, gamma=0.5),
        schedule("CosineAnnealingLR", 11, T_max=10, eta_min=0.01),
        schedule("OneCycleLR", 20, max_lr=0.5, total_steps=20),
        schedule("OneCycleLR", 17, max_lr=0.5, total_steps=17, pct_start=0.4, div_factor=10,
                 final_div_factor=100, base_momentum=0.7, max_momentum=0.8),
        schedule("OneCycleLR", 9, max_lr=0.5, total_steps=9, cycle_momentum=False),
    ]), indent=None, separators=(",", ":")))
