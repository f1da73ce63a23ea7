"""Cases of transposed and one-dimensional convolution, sorting, indexing, arranging, images and einsum; see
op_table.py.

Left out: topk, kthvalue and median among equal elements, whose choice PyTorch leaves open (Pippin's is the
first); scatter with one place named twice, where PyTorch leaves the winner open (Pippin's is the last); cumprod's gradient
at a NaN, which PyTorch divides by (Pippin multiplies what is left)."""
import torch
import torch.nn.functional as F
from make_fixtures import DTYPES, Generated, random
from op_table import FLOATS, INF, INTS, NAN, pool, values


def long(*v):
    return values(*v, dtype="int64")


def distinct(shape, dtype="float32", seed=0):
    """Values of which no two are equal."""
    n = torch.Size(shape).numel()
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + n))
    return ((order - n // 2).to(torch.float64) * (1 if dtype in INTS or dtype == "float16" else 0.75)).reshape(
        shape).to(DTYPES[dtype])


def convolution(case):
    def conv(op, x, w, bias=True, dtype="float32", raises=None, **a):
        extra = {"raises": True} if raises else {}
        out = w[1] * a.get("groups", 1) if "transpose" in op else w[0]
        k = max(torch.Size(w).numel() // min(w[:2]), torch.Size(x).numel() // x[1])
        case(op, random(x, dtype, -1, 1, seed=1), random(w, dtype, -1, 1, seed=2),
             random([out], dtype, -1, 1, seed=3) if bias else None, _k=k, **a, **extra)

    op = "conv_transpose2d"
    conv(op, [1, 1, 3, 3], [1, 1, 2, 2])
    conv(op, [2, 3, 4, 5], [3, 4, 3, 3])
    conv(op, [2, 3, 4, 5], [3, 4, 3, 3], bias=False, stride=2)
    conv(op, [2, 3, 4, 5], [3, 4, 3, 3], stride=2, padding=1)
    conv(op, [2, 3, 4, 5], [3, 4, 3, 3], stride=2, padding=1, output_padding=1)
    conv(op, [1, 2, 3, 4], [2, 3, 3, 2], stride=[3, 2], padding=[1, 0], output_padding=[2, 1])
    conv(op, [1, 2, 3, 4], [2, 3, 3, 2], dilation=2, padding=1)
    conv(op, [1, 2, 3, 4], [2, 3, 2, 2], dilation=3, output_padding=2)
    conv(op, [1, 2, 3, 4], [2, 3, 2, 2], dilation=[3, 1], stride=[2, 2], output_padding=[2, 1])
    conv(op, [1, 4, 3, 3], [4, 3, 3, 3], groups=2)
    conv(op, [2, 4, 3, 3], [4, 1, 3, 3], groups=4, stride=2, padding=1)
    conv(op, [1, 3, 4, 4], [3, 2, 1, 1], stride=2)
    conv(op, [0, 3, 4, 4], [3, 2, 3, 3])
    case(op, random([3, 4, 4]), random([3, 2, 3, 3]), random([2]), _k=48)
    for dtype in FLOATS[1:]:
        conv(op, [2, 3, 4, 4], [3, 2, 3, 3], dtype=dtype, stride=2)
    conv(op, [1, 3, 4, 4], [2, 2, 3, 3], raises=True)
    conv(op, [1, 2, 4, 4], [2, 2, 3, 3], output_padding=1, raises=True)
    conv(op, [1, 2, 1, 1], [2, 2, 1, 1], padding=1, raises=True)
    for op in ("conv1d", "conv_transpose1d"):
        transposed = op != "conv1d"
        conv(op, [2, 3, 7], [3, 3, 3])
        conv(op, [2, 3, 7], [3, 4, 3] if transposed else [4, 3, 3], bias=False, stride=2, padding=1)
        conv(op, [1, 2, 9], [2, 2, 3], dilation=2, padding=2)
        conv(op, [2, 4, 6], [4, 3, 3] if transposed else [6, 2, 3], groups=2)
        conv(op, [2, 4, 6], [4, 1, 3], groups=4, padding=1)
        conv(op, [1, 2, 5], [2, 2, 1])
        for dtype in FLOATS[1:]:
            conv(op, [2, 3, 7], [3, 3, 3], dtype=dtype, padding=1)
        case(op, random([3, 7]), random([3, 3, 2]), _k=21)
        conv(op, [1, 3, 7], [2, 2, 3], raises=True)
    conv("conv_transpose1d", [1, 2, 5], [2, 3, 3], stride=3, output_padding=2)
    conv("conv1d", [1, 2, 2], [2, 2, 3], raises=True)


def pooling(case):
    x = random([2, 3, 9])
    for op in ("max_pool1d", "avg_pool1d"):
        case(op, x, kernel=2)
        case(op, x, kernel=3, stride=2)
        case(op, x, kernel=3, stride=2, padding=1)
        case(op, x, kernel=3, stride=2, ceil=True)
        case(op, x, kernel=2, stride=3, ceil=True)
        case(op, x, kernel=9)
        case(op, x, kernel=1)
        case(op, random([3, 8]), kernel=2)
        for dtype in FLOATS[1:]:
            case(op, random([2, 2, 7], dtype), kernel=3, stride=2)
        case(op, x, kernel=10, raises=True)
    case("max_pool1d", x, kernel=3, dilation=2)
    case("avg_pool1d", x, kernel=3, stride=2, padding=1, ceil=True, count_include_pad=False)
    for size in (1, 2, 3, 4, 9, 12):
        case("adaptive_avg_pool1d", x, size=size)
        case("adaptive_max_pool1d", x, size=size)
    case("adaptive_max_pool1d", random([2, 5]), size=2)
    for size in (1, [1, 1], 2, 3, [2, 5], [5, 4], [7, 8], [9, 11]):
        case("adaptive_max_pool2d", random([2, 3, 7, 8]), size=size)
    case("adaptive_max_pool2d", random([3, 6, 6]), size=[3, 2])
    case("adaptive_max_pool2d", torch.ones([1, 1, 5, 5]), size=3)
    case("adaptive_max_pool2d", values(1.0, NAN, 3.0, INF, -INF, 2.0).reshape(1, 1, 2, 3), size=[2, 2])
    for dtype in FLOATS[1:]:
        case("adaptive_max_pool2d", random([2, 2, 5, 6], dtype), size=[2, 3])
    case("adaptive_max_pool2d", Generated([2, 7, 13, 12], 52), size=5)


def order(case):
    x, big = random([3, 4, 5]), Generated([31, 70], 12)
    ties = values(1, 3, 3, 0, 0, 3, 1, 1).reshape(2, 4)
    special = values(NAN, INF, 0.0, -INF, -0.0, NAN, 1.0, -1.0)
    for op in ("sort", "argsort"):
        for descending in (False, True):
            for dim in (0, 1, -1):
                case(op, x, dim=dim, descending=descending)
            for dtype in FLOATS[1:] + INTS + ["bool"]:
                case(op, random([2, 7], dtype, -9, 9), descending=descending)
            case(op, ties, descending=descending)
            case(op, special, descending=descending)
            case(op, special.to(torch.float64), descending=descending)
            case(op, special.to(torch.bfloat16), descending=descending)
            case(op, random([]), descending=descending)
            case(op, random([0, 3]), dim=0, descending=descending)
            case(op, big, dim=0, descending=descending)
            case(op, big, dim=1, descending=descending)
        case(op, long(2**62, -(2**62), 2**53 + 1, 2**53, -1))
        case(op, x, dim=3, raises=True)
    for largest in (True, False):
        for k in (0, 1, 3, 4):
            case("topk", distinct([3, 4]), k=k, largest=largest)
        case("topk", distinct([5, 3, 2]), k=2, dim=0, largest=largest)
        for dtype in FLOATS[1:] + ["int64", "int32"]:
            case("topk", distinct([2, 9], dtype), k=3, largest=largest)
        case("topk", Generated([3, 500], 14), k=7, largest=largest)
        case("topk", values(NAN, 1.0, 5.0, -INF, INF), k=2, largest=largest)
        case("topk", random([]), k=1, largest=largest)
    case("topk", random([3]), k=4, raises=True)
    for k in (1, 2, 4):
        case("kthvalue", distinct([3, 4]), k=k)
        case("kthvalue", distinct([4, 3]), k=k, dim=0, keepdim=True)
    case("kthvalue", distinct([3]), k=0, raises=True)
    case("kthvalue", distinct([3]), k=4, raises=True)
    for shape in ([5], [6], [1], [2, 3]):
        case("median", distinct(shape))
        case("median", distinct(shape), dim=-1)
    case("median", distinct([3, 4, 2]), dim=1, keepdim=True)
    case("median", distinct([9], "int64"))
    case("median", values(1.0, NAN, 0.5))
    case("median", values(1.0, NAN, 0.5), dim=0)
    case("median", random([]))
    for op in ("max_dim", "min_dim"):
        for dim in (0, 1, -1):
            case(op, x, dim=dim)
            case(op, x, dim=dim, keepdim=True)
        for dtype in FLOATS[1:] + INTS:
            case(op, random([3, 7], dtype, -9, 9), dim=1)
        case(op, ties, dim=1)
        case(op, values(1.0, NAN, 5.0, NAN), dim=0)
        case(op, random([]), dim=0)
        case(op, random([0, 2]), dim=1)
        case(op, random([2, 0]), dim=1, raises=True)
    for dim in (0, 1, 2, -1):
        case("cumsum", x, dim=dim)
    for dtype in FLOATS[1:] + INTS + ["bool"]:
        case("cumsum", random([3, 5], dtype, -3, 3), dim=1)
    case("cumsum", random([]), dim=0)
    case("cumsum", random([2, 0]), dim=1)
    case("cumsum", values(1.0, NAN, 2.0), dim=0)
    case("cumsum", values(1.0, INF, -INF, 2.0), dim=0)
    case("cumsum", big, dim=0)
    case("cumsum", big, dim=1)
    case("cumsum", torch.ones([300], dtype=torch.bool), dim=0)
    case("cumsum", torch.full([300], 200, dtype=torch.uint8), dim=0)
    case("cumsum", Generated([5000], 15, offset=1.0), dim=0, _k=2)
    case("cumsum", x, dim=3, raises=True)
    for dim in (0, 1, 2, -1):
        case("cumprod", x, dim=dim)
    for dtype in FLOATS[1:] + INTS + ["bool"]:
        case("cumprod", random([3, 6], dtype, -3, 3), dim=1, _k=2)
    case("cumprod", random([]), dim=0)
    case("cumprod", random([2, 0]), dim=1)
    for zeros in ((2.0, 0.0, 3.0, 4.0), (0.0, 2.0, 0.0, 3.0), (1.0, NAN, 2.0, 0.0), (3.0, 2.0, 4.0, 0.0)):
        case("cumprod", values(*zeros), dim=0, _grad=NAN not in zeros)
    case("cumprod", Generated([3, 37], 16, offset=1.0), dim=1)


def indexing(case):
    x = random([3, 4])
    for dim, shape in ((0, [1, 4]), (0, [5, 4]), (1, [3, 2]), (1, [1, 2]), (0, [2, 1])):
        case("take_along_dim", x, random(shape, "int64", 0, [2, 3][dim]), dim=dim)
    case("take_along_dim", random([3, 1]), random([1, 4], "int64", 0, 2), dim=0)
    once = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(i)) for i in range(3)])
    for dtype in DTYPES:
        case("scatter", random([3, 4], dtype), once[:, :2].contiguous(), random([3, 2], dtype, seed=1), dim=1)
        case("scatter", random([3, 4], dtype), once, value=1.0, dim=1)
        if dtype != "bool":
            case("scatter_add", random([3, 4], dtype), random([2, 5], "int64", 0, 3), random([2, 5], dtype, seed=1),
                 dim=1)
            case("index_add", random([3, 4], dtype), long(2, 0, 2), random([3, 4], dtype, seed=1), dim=0)
        case("index_copy", random([3, 4], dtype), long(2, 0), random([2, 4], dtype, seed=1), dim=0)
        case("index_fill", random([3, 4], dtype), long(2, 0), value=1.0, dim=0)
        case("masked_fill", random([3, 4], dtype), random([3, 4], "bool", seed=1), value=1.0)
    case("scatter", x, once[:2, :3].contiguous(), random([3, 4], seed=1), dim=1, _grad=[0])
    case("scatter", random([5, 4]), torch.tensor([[4, 0, 2], [1, 3, 0]]), random([2, 3], seed=1), dim=0)
    case("scatter", random([2, 3, 4]), torch.tensor([2, 0]).reshape(1, 2, 1), random([1, 2, 1], seed=1), dim=1)
    case("scatter", random([]), long(0).reshape([]), random([], seed=1), dim=0)
    case("scatter", x, random([0, 4], "int64"), random([0, 4]), dim=0)
    case("scatter", x, long(4).reshape(1, 1), random([1, 1]), dim=1, raises=True)
    case("scatter", x, long(-1).reshape(1, 1), random([1, 1]), dim=1, raises=True)
    case("scatter", x, long(0).reshape(1), random([1]), dim=1, raises=True)
    case("scatter", x, once, random([3, 4], "float64"), dim=1, raises=True)
    case("scatter", x, once, random([3, 3]), dim=1, raises=True)
    case("scatter_add", x, torch.zeros([3, 4], dtype=torch.int64), random([3, 4], seed=1), dim=0)
    case("scatter_add", x, random([2, 3], "int64", 0, 2), random([3, 4], seed=1), dim=0, _grad=[0])
    case("scatter_add", random([2, 3, 4]), random([2, 5, 3], "int64", 0, 2), random([2, 5, 3], seed=1), dim=1)
    case("scatter_add", random([]), long(0).reshape([]), random([], seed=1), dim=0)
    case("scatter_add", x, long(3).reshape(1, 1), random([1, 1]), dim=0, raises=True)
    case("index_add", x, long(1, 1, 3), random([3, 3], seed=1), dim=1, alpha=2.0)
    case("index_add", random([2, 3, 4]), long(0, 2), random([2, 2, 4], seed=1), dim=-2, alpha=-0.5)
    case("index_add", x, long(3), random([1, 4]), dim=0, raises=True)
    case("index_add", x, long(0, 1), random([1, 4]), dim=0, raises=True)
    case("index_copy", random([2, 3, 4]), long(3, 1, 0), random([2, 3, 3], seed=1), dim=2)
    case("index_copy", x, long(3), random([1, 4]), dim=0, raises=True)
    case("index_fill", random([2, 3, 4]), long(3, 1), value=-2.5, dim=2)
    case("masked_fill", x, random([4], "bool"), value=-INF)
    case("masked_fill", x, random([3, 1], "bool"), value=2.5)
    case("masked_fill", random([4]), random([3, 1], "bool"), value=NAN)
    case("masked_fill", x, random([3, 4], "int64"), value=1.0, raises=True)


