#!/usr/bin/env python3
"""Writes what the networks of models/ are compared with: tests/models/names (every parameter's name and
shape) and tests/fixtures/models (logits, loss, every gradient and twenty training steps).

    python3 tools/make_model_fixtures.py [names | CASE ...]   (torch, torchvision, timm, transformers)

The numbers come from scaled-down configurations, with weights and batches from make_fixtures.generate,
and with dropout and stochastic depth off. A case is one JSON file:
    {"model", "config", "seed", "input", "optimizer", "options",     what to build and how to train it
     "state": [[name, scale, offset, grad norm, grad along], ...],
              weights are generate(shape, "seed" + position, scale, offset); of buffers the gradient is null
     "logits": in eval mode, "losses": of the steps, "gradient_tolerance", "loss_tolerance"}
"grad along" is the product with generate([n], PROBE_SEED). All come from float64. The
tolerances of gradients and losses are made from float32's own distance, since the input of a ReLU may
change sign by rounding.
"""
import json
import math
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tests" / "torch"))
from make_fixtures import generate, hash32  # noqa: E402

STEPS, BATCHES, CLASSES, PROBE_SEED = 20, 3, 10, 99
LOGITS = 1e-5  # the test's tolerance


# --- the reference's networks ---

def lenet5():
    from torch import nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, 10))


def bert(num_classes=2, **sizes):
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(num_labels=num_classes, attn_implementation="eager", **sizes)
    return BertForSequenceClassification(config)


MINILM = dict(hidden_size=384, num_hidden_layers=6, intermediate_size=1536)


def full_size(name):
    """The published network; on the meta device where it only has to be listed."""
    if name == "lenet5":
        return lenet5()
    if name in ("resnet50d", "convmixer_768_32"):
        import timm
        return timm.create_model(name)
    if name in ("bert_base", "minilm"):
        return bert(**(MINILM if name == "minilm" else {}))
    import torchvision
    return torchvision.models.get_model(name)


FULL_SIZE = (
    ["lenet5", "alexnet"] + [f"vgg{n}{bn}" for bn in ("", "_bn") for n in (11, 13, 16, 19)]
    + [f"resnet{n}" for n in (18, 34, 50, 101, 152)] + ["resnet50d", "convmixer_768_32"]
    + [f"efficientnet_b{n}" for n in range(8)] + ["vit_b_16", "vit_b_32", "vit_l_16", "bert_base", "minilm"])


# --- the same, scaled down ---

def small_alexnet(hidden):
    import torchvision
    from torch import nn
    model = torchvision.models.AlexNet(num_classes=CLASSES, dropout=0)
    model.classifier[1] = nn.Linear(256 * 6 * 6, hidden)
    model.classifier[4] = nn.Linear(hidden, hidden)
    model.classifier[6] = nn.Linear(hidden, CLASSES)
    return model


def small_vgg(layers, batch_norm, hidden):
    from torch import nn
    from torchvision.models import vgg
    features = vgg.make_layers([v or "M" for v in layers], batch_norm)
    model = vgg.VGG(features, num_classes=CLASSES, dropout=0)
    last = [v for v in layers if v][-1]
    model.classifier[0] = nn.Linear(last * 7 * 7, hidden)
    model.classifier[3] = nn.Linear(hidden, hidden)
    model.classifier[6] = nn.Linear(hidden, CLASSES)
    return model


def small_resnet(layers):
    from torchvision.models import resnet
    return resnet.ResNet(resnet.Bottleneck, layers, num_classes=CLASSES)


def small_resnet_d(layers, width):
    from timm.models import resnet
    return resnet.ResNet(resnet.Bottleneck, layers, num_classes=CLASSES, stem_type="deep", avg_down=True,
                         stem_width=width // 2, channels=tuple(width << i for i in range(4)))


def small_convmixer(dim, depth, kernel, patch):
    from timm.models.convmixer import ConvMixer
    return ConvMixer(dim, depth, kernel_size=kernel, patch_size=patch, num_classes=CLASSES,
                     act_layer=torch.nn.ReLU)


def small_efficientnet(width, depth, bn_eps, bn_momentum):
    from functools import partial
    from torchvision.models import efficientnet
    stages, last = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=width, depth_mult=depth)
    return efficientnet.EfficientNet(stages, 0.0, 0.0, CLASSES,
                                     partial(torch.nn.BatchNorm2d, eps=bn_eps, momentum=bn_momentum), last)


def small_vit(image_size, patch_size, layers, heads, hidden, mlp):
    from torchvision.models import VisionTransformer
    return VisionTransformer(image_size, patch_size, layers, heads, hidden, mlp, num_classes=CLASSES)


