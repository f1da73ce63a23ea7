#!/usr/bin/env python3
"""Makes tests/fixtures/data and tests/fixtures/io with Pillow and the safetensors package.

    python3 -m pip install pillow numpy safetensors
    python3 tools/make_data_fixtures.py

The files are checked in; run it again only to change them.
"""

import pathlib

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures"


def picture(height, width, seed):
    """Something like a photograph: smooth shades, edges and some noise; uint8 (H, W, 3)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    out = np.empty((height, width, 3))
    for c in range(3):
        a, b, p = rng.uniform(0.05, 0.25, 3)
        out[..., c] = 120 + 70 * np.sin(a * x + p) + 50 * np.cos(b * y + c)
    out[height // 4 : height // 2, width // 3 : width // 2] = rng.uniform(0, 255, 3)
    out += rng.normal(0, 6, out.shape)
    return np.clip(np.rint(out), 0, 255).astype(np.uint8)


def images(folder):
    rgb = Image.fromarray(picture(47, 61, 1))
    rng = np.random.default_rng(2)
    alpha = Image.fromarray(rng.integers(0, 256, (47, 61), dtype=np.uint8))
    rgba = rgb.copy()
    rgba.putalpha(alpha)
    palette = rgb.quantize(64)
    palette.info["transparency"] = 3

    rgb.save(folder / "rgb.jpg", quality=90)
    rgb.save(folder / "rgb444.jpg", quality=95, subsampling=0)
    rgb.save(folder / "progressive.jpg", quality=85, progressive=True)
    rgb.convert("L").save(folder / "gray.jpg", quality=90)
    rgb.convert("CMYK").save(folder / "cmyk.jpg", quality=90)
    rgb.save(folder / "rgb.png")
    rgba.save(folder / "rgba.png")
    palette.save(folder / "palette.png", transparency=3)
    rgb.convert("L").save(folder / "gray.png")
    rgb.convert("1").save(folder / "bits.png")
    gray16 = (np.asarray(rgb.convert("L")).astype(np.uint16) << 8) + 77
    Image.fromarray(gray16).save(folder / "gray16.png")

    expected = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in (".jpg", ".png"):
            continue
        image = Image.open(path)
        if path.name == "gray16.png":  # Pillow clips here instead of scaling
            gray = (np.asarray(image).astype(np.uint32) * 255 + 32895) >> 16
            expected[path.name] = np.repeat(gray[..., None], 3, 2).astype(np.uint8)
        else:
            expected[path.name] = np.asarray(image.convert("RGB"))
    save_file(expected, folder / "decoded.safetensors")


def resizing(folder):
    """Pillow's bilinear filter on 8-bit images; names are <kind>.<out height>x<out width>[...]."""
    rgb, gray = picture(53, 71, 3), picture(28, 28, 4)[..., 0]
    out = {"rgb": rgb, "gray": gray}
    for height, width in [(53, 71), (20, 30), (10, 71), (53, 9), (80, 100), (120, 33), (1, 1), (7, 150)]:
        image = Image.fromarray(rgb).resize((width, height), Image.Resampling.BILINEAR)
        out[f"rgb.{height}x{width}"] = np.asarray(image)
    for size in (14, 32, 56):
        image = Image.fromarray(gray).resize((size, size), Image.Resampling.BILINEAR)
        out[f"gray.{size}x{size}"] = np.asarray(image)
    # A part, cut out first: top 5, left 11, 30 high, 40 wide.
    part = Image.fromarray(rgb[5:35, 11:51]).resize((16, 16), Image.Resampling.BILINEAR)
    out["rgb.part.16x16"] = np.asarray(part)
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, folder / "resize.safetensors")


def tensors(folder):
    """One tensor of each dtype that the format's own library writes from NumPy."""
    save_file(
        {
            "f64": np.array([[1.5, -2.25], [1e300, -0.0]]),
            "f32": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
            "f16": np.array([0.5, -1.0, 65504.0], dtype=np.float16),
            "i64": np.array([2**62, -1], dtype=np.int64),
            "i32": np.array([2**31 - 1, -(2**31)], dtype=np.int32),
            "u8": np.array([0, 127, 255], dtype=np.uint8),
            "bool": np.array([True, False, True]),
            "scalar": np.array(7.0, dtype=np.float32),
            "empty": np.zeros((0, 4), dtype=np.float32),
            "i16": np.array([1, 2], dtype=np.int16),
        },
        folder / "reference.safetensors",
        metadata={"format": "np", "note": "größe"},
    )


def main():
    for name, make in (("data", images), ("data", resizing), ("io", tensors)):
        folder = FIXTURES / name
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)


if __name__ == "__main__":
    main()