def arranging(case):
    x = random([2, 3, 4])
    for op in ("tril", "triu"):
        for diagonal in (0, 1, -1, 5, -5):
            case(op, random([4, 3]), diagonal=diagonal)
        case(op, x, diagonal=1)
        case(op, random([3, 3], "int64", 1, 9))
        case(op, random([3, 3], "bool"))
        case(op, values(NAN, INF, NAN, 1.0).reshape(2, 2))
        case(op, random([0, 3]))
        case(op, random([3]), raises=True)
    for offset in (0, 1, -1, 2, -2, 3, 5, -5):
        case("diagonal", random([3, 4]), offset=offset)
        case("diag", random([3]), offset=offset)
        case("diag", random([4, 3]), offset=offset)
    case("diagonal", x, a=1, b=2)
    case("diagonal", x, a=2, b=0, offset=1)
    case("diagonal", x, a=-1, b=-2)
    case("diagonal", x, a=1, b=1, raises=True)
    for shifts, dims in (([1], []), ([-2], []), ([1], [0]), ([2, -1], [1, 2]), ([5], [1]), ([0], [2]), ([1, 1], [2, 2])):
        case("roll", x, shifts=shifts, dims=dims)
    case("roll", random([0, 2]), shifts=[1], dims=[0])
    case("roll", x, shifts=[1, 2], dims=[0], raises=True)
    for a, b in ((0, 2), (2, 0), (1, -1), (-1, 1)):
        case("movedim", x, source=a, to=b)
    for counts in ([2, 1, 3], [1, 1, 1], [2, 1, 1, 2], [0, 1, 1], [3, 2, 1, 2]):
        case("repeat", x, counts=counts)
    case("repeat", x, counts=[2, 2], raises=True)
    case("repeat", random([]), counts=[3])
    case("repeat", random([3], "int64"), counts=[2, 2])
    for counts in ([2], [2, 3], [2, 1, 1, 2], [1]):
        case("tile", x, counts=counts)
    for dim in (None, 0, 1, -1):
        for count in (1, 3, 0):
            case("repeat_interleave", x, count=count, dim=dim)
    case("meshgrid", random([2], seed=1), random([3], seed=2))
    case("meshgrid", random([2], seed=1), random([3], seed=2), xy=True)
    case("meshgrid", random([2], seed=1), random([3], seed=2), random([4], seed=3))
    case("meshgrid", random([2], seed=1), random([3], seed=2), random([4], seed=3), xy=True)
    case("meshgrid", random([2], seed=1), random([], seed=2))
    case("meshgrid", random([2], seed=1))
    for sizes, dim in (([1, 2], 1), ([2], 0), ([1, 0, 3], 2), ([2, 2], -1)):
        case("split_with_sizes", x, sizes=sizes, dim=dim)
    case("split_with_sizes", x, sizes=[1, 1], dim=1, raises=True)
    for chunks, dim in ((1, 0), (2, 1), (2, 2), (3, 2), (5, 2), (4, 0)):
        case("chunk", x, chunks=chunks, dim=dim)
    for dim in (0, 1, -1):
        case("unbind", x, dim=dim)
    for mode in ("reflect", "replicate", "circular"):
        y = random([2, 3, 4, 5])
        case("pad_mode", x, amounts=[1, 2], mode=mode)
        case("pad_mode", x, amounts=[3, 0], mode=mode)
        case("pad_mode", y, amounts=[1, 2, 2, 1], mode=mode)
        case("pad_mode", y, amounts=[0, 1, 3, 0], mode=mode)
        case("pad_mode", random([1, 1, 3, 4, 3]), amounts=[1, 1, 2, 0, 0, 2], mode=mode)
        case("pad_mode", y, amounts=[-1, 2, 1, -1], mode=mode)
        for dtype in FLOATS[1:]:
            case("pad_mode", random([1, 2, 4], dtype), amounts=[2, 1], mode=mode)
        if mode != "replicate":
            case("pad_mode", x, amounts=[5, 0], mode=mode, raises=True)
    case("pad_mode", random([1, 1, 3]), amounts=[5, 7], mode="replicate")


