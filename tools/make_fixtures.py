#!/usr/bin/env python3
"""Writes tests/fixtures/torch: what PyTorch computes for the cases of tests/torch/op_table.py and of
tests/torch/modules.py, ten training steps of two networks (tests/torch/training.py) and a file of
every dtype.

    python3 tools/make_fixtures.py [GROUP ...]      (needs torch, torchvision, numpy, safetensors)

Every file is in the safetensors format. The metadata key "cases" holds a JSON list of
    {"id", "op", "args", "in": [input], "out": [expected], "grad": [expected or null], "k"}
or {"id", "op", "args", "in", "error": true} where PyTorch raises.
An input is a tensor's name in the file, {"gen": ...} (see `generate`), {"scalar": number} or null.
An expected value is a tensor's name or, for large results, a digest (see `Writer.expected`).
"up" says which outputs the gradients come from: output number i has the upstream gradient
generate(shape, UPSTREAM_SEED + i, bits=8).
"""
import json
import math
import pathlib
import sys
import zlib

import numpy as np
import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "fixtures" / "torch"
sys.path.insert(0, str(ROOT / "tests" / "torch"))

UPSTREAM_SEED = 1000
MAX_STORED = 700  # elements; larger results are stored as a digest
SAMPLES = 24
DTYPES = {
    "bool": torch.bool, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64,
    "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
    "float64": torch.float64,
}
NAME_OF = {v: k for k, v in DTYPES.items()}


def hash32(count, seed):
    """A hash of 0 .. count - 1 under a seed; the C++ side computes the same integers."""
    h = np.arange(count, dtype=np.uint32) + np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    return h ^ (h >> np.uint32(16))


def generate(shape, seed, bits=24, scale=1.0, offset=0.0, dtype="float32"):
    """offset + scale * u, u one of 2^bits steps of [-1, 1). Exact before the last rounding if offset
    is 0 or scale is a power of two, and so the same bits in every language."""
    half = 1 << (bits - 1)
    u = (hash32(math.prod(shape), seed) >> np.uint32(32 - bits)).astype(np.int64) - half
    values = offset + float(np.float32(scale)) * (u / half)
    if dtype != "float64":
        values = values.astype(np.float32)
    return torch.from_numpy(values.reshape(shape)).to(DTYPES[dtype])


class Generated:
    """An input that both sides compute instead of storing it."""

    def __init__(self, shape, seed, **options):
        self.spec = dict(shape=list(shape), seed=seed, **options)
        self.tensor = generate(shape, seed, **options)


def random(shape, dtype="float32", low=-2.0, high=2.0, seed=0):
    """Stored random values; for integers `low` and `high` are both included."""
    key = zlib.crc32(repr((tuple(shape), dtype, low, high, seed)).encode())
    rng = np.random.default_rng(key)
    if dtype == "bool":
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool).reshape(shape))
    if dtype in ("uint8", "int32", "int64"):
        low = max(low, 0) if dtype == "uint8" else low
        values = rng.integers(int(low), int(high) + 1, shape)
    else:
        values = rng.uniform(low, high, shape)
    return torch.from_numpy(np.asarray(values).reshape(shape)).to(DTYPES[dtype])


