#!/usr/bin/env python3
"""Makes tests/fixtures/io/torch with PyTorch: checkpoints, and the same tensors as safetensors.

    python3 -m pip install torch safetensors
    python3 tools/make_checkpoint_fixtures.py

The files are checked in; run it again only to change them. They are repacked with fixed dates, so
that each run gives the same bytes.
"""
import io
import pathlib
import zipfile

import torch
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "io" / "torch"
DATE = (2000, 1, 1, 0, 0, 0)


def repack(data, path, deflate=False, change=lambda name, content: content):
    """Writes a zip file's entries again: `change` gives other contents, or None to leave one out."""
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            folder, _, rest = info.filename.partition("/")
            content = change(rest, old.read(info))
            if content is None:
                continue
            entry = zipfile.ZipInfo("archive/" + rest, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
            new.writestr(entry, content)


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def every_dtype():
    gen = torch.Generator().manual_seed(1)
    floats = torch.randn(3, 4, generator=gen)
    tensors = {str(t).removeprefix("torch."): floats.to(t)
               for t in (torch.float32, torch.float64, torch.float16, torch.bfloat16)}
    ints = torch.tensor([[-(2**31), 2**31 - 1], [7, -1]])
    tensors |= {"int64": ints * 3, "int32": ints.to(torch.int32),
                "uint8": torch.tensor([0, 127, 255], dtype=torch.uint8),
                "bool": torch.tensor([True, False, True]),
                "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4),
                "huge_empty": torch.zeros(0, 1 << 20)}
    return tensors


def views():
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    return {
        "base": base,
        "transposed": base.transpose(0, 2),
        "slice": base[:, 1:, ::2],
        "offset": base[1, 2],
        "expanded": base[0, 0].expand(3, 4),
        "column": base[:, :, 1],
        "element": base[1, 1, 1],
        "diagonal": base[0, :, :3].diagonal(),
        "channels_last": torch.arange(48.0).reshape(1, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    }


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.bn = torch.nn.BatchNorm2d(2)
        self.fc = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.bn(self.conv(x)).flatten(1))


def training():
    """What training scripts write: model, optimizer and counters, after one step."""
    torch.manual_seed(3)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    net(torch.randn(4, 1, 4, 4)).square().sum().backward()
    optimizer.step()
    return net, {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3, "best": 61.25, "name": "größe", "done": False, "note": None,
        "seed": 2**64 - 1, "low": -(2**31) - 5, "history": [0.5, 0.25], "size": torch.Size([2, 3]),
        "parameter": torch.nn.Parameter(torch.tensor([1.0, 2.0])),
        "nested": {"list": [torch.tensor([1]), (torch.tensor([2]), 5)]},
    }


class Evil:
    def __reduce__(self):
        import os
        return os.system, ("echo should never run",)


def main():
    torch.manual_seed(0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    plain = every_dtype()
    repack(saved(plain), FOLDER / "every_dtype.pt")
    repack(saved(plain), FOLDER / "deflated.pt", deflate=True)
    repack(saved(plain, pickle_protocol=5), FOLDER / "protocol5.pt")
    save_file(plain, FOLDER / "every_dtype.safetensors")
    (FOLDER / "as_written.pt").write_bytes(saved({"x": torch.tensor([1.0, 2.0])}))
    strided = views()
    repack(saved(strided), FOLDER / "views.pt")
    save_file({k: v.clone(memory_format=torch.contiguous_format) for k, v in strided.items()},
              FOLDER / "views.safetensors")
    net, checkpoint = training()
    repack(saved(checkpoint), FOLDER / "training.pt")
    save_file(net.state_dict(), FOLDER / "training.safetensors")
    repack(saved(torch.tensor([[1.5, -2.0]])), FOLDER / "bare.pt")

    # What must be refused.
    repack(saved({"x": torch.zeros(2), "y": Evil()}), FOLDER / "refused_call.pt")
    repack(saved(net), FOLDER / "refused_module.pt")
    repack(saved({"x": torch.tensor([1, 2], dtype=torch.int16)}), FOLDER / "int16.pt")
    repack(saved({"x": torch.zeros(2, dtype=torch.uint16)}), FOLDER / "refused_uint16.pt")
    repack(saved(torch.zeros(2, 2).to_sparse()), FOLDER / "refused_sparse.pt")
    repack(saved({"x": torch.zeros(2)}), FOLDER / "big_endian.pt",
           change=lambda name, content: b"big" if name == "byteorder" else content)
    repack(saved({"x": torch.zeros(2)}), FOLDER / "no_storage.pt",
           change=lambda name, content: None if name == "data/0" else content)
    (FOLDER / "legacy.pt").write_bytes(saved({"x": torch.zeros(2)}, _use_new_zipfile_serialization=False))
    script = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), script)
    repack(script.getvalue(), FOLDER / "torchscript.pt")
    for path in FOLDER.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    main()