def images(case):
    y = random([2, 3, 5, 6])
    for a in (dict(kernel=2), dict(kernel=3, padding=1), dict(kernel=[2, 3], stride=2), dict(kernel=2, dilation=2),
              dict(kernel=[3, 2], stride=[2, 1], padding=[1, 0], dilation=[1, 3]), dict(kernel=1), dict(kernel=[5, 6])):
        case("unfold", y, **a)
        columns = F.unfold(y, a["kernel"], a.get("dilation", 1), a.get("padding", 0), a.get("stride", 1))
        case("fold", random(list(columns.shape), seed=1), size=[5, 6], **a)
    case("unfold", random([3, 4, 4]), kernel=2)
    case("fold", random([12, 9]), size=4, kernel=2)
    for dtype in FLOATS[1:]:
        case("unfold", random([1, 2, 4, 4], dtype), kernel=3, padding=1)
        case("fold", random([1, 8, 9], dtype), size=4, kernel=2, _k=4)
    case("unfold", y, kernel=7, raises=True)
    case("fold", random([1, 8, 8]), size=4, kernel=2, raises=True)
    x = {1: random([2, 3, 5]), 2: random([1, 2, 4, 5]), 3: random([1, 1, 3, 2, 4])}
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}
    for n in (1, 2, 3):
        for size in (7, 3, 1, 10):
            for mode in ("nearest", "nearest-exact"):
                case("interpolate", x[n], size=[size] * n, mode=mode)
            for align in (False, True):
                case("interpolate", x[n], size=[size] * n, mode=linear[n], align_corners=align)
        for scale in (2.0, 0.5, 1.7, 0.8, 1.0):
            case("interpolate", x[n], scale=[scale], mode="nearest")
            for align in (False, True):
                case("interpolate", x[n], scale=[scale], mode=linear[n], align_corners=align)
    case("interpolate", x[2], size=[4, 5], mode="bilinear")
    case("interpolate", x[2], size=[9, 2], mode="bilinear")
    case("interpolate", x[2], scale=[2.0, 0.6], mode="bilinear")
    case("interpolate", x[2], scale=[3.0, 2.0], mode="nearest")
    for dtype in FLOATS[1:]:
        case("interpolate", random([1, 2, 4, 5], dtype), size=[7, 3], mode="nearest")
        case("interpolate", random([1, 2, 4, 5], dtype), size=[7, 3], mode="bilinear", _k=4)
        case("interpolate", random([1, 2, 4, 5], dtype), scale=[2.0], mode="bilinear", align_corners=True, _k=4)
    case("interpolate", Generated([2, 8, 14, 15], 54), scale=[2.0], mode="bilinear")
    case("interpolate", Generated([2, 8, 14, 15], 54), size=[31, 9], mode="nearest")
    case("interpolate", x[2], size=[0, 3], mode="nearest", raises=True)
    case("interpolate", x[2], size=[4, 4], mode="nearest", align_corners=True, raises=True)


