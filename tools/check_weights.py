#!/usr/bin/env python3
"""Checks that Python reads weights that Pippin wrote.

    python3 tools/check_weights.py FILE [OTHER] [--model NAME]

FILE and OTHER: a safetensors file, a folder or an index of shards, or a PyTorch .pt file (read with
weights_only). OTHER has the same names, dtypes, shapes and bits. --model: a torchvision model whose
load_state_dict must take the weights (the number of classes is read off the last one), or the folder
of a Hugging Face model, whose class takes them.
"""
import argparse
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file


def load(name):
    path = pathlib.Path(name)
    if path.is_dir():
        whole, index = path / "model.safetensors", path / "model.safetensors.index.json"
        path = whole if whole.exists() else index
    if path.name.endswith(".index.json"):
        shards = set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
        return {k: v for shard in sorted(shards) for k, v in load_file(path.parent / shard).items()}
    if path.suffix in (".pt", ".pth", ".bin"):
        return torch.load(path, map_location="cpu", weights_only=True)
    return load_file(path)


def model_for(name, tensors):
    """A PyTorch model that has loaded the tensors, strictly."""
    if pathlib.Path(name).is_dir():
        import transformers
        config = transformers.AutoConfig.from_pretrained(name)
        if "classifier.bias" in tensors:
            config.num_labels = tensors["classifier.bias"].shape[0]
            model = transformers.AutoModelForSequenceClassification.from_config(config)
        else:
            model = transformers.AutoModel.from_config(config)
    else:
        import torchvision
        last = list(torchvision.models.get_model(name).state_dict())[-1]
        model = torchvision.models.get_model(name, num_classes=tensors[last].shape[0])
    model.load_state_dict(tensors)
    return model


def bits(t):
    return t.contiguous().reshape(-1).view(torch.uint8) if t.numel() else torch.empty(0, dtype=torch.uint8)


def differences(a, b):
    for name in sorted(a.keys() ^ b.keys()):
        yield f"{name}: only in one of the files"
    for name in sorted(a.keys() & b.keys()):
        x, y = a[name], b[name]
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            yield f"{name}: {x.dtype} {list(x.shape)} and {y.dtype} {list(y.shape)}"
        elif not torch.equal(bits(x), bits(y)):
            yield f"{name}: other values"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("other", nargs="?")
    parser.add_argument("--model")
    args = parser.parse_args()
    tensors = load(args.file)
    faults = list(differences(tensors, load(args.other))) if args.other else []
    if args.model:
        faults += differences(tensors, model_for(args.model, tensors).state_dict())
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{args.file}: {len(tensors)} tensors, {len(faults)} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
