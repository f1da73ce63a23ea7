#!/usr/bin/env python3
"""Checks that Python reads a safetensors file that Pippin wrote.

    python3 tools/check_weights.py FILE [OTHER] [--model NAME]

OTHER: a file with the same names, dtypes, shapes and bits. --model: a torchvision model whose
load_state_dict must take the weights (the number of classes is read off the last one).
"""
import argparse
import sys

import torch
from safetensors.torch import load_file


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
    tensors = load_file(args.file)
    faults = list(differences(tensors, load_file(args.other))) if args.other else []
    if args.model:
        import torchvision
        classes = tensors[list(torchvision.models.get_model(args.model).state_dict())[-1]].shape[0]
        model = torchvision.models.get_model(args.model, num_classes=classes)
        model.load_state_dict(tensors)
        faults += differences(tensors, model.state_dict())
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{args.file}: {len(tensors)} tensors, {len(faults)} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