def products(case):
    a, b, c = random([2, 3], seed=1), random([3, 4], seed=2), random([4, 2], seed=3)
    for equation, *t in (
            ("ij,jk->ik", a, b), ("ij,jk", a, b), ("ij,jk->ki", a, b), ("ij,jk->", a, b), ("ij->ji", a), ("ij->", a),
            ("ij->i", a), ("ij", a), ("ji", a), ("ij,ij->ij", a, a), ("ij,ij->", a, a), ("ij,ij->i", a, a),
            ("ij,kl->ijkl", a, b), ("i,i->", a[0], a[1]), ("i,j->ij", a[0], b[0]), ("i,i->i", a[0], a[1]),
            ("ij,jk,ki->", a, b, c), ("ij,jk,kl->il", a, b, c), ("ij,jk,ki->i", a, b, c)):
        case("einsum", *t, equation=equation, _k=12)
    s = random([3, 3], seed=4)
    t3, u3 = random([2, 3, 4], seed=5), random([2, 4, 5], seed=6)
    for equation, *t in (
            ("ii->i", s), ("ii->", s), ("ii", s), ("ii,ij->ij", s, b), ("bij,bjk->bik", t3, u3),
            ("bij,bjk->ikb", t3, u3), ("bij,bkj->bik", t3, random([2, 6, 4], seed=7)), ("...ij,...jk->...ik", t3, u3),
            ("...ij->...ji", t3), ("b...,b...->...", t3, t3), ("i...->...", t3), ("...->", t3), ("...", t3),
            ("...i,i", t3, random([4], seed=8)), ("...ij,jk->...ik", t3, random([4, 5], seed=9)),
            ("bij,ij->b", t3, random([3, 4], seed=10)), ("bi,ij,bj->b", a, b, random([2, 4], seed=11)),
            ("bhqd,bhkd->bhqk", random([2, 2, 3, 4], seed=12), random([2, 2, 5, 4], seed=13)),
            ("iij->j", random([3, 3, 2], seed=14)), ("ij,ij->ij", random([1, 3], seed=15), a),
            ("ij,jk->ik", random([2, 1], seed=16), b), ("Ab,bC->AC", a, b), ("a b, b c -> a c", a, b),
            ("i,->i", a[0], random([], seed=17)), (",", random([], seed=18), random([], seed=17)),
            ("ij,jk->ik", random([0, 3]), b), ("ij,jk->ik", random([2, 0]), random([0, 4]))):
        case("einsum", *t, equation=equation, _k=12)
    for dtype in FLOATS[1:]:
        case("einsum", random([3, 5], dtype, seed=1), random([4, 5], dtype, seed=2), equation="ij,kj->ki", _k=5)
    case("einsum", random([3, 5], "int64", -3, 3, seed=1), random([4, 5], "int64", -3, 3, seed=2), equation="ij,kj->ki")
    case("einsum", Generated([20, 40], 90), Generated([40, 30], 91), equation="ij,jk->ik", _k=40)
    for equation, *t in (("ij,jk->ik", a), ("ij,jk->ik", a, a), ("ij->iz", a), ("ijk->i", a), ("ij->ii", a),
                         ("i1->i", a), ("ii->i", a), ("i..->i", a)):
        case("einsum", *t, equation=equation, raises=True)
    case("outer", random([3], seed=1), random([4], seed=2))
    case("outer", random([0]), random([4]))
    case("outer", a, random([3]), raises=True)
    case("bmm", t3, u3, _k=5)
    case("bmm", t3, random([1, 4, 5]), raises=True)
    # Integers, which have no kernel of their own.
    for dtype in INTS:
        for m, n in (([2, 3], [3, 4]), ([3], [3]), ([5, 2, 3], [3, 4]), ([2, 3], [3]), ([5, 2, 3], [5, 3, 2]),
                     ([2, 0], [0, 3])):
            case("matmul", random(m, dtype, -9, 9, seed=1), random(n, dtype, -9, 9, seed=2))
    case("matmul", values(100, 200, dtype="uint8"), values(3, 5, dtype="uint8"))
    case("matmul", long(2**40, 3).reshape(1, 2), long(2**30, -7).reshape(2, 1))
    case("matmul", random([2, 2], "bool"), random([2, 2], "bool"), raises=True)
    case("linear", random([4, 3], "int64", -9, 9), random([2, 3], "int64", -9, 9), random([2], "int64"))