def plain(value):
    """JSON has no infinities: they and NaN travel as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


class Writer:
    """Collects cases and tensors of one file; equal tensors are stored once."""

    def __init__(self):
        self.tensors, self.names, self.cases = {}, {}, []

    def store(self, t):
        t = torch.empty(t.shape, dtype=t.dtype).copy_(t.detach())  # plain row-major strides
        raw = t.flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b""
        key = (t.dtype, tuple(t.shape), raw)
        if key not in self.names:
            self.names[key] = f"t{len(self.names)}"
            self.tensors[self.names[key]] = t
        return self.names[key]

    def input(self, v):
        if v is None:
            return None
        if isinstance(v, Generated):
            return {"gen": v.spec}
        if isinstance(v, torch.Tensor):
            return self.store(v)
        return {"scalar": plain(v)}

    def expected(self, t):
        if t.numel() <= MAX_STORED:
            return self.store(t)
        flat = t.detach().flatten()
        at = torch.from_numpy(hash32(SAMPLES, 77).astype(np.int64) % flat.numel())
        exact = flat.to(torch.float64)
        return dict(shape=list(t.shape), dtype=NAME_OF[t.dtype], at=self.store(at),
                    values=self.store(flat[at]), sum=float(exact.sum()),
                    sumsq=float((exact * exact).sum()))

    def save(self, name, **metadata):
        path = OUT / f"{name}.safetensors"
        text = json.dumps(self.cases, separators=(",", ":"))
        save_file(self.tensors, str(path), metadata={"cases": text, **metadata})
        path.chmod(0o644)
        size = path.stat().st_size
        assert size < 1 << 20, f"{path} has {size} bytes"
        print(f"{name}: {len(self.cases)} cases, {size} bytes")
        return size


class Table(Writer):
    """What op_table.py calls: case(op, *inputs, **args).

    `_k`: length of the longest sum of products; `_grad`: False, or the inputs to differentiate."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions
        self.faults = []  # cases that PyTorch refuses unexpectedly, or unexpectedly takes

    def __call__(self, op, *inputs, _k=1, _grad=True, **args):
        tensors = [v.tensor if isinstance(v, Generated) else v for v in inputs]
        leaves = []
        for i, t in enumerate(tensors):
            if isinstance(t, torch.Tensor):
                wanted = _grad is True or (_grad is not False and i in _grad)
                leaves.append(t.clone().requires_grad_(wanted and t.is_floating_point()))
            else:
                leaves.append(t)
        label = " ".join(
            f"{NAME_OF[t.dtype]}{list(t.shape)}".replace(" ", "") if isinstance(t, torch.Tensor)
            else str(t) for t in tensors)
        text = json.dumps({k: plain(v) for k, v in args.items()}, separators=(",", ":"))
        case = dict(id=f"{op}({label}) {text} #{len(self.cases)}", op=op, args=json.loads(text))
        case["in"] = [self.input(v) for v in inputs]
        self.cases.append(case)
        try:
            out = self.functions[op](*leaves, **args)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            if not args.get("raises"):
                self.faults.append(f"{case['id']}: {error}")
            case["error"] = True
            return
        if args.get("raises"):
            self.faults.append(case["id"] + ": PyTorch takes it")
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        case["out"] = [self.expected(t) for t in outs]
        case["k"] = _k
        ups = [t.requires_grad for t in outs]
        if any(ups):
            case["up"] = ups
            total = [(t, generate(t.shape, UPSTREAM_SEED + i, bits=8, dtype=NAME_OF[t.dtype]))
                     for i, t in enumerate(outs) if t.requires_grad]
            torch.autograd.backward([t for t, _ in total], [g for _, g in total])
            case["grad"] = []
            for t in leaves:
                wanted = isinstance(t, torch.Tensor) and t.requires_grad
                g = (torch.zeros_like(t) if t.grad is None else t.grad) if wanted else None
                case["grad"].append(self.expected(g) if wanted else None)


def every_dtype():
    """A file that Python's safetensors wrote: every dtype, 0-d, empty, odd and larger shapes."""
    tensors = {}
    for number, name in enumerate(DTYPES):
        for shape in ([], [0], [3, 0, 2], [7], [2, 3, 5], [33, 65]):
            t = generate(shape, number, bits=8, scale=64.0, offset=64.0)
            key = ".".join([name, *map(str, shape)]) or name
            tensors[key] = (t > 64) if name == "bool" else t.to(DTYPES[name])
    path = OUT / "every_dtype.safetensors"
    save_file(tensors, str(path), metadata={"format": "pt"})  # one key: their order is not fixed
    path.chmod(0o644)


def main():
    import op_table
    import training
    torch.manual_seed(0)
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:]
    for group, build in op_table.groups().items():
        if not wanted or group in wanted:
            table = Table(op_table.FUNCTIONS)
            build(table)
            assert not table.faults, "\n".join([group] + table.faults)
            table.save(group)
    if not wanted or "every_dtype" in wanted:
        every_dtype()
    if not wanted or "modules" in wanted:
        import modules
        writer = Writer()
        modules.run(writer)
        writer.save("modules")
    for name in training.CURVES:
        if not wanted or name in wanted:
            writer = Writer()
            training.run(name, writer, generate, hash32)
            writer.save(name)
    total = sum(p.stat().st_size for p in OUT.glob("*.safetensors"))
    assert total < 4 << 20, f"{total} bytes in all"
    print(f"{total} bytes in all")


if __name__ == "__main__":
    sys.modules["make_fixtures"] = sys.modules["__main__"]  # the tables import it
    main()