def small_bert(vocab_size, hidden_size, layers, heads, intermediate_size, max_positions):
    return bert(CLASSES, vocab_size=vocab_size, hidden_size=hidden_size, num_hidden_layers=layers,
                num_attention_heads=heads, intermediate_size=intermediate_size,
                max_position_embeddings=max_positions, hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0)


def sgd(lr, seed=0):
    return dict(seed=seed, optimizer="SGD", options=dict(lr=lr, momentum=0.9, weight_decay=5e-4))


def adamw(lr, seed=0):
    return dict(seed=seed, optimizer="AdamW", options=dict(lr=lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01))


VGG_LAYERS = [8, 0, 16, 0, 16, 16, 0, 24, 24, 0]
CASES = {
    "alexnet": dict(make=small_alexnet, config=dict(hidden=64), input=[4, 3, 64, 64], **sgd(5e-4)),
    "vgg": dict(make=small_vgg, config=dict(layers=VGG_LAYERS, batch_norm=False, hidden=32),
                input=[8, 3, 32, 32], **sgd(1e-2)),
    "vgg_bn": dict(make=small_vgg, config=dict(layers=VGG_LAYERS, batch_norm=True, hidden=32),
                   input=[8, 3, 32, 32], **sgd(2e-3)),
    "resnet_bottleneck": dict(make=small_resnet, config=dict(layers=[1, 1, 2, 1]), input=[8, 3, 64, 64],
                              **sgd(2e-5, seed=4000)),
    "resnet_d": dict(make=small_resnet_d, config=dict(layers=[2, 1, 1, 2], width=16), input=[8, 3, 64, 64],
                     **sgd(1e-5)),
    "convmixer": dict(make=small_convmixer, config=dict(dim=32, depth=3, kernel=7, patch=4),
                      input=[8, 3, 32, 32], **sgd(1e-3)),
    "efficientnet": dict(make=small_efficientnet,
                         config=dict(width=0.5, depth=0.6, bn_eps=1e-5, bn_momentum=0.1),
                         input=[8, 3, 64, 64], **sgd(1e-3)),
    "efficientnet_b5up": dict(make=small_efficientnet,
                              config=dict(width=0.25, depth=1.2, bn_eps=1e-3, bn_momentum=0.01),
                              input=[8, 3, 64, 64], **sgd(2e-4, seed=1000)),
    "vit": dict(make=small_vit,
                config=dict(image_size=32, patch_size=8, layers=3, heads=4, hidden=32, mlp=64),
                input=[8, 3, 32, 32], **adamw(1e-3)),
    "bert": dict(make=small_bert,
                 config=dict(vocab_size=97, hidden_size=32, layers=3, heads=4, intermediate_size=64,
                             max_positions=20), input=[8, 16], **adamw(1e-3)),
}


# --- what both sides compute ---

def start(name, t):
    """Scale and offset of a tensor's first values. Running statistics are not 0 and 1, so that
    evaluation depends on them."""
    if name.endswith("running_mean"):
        return 2.0**-4, 0.0
    if name.endswith("running_var"):
        return 2.0**-2, 1.0
    if t.dim() == 0:  # a counter
        return 0.0, 0.0
    if t.dim() == 1:  # of a norm or a bias
        return 2.0**-4, 1.0 if name.endswith("weight") else 0.0
    if "embedding" in name or name == "class_token":
        return 0.5, 0.0
    return math.sqrt(3.0 / (t.numel() / t.shape[0])), 0.0