def small_faults(case):
    """Where this differed from PyTorch once."""
    edges = values(NAN, INF, -INF, -1.0, 1.0, 0.0, -0.0, 0.5, 3.0, 2.0, -2.0)
    for low, high in ((-1.0, 1.0), (None, 1.0), (-1.0, None), (2.0, -2.0), (0.0, None), (1.0, 1.0)):
        case("clamp", edges, low=low, high=high)
        case("clamp", edges.to(torch.bfloat16), low=low, high=high)
    for p in (1, 1.5, 2, 2.5, 3, INF, -INF):
        case("norm", torch.zeros([3]), p=p)
        case("norm", torch.zeros([2, 3]), p=p, dims=[1])
        case("norm", values(0.0, 0.0, 1.0, -2.0).reshape(2, 2), p=p, dims=[1], keepdim=True)
    case("tanh", values(8.9, 9.0, 9.009, 9.01, 9.011, 9.02, 9.1, 12.0, 50.0, -8.9, -9.011, -9.02, -50.0, 88.0))


FUNCTIONS = {
    "conv_transpose2d": lambda x, w, b=None, **a: F.conv_transpose2d(x, w, b, **a),
    "conv1d": lambda x, w, b=None, **a: F.conv1d(x, w, b, **a),
    "conv_transpose1d": lambda x, w, b=None, **a: F.conv_transpose1d(x, w, b, **a),
    "max_pool1d": pool(F.max_pool1d, {"ceil": "ceil_mode"}),
    "avg_pool1d": pool(F.avg_pool1d, {"ceil": "ceil_mode"}),
    "adaptive_avg_pool1d": lambda x, size: F.adaptive_avg_pool1d(x, size),
    "adaptive_max_pool1d": lambda x, size: F.adaptive_max_pool1d(x, size),
    "adaptive_max_pool2d": lambda x, size: F.adaptive_max_pool2d(x, size),
    "sort": lambda x, dim=-1, descending=False: torch.sort(x, dim=dim, descending=descending, stable=True),
    "argsort": lambda x, dim=-1, descending=False: torch.argsort(x, dim=dim, descending=descending, stable=True),
    "topk": lambda x, k, dim=-1, largest=True: torch.topk(x, k, dim, largest, True),
    "kthvalue": lambda x, k, dim=-1, keepdim=False: torch.kthvalue(x, k, dim, keepdim),
    "median": lambda x, dim=None, keepdim=False: torch.median(x) if dim is None else torch.median(x, dim, keepdim),
    "max_dim": lambda x, dim, keepdim=False: torch.max(x, dim, keepdim),
    "min_dim": lambda x, dim, keepdim=False: torch.min(x, dim, keepdim),
    "cumsum": torch.cumsum, "cumprod": torch.cumprod,
    "take_along_dim": lambda x, i, dim: torch.take_along_dim(x, i, dim),
    "scatter": lambda x, i, src=None, dim=0, value=None: (
        x.scatter(dim, i, src) if value is None else x.scatter(dim, i, value)),
    "scatter_add": lambda x, i, src, dim: x.scatter_add(dim, i, src),
    "index_add": lambda x, i, src, dim, alpha=1: x.index_add(dim, i, src, alpha=alpha),
    "index_copy": lambda x, i, src, dim: x.index_copy(dim, i, src),
    "index_fill": lambda x, i, dim, value: x.index_fill(dim, i, value),
    "masked_fill": lambda x, m, value: x.masked_fill(m, value),
    "tril": lambda x, diagonal=0: torch.tril(x, diagonal), "triu": lambda x, diagonal=0: torch.triu(x, diagonal),
    "diagonal": lambda x, offset=0, a=0, b=1: torch.diagonal(x, offset, a, b),
    "diag": lambda x, offset=0: torch.diag(x, offset),
    "roll": lambda x, shifts, dims: torch.roll(x, shifts, dims) if dims else torch.roll(x, shifts[0]),
    "movedim": lambda x, source, to: torch.movedim(x, source, to),
    "repeat": lambda x, counts: x.repeat(counts), "tile": lambda x, counts: torch.tile(x, counts),
    "repeat_interleave": lambda x, count, dim=None: torch.repeat_interleave(x, count, dim),
    "meshgrid": lambda *x, xy=False: torch.meshgrid(*x, indexing="xy" if xy else "ij"),
    "split_with_sizes": lambda x, sizes, dim=0: list(x.split(sizes, dim)),
    "chunk": lambda x, chunks, dim=0: list(x.chunk(chunks, dim)),
    "unbind": lambda x, dim=0: list(x.unbind(dim)),
    "pad_mode": lambda x, amounts, mode: F.pad(x, amounts, mode),
    "unfold": lambda x, kernel, dilation=1, padding=0, stride=1: F.unfold(x, kernel, dilation, padding, stride),
    "fold": lambda x, size, kernel, dilation=1, padding=0, stride=1: F.fold(
        x, size, kernel, dilation, padding, stride),
    "interpolate": lambda x, size=None, scale=None, mode="nearest", align_corners=None: F.interpolate(
        x, size, scale if scale is None or len(scale) > 1 else scale[0], mode, align_corners),
    "einsum": lambda *x, equation: torch.einsum(equation, *x),
    "outer": torch.outer, "bmm": torch.bmm,
}
GROUPS = {"convolution_more": convolution, "pooling_more": pooling, "order": order, "indexing_more": indexing,
          "arranging": arranging, "images": images, "products": products, "small_faults": small_faults}