def batch_of(shape, number, config):
    """Images of coarse patches under fine noise (see training.py), or token ids with their mask and
    types; and classes."""
    y = torch.from_numpy((hash32(shape[0], 6000 + number) % CLASSES).astype("int64"))
    if len(shape) == 4:
        n, c, h, w = shape
        coarse = generate([n, c, 4, 1, 4, 1], 5000 + number)
        x = coarse.expand(n, c, 4, h // 4, 4, w // 4).reshape(n, c, h, w)
        return (x + generate([n, c, h, w], 5500 + number, scale=0.25),), y
    n, length = shape
    # Ids from 0, the padding's, which has no gradient, on; sample i has 3 + 2 i tokens, if there is room.
    ids = torch.from_numpy((hash32(n * length, 5000 + number) % config["vocab_size"]).astype("int64"))
    lengths = torch.clamp(3 + 2 * torch.arange(n), max=length)
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    types = (torch.arange(length)[None] >= (lengths // 2)[:, None]).long()
    return (ids.reshape(n, length), mask, types), y


def forward(model, x):
    if len(x) == 3:
        return model(input_ids=x[0], attention_mask=x[1], token_type_ids=x[2]).logits
    return model(x[0])


def reference(case, dtype):
    model = case["make"](**case["config"])
    state = model.state_dict()
    starts = []
    with torch.no_grad():
        for number, (name, t) in enumerate(state.items()):
            scale, offset = start(name, t)
            if t.is_floating_point():
                t.copy_(generate(list(t.shape), case["seed"] + number, scale=scale, offset=offset))
            starts.append([name, scale, offset])
    model = model.to(dtype)
    batches = [batch_of(case["input"], i, case["config"]) for i in range(BATCHES)]
    batches = [(tuple(t.to(dtype) if t.is_floating_point() else t for t in x), y) for x, y in batches]
    with torch.no_grad():
        logits = forward(model.eval(), batches[0][0]).flatten().tolist()
    options = dict(case["options"])
    if "beta1" in options:
        options["betas"] = options.pop("beta1"), options.pop("beta2")
    optimizer = getattr(torch.optim, case["optimizer"])(model.train().parameters(), **options)
    losses, gradients = [], {}
    for step in range(STEPS):
        x, y = batches[step % BATCHES]
        loss = torch.nn.functional.cross_entropy(forward(model, x), y)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            for name, p in model.named_parameters():
                g = p.grad.double().flatten()
                gradients[name] = [float(g.norm()), float(g @ generate([g.numel()], PROBE_SEED).double())]
        optimizer.step()
    has_relu = any(isinstance(m, torch.nn.ReLU) for m in model.modules())
    state = [s + gradients.get(s[0], [None, None]) for s in starts]
    return dict(has_relu=has_relu, state=state, logits=logits, losses=losses)


def check(name, a, b):
    """Float32 against float64. Whether float32 is near enough; sets the tolerances."""
    worst = dict(logits=(0.0, ""), gradient=(0.0, ""), loss=(0.0, ""))

    def saw(kind, error, where):
        worst[kind] = max(worst[kind], (error, where))

    size = max(map(abs, b["logits"]))
    for x, y in zip(a["logits"], b["logits"]):
        saw("logits", abs(x - y) / size, "")
    largest = max(s[3] for s in b["state"] if s[3] is not None)
    for x, y in zip(a["state"], b["state"]):
        if y[3] is not None:
            size = max(y[3], 1e-3 * largest)
            saw("gradient", max(abs(x[3] - y[3]), abs(x[4] - y[4])) / size, y[0])
    for i, (x, y) in enumerate(zip(a["losses"], b["losses"])):
        saw("loss", abs(x - y) / y, f"step {i}")
    print(name, "losses", " ".join(f"{v:.3f}" for v in b["losses"]))
    print("  float32 off float64:",
          ", ".join(f"{kind} {error:.2g} ({where})" for kind, (error, where) in worst.items()), flush=True)
    b["gradient_tolerance"] = (2e-3 if b.pop("has_relu") else 2e-4) + 4 * worst["gradient"][0]
    b["loss_tolerance"] = 1e-4 + 4 * worst["loss"][0]
    return worst["logits"][0] <= LOGITS / 5 and worst["loss"][0] < 5e-4 and worst["gradient"][0] < 5e-4


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return value


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    wanted = sys.argv[1:] or ["names"] + list(CASES)
    if "names" in wanted:
        folder = ROOT / "tests" / "models" / "names"
        folder.mkdir(exist_ok=True)
        for name in FULL_SIZE:
            with torch.device("meta"):
                model = full_size(name)
            lines = [" ".join([k] + [str(d) for d in v.shape]) for k, v in model.state_dict().items()]
            count = sum(p.numel() for p in model.parameters())
            (folder / f"{name}.txt").write_text("\n".join([str(count)] + lines) + "\n")
    folder, failed = ROOT / "tests" / "fixtures" / "models", []
    folder.mkdir(exist_ok=True)
    for name, case in CASES.items():
        if name not in wanted:
            continue
        results = [reference(case, dtype) for dtype in (torch.float32, torch.float64)]
        if not check(name, *results):
            failed.append(name)
            continue
        case = {k: v for k, v in case.items() if k != "make"}
        state = results[1].pop("state")
        head = json.dumps(rounded(dict(model=name, **case, **{k: rounded(v) for k, v in results[1].items()})))
        lines = ",\n".join(json.dumps(rounded(s)) for s in state)  # a line for each tensor
        (folder / f"{name}.json").write_text(head[:-1] + ',\n"state": [\n' + lines + "\n]}\n")
    assert not failed, f"too sensitive to rounding, not written: {failed}"


if __name__ == "__main__":
    main()
