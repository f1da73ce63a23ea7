"""Cases of shapes, reductions, linear algebra, convolution, norms and losses; see op_table.py."""
import torch
from make_fixtures import DTYPES, Generated, random
from op_table import FLOATS, INF, INTS, NAN, SPECIAL, values


def creation(case):
    for op in ("zeros", "ones"):
        for dtype in DTYPES:
            case(op, shape=[2, 3], dtype=dtype)
        for shape in ([], [0], [3, 0], [1, 2, 3, 4, 5]):
            case(op, shape=shape)
    for dtype in DTYPES:
        case("full", shape=[3], value=2.0, dtype=dtype)
        case("eye", n=3, dtype=dtype)
        case("zeros_like", random([2, 2], dtype))
        case("ones_like", random([2], dtype))
        case("full_like", random([2], dtype), value=3.0)
        case("scalar", value=1.0, dtype=dtype)
        case("runtime_scalar", value=1.0, dtype=dtype)
    case("full", shape=[2], value=0.1)
    case("eye", n=0)
    case("eye", n=1)
    for bounds in ((0, 5, 1), (2, 11, 3), (5, 0, -2), (0, 0, 1), (-3, 3, 1), (0.0, 1.0, 0.25),
                   (0.5, 5, 1), (1, 2, 0.3), (0, 1, 0.1)):
        case("arange", **dict(zip(("start", "end", "step"), bounds)))
    for dtype in ("int32", "float32", "float64", "float16", "uint8", "bfloat16"):
        case("arange", start=0, end=9, step=2, dtype=dtype)
    case("arange", start=0, end=5, step=-1, raises=True)
    case("arange", start=0, end=5, step=0, raises=True)
    for bounds in ((0, 1, 5), (-1, 1, 2), (3, 3, 4), (0, 10, 11), (5, -5, 7), (0, 1, 1), (0, 1, 0)):
        case("linspace", **dict(zip(("start", "end", "steps"), bounds)))
    for dtype in ("float64", "float16", "bfloat16"):
        case("linspace", start=-2, end=3, steps=9, dtype=dtype)


def shape(case):
    x, big = random([2, 3, 4]), Generated([24, 33, 10], 9)
    for dtype in DTYPES:
        y = random([2, 3], dtype)
        case("reshape", y, shape=[3, 2])
        case("transpose", y, a=0, b=1)
        case("cat", y, random([1, 3], dtype, seed=4), dim=0)
        case("pad", y, amounts=[1, 2, 0, 1], value=1.0)
        case("flip", y, dims=[1])
        case("index", y, at=[[None, None, 2], 1])
        case("index_put_", y, random([3], dtype, seed=5), at=[1])
        case("expand", random([1, 3], dtype), shape=[2, 3])
    for to in ([24], [4, 6], [-1, 2], [2, 3, 4], [1, -1, 1], [3, -1, 2, 2]):
        case("reshape", x, shape=to)
    case("reshape", random([]), shape=[1, 1])
    case("reshape", random([1]), shape=[])
    case("reshape", random([0, 4]), shape=[2, 0])
    case("reshape", big, shape=[33, 240])
    case("reshape", x, shape=[5, -1], raises=True)
    for start, end in ((0, -1), (1, -1), (0, 1), (1, 1), (-2, -1)):
        case("flatten", x, start=start, end=end)
    case("flatten", random([]))
    for dims in ([0, 1, 2], [2, 0, 1], [1, 0, 2], [-1, -2, -3], [0, 2, 1]):
        case("permute", x, dims=dims)
    case("permute", big, dims=[2, 0, 1])
    case("permute", random([2, 3, 4, 5]), dims=[0, 2, 3, 1])
    case("permute", random([2, 0, 4]), dims=[2, 1, 0])
    case("permute", random([]), dims=[])
    case("permute", x, dims=[0, 0, 1], raises=True)
    case("transpose", x, a=-1, b=0)
    case("transpose", x, a=0, b=3, raises=True)
    for s in ([], [3], [3, 2]):
        case("t", random(s))
    case("squeeze", random([1, 3, 1, 2]))
    for dim in (0, -2, 1):
        case("squeeze", random([1, 3, 1]), dim=dim)
    for dim in (0, 1, -1, 3):
        case("unsqueeze", x, dim=dim)
    case("unsqueeze", random([]), dim=0)
    for a, b in (([3], [2, 3]), ([1, 3], [4, 3]), ([2, 1, 3], [2, 5, 3]), ([3, 1], [-1, 4]), ([], [2, 2]),
                 ([1], [0]), ([1, 33], [40, 33])):
        case("expand", random(a), shape=b)
    case("expand", random([3]), shape=[4], raises=True)
    for dims in ([0], [1, 2], [-1], []):
        case("flip", x, dims=dims)
    case("flip", random([0, 2]), dims=[0])
    for dim, start, length in ((0, 1, 1), (1, 0, 2), (2, 1, 3), (-1, 2, 0), (0, 0, 2)):
        case("narrow", x, dim=dim, start=start, length=length)
    case("narrow", x, dim=0, start=1, length=2, raises=True)
    case("cat", x, random([2, 1, 4]), random([2, 2, 4]), dim=1)
    case("cat", x, random([2, 3, 1]), dim=-1)
    case("cat", random([0, 3]), random([2, 3]), dim=0)
    case("cat", random([3]), random([2], "float64"), dim=0)
    case("cat", random([3], "int64"), random([2]), dim=0)
    case("cat", big, big, dim=1)
    case("cat", random([2, 3]), random([2, 4]), dim=0, raises=True)
    for dim in (0, 1, -1):
        case("stack", random([2, 3], seed=1), random([2, 3], seed=2), dim=dim)
    case("stack", random([], seed=1), random([], seed=2), dim=0)
    case("stack", random([2]), random([3]), dim=0, raises=True)
    for size, dim in ((2, 0), (2, 1), (3, -1), (5, 2), (1, 1)):
        case("split", x, size=size, dim=dim)
    for amounts in ([1, 1], [0, 2, 1, 0], [1, 0, 0, 1, 2, 0], [-1, 0], [-1, 2, 0, -1]):
        case("pad", x, amounts=amounts)
    case("pad", x, amounts=[1, 1], value=-INF)
    case("pad", random([0]), amounts=[2, 1], value=3.0)
    case("pad", big, amounts=[3, 2, 1, 0])
    for at in ([0], [-1], [[None, 1, None]], [[1, None, None], [None, None, 2]], ["...", 0], [None, 1],
               [0, "...", [1, 3, None]], [[None, None, None], None, 1], [[-2, -1, None]], [0, 1, 2],
               [[5, 9, None]], [[None, None, 3]], ["..."], ["...", [None, None, 2], None]):
        case("index", x, at=at)
    case("index", big, at=[[2, 20, 5], [None, None, 7], [1, -1, 3]])
    case("index", x, at=[2], raises=True)
    case("index", x, at=[0, 0, 0, 0], raises=True)
    case("select", x, 1)
    case("select", x, -2)
    case("index_put_", x, random([], seed=3), at=[1, [0, 2, None]])
    case("index_put_", x, random([3, 4], seed=3), at=[0])
    case("index_put_", x, random([4], seed=3), at=[[None, None, None], 1])
    case("index_put_", x, random([2, 3, 2], seed=3), at=["...", [None, None, 2]])
    case("index_put_", x, random([2, 1, 4], seed=3), at=[[None, None, None], [1, None, None]])
    case("index_put_", x, random([], "float64"), at=["..."], _grad=[0])
    case("index_put_", x, random([5], seed=3), at=[0], raises=True)
    case("assign_", random([2, 3]), random([2, 3], "float64"))
    case("assign_", random([3], "int64"), random([3]))
    case("fill_", random([3]), 2.5)
    case("fill_", random([3], "int64"), 2)


def reduce(case):
    x, big = random([3, 4, 5]), Generated([31, 70], 12)
    ops = "sum mean prod var std norm amax amin any all".split()
    for op in ops:
        for dims in ([], [0], [1], [-1], [0, 2], [0, 1, 2], [1, 2]):
            case(op, x, dims=dims)
        case(op, x, dims=[1], keepdim=True)
        case(op, x, dims=[], keepdim=True) if op not in ("prod", "any", "all") else None
        case(op, random([1, 3]), dims=[1])
        case(op, random([2, 3]).reshape(3, 2), dims=[0])
        if op != "prod":
            case(op, big, dims=[0])
            case(op, big, dims=[1])
            case(op, big)
        for dtype in FLOATS[1:]:
            case(op, random([4, 9], dtype), dims=[1])
            case(op, random([4, 9], dtype), dims=[0])
        if op not in ("var", "std"):
            case(op, random([]))
        if op not in ("mean", "var", "std", "norm"):
            for dtype in INTS + ["bool"]:
                case(op, random([2, 5], dtype, -3, 3), dims=[1])
        else:
            case(op, random([2, 5], "int64"), raises=True)
        if op in ("amax", "amin"):
            case(op, random([0]), raises=True)
            case(op, random([2, 0]), dims=[1], raises=True)
        elif op not in ("var", "std"):
            case(op, random([0]))
            case(op, random([2, 0]), dims=[1])
        case(op, random([0, 2]), dims=[1]) if op not in ("norm",) else None
        case(op, values(1.0, NAN, 3.0, 2.0), dims=[0])
        case(op, values(1.0, INF, -INF, 2.0).reshape(2, 2), dims=[1])
        if op != "prod":
            case(op, x, dims=[3], raises=True)
            case(op, x, dims=[1, 1], raises=True)
    case("sum", random([4, 3], "int64", 0, 9))
    case("sum", values(2**62, 2**62, 5, dtype="int64"))
    case("sum", Generated([20000], 8))
    case("mean", Generated([20000], 8, offset=100.0))
    case("sum", torch.full([3000], 0.1, dtype=torch.bfloat16))
    case("sum", torch.full([3000], 20.0, dtype=torch.float16))
    for v in ((2.0, 0.0, 3.0), (0.0, 0.0, 3.0), (2.0, 3.0, -1.0)):
        case("prod", values(*v))
    for correction in (0, 1, 2, 1.5):
        for op in ("var", "std"):
            case(op, x, dims=[2], correction=correction)
            case(op, x, dims=[0, 1], correction=correction, keepdim=True)
    case("var", random([3, 1]), dims=[1], correction=0)
    case("var", Generated([9, 1000], 13, offset=1000.0), dims=[1])
    case("std", torch.ones([2, 3]), dims=[1])
    for p in (2, 1, 3, 0, INF, -INF, 2.5, 1.5):
        case("norm", random([3, 4]), p=p)
        case("norm", random([3, 4]), p=p, dims=[1])
        case("norm", random([2, 3], "float64"), p=p, dims=[0], keepdim=True)
        case("norm", values(1.0, -1.0, 0.0, 1.0), p=p) if p not in (-INF,) else None
    case("norm", torch.zeros([3]))
    case("norm", torch.zeros([2, 3]), dims=[1])
    ties = values(1, 3, 3, 0, 0, 3).reshape(2, 3)
    for op in ("amax", "amin"):
        for dims in ([], [0], [1]):
            case(op, ties, dims=dims)
        case(op, values(NAN, 1.0, NAN))
        case(op, values(-0.0, 0.0))
    for op in ("max", "min"):
        case(op, ties)
        case(op, x)
        case(op, random([4], "int64", -5, 5))
        case(op, random([0]), raises=True)
    for op in ("argmax", "argmin"):
        for dim in (None, 0, 1, -1):
            case(op, x, dim=dim)
            case(op, ties, dim=dim)
            case(op, x, dim=dim, keepdim=True)
        for dtype in FLOATS[1:] + INTS:
            case(op, random([3, 7], dtype, -9, 9), dim=1)
        case(op, random([]))
        case(op, values(1.0, NAN, 5.0, NAN), dim=0)
        case(op, values(INF, 1.0, INF, -INF, -INF))
        case(op, big, dim=0)
        case(op, big, dim=1)
        case(op, big)
        case(op, random([0]), raises=True)
        case(op, random([2, 0]), dim=1, raises=True)
        case(op, random([0, 2]), dim=1)
    case("any", values(0.0, -0.0))
    case("all", values(NAN, 1.0))
    case("any", values(NAN, 0.0))
    for op in ("softmax", "log_softmax", "logsumexp"):
        for dim in (0, 1, 2, -1):
            case(op, x, dim=dim)
        case(op, random([]), dim=0)
        case(op, random([1, 1]), dim=1)
        case(op, random([0, 3]), dim=1)
        case(op, big, dim=1)
        case(op, big, dim=0)
        for dtype in FLOATS[1:]:
            case(op, random([3, 7], dtype), dim=1)
            case(op, random([3, 7], dtype), dim=0)
        case(op, values(1000.0, 999.0, -1000.0), dim=0)
        case(op, values(-INF, 0.0, 1.0), dim=0)
        case(op, values(-INF, -INF), dim=0)
        case(op, values(INF, 0.0), dim=0)
        case(op, values(NAN, 0.0), dim=0)
        case(op, x, dim=3, raises=True)
    case("logsumexp", x, dim=1, keepdim=True)
    case("logsumexp", random([2, 0]), dim=1)


def linalg(case):
    for a, b in (([3], [3]), ([2, 3], [3]), ([3], [3, 4]), ([2, 3], [3, 4]), ([5, 2, 3], [3, 4]),
                 ([5, 2, 3], [5, 3, 4]), ([2, 3], [5, 3, 4]), ([3], [5, 3, 4]), ([5, 2, 3], [3]),
                 ([2, 1, 2, 3], [4, 3, 2]), ([1, 1], [1, 1]), ([0, 3], [3, 4]), ([2, 0], [0, 3]),
                 ([2, 3], [3, 0]), ([0, 2, 3], [3, 4]), ([7, 13], [13, 9])):
        case("matmul", random(a, seed=1), random(b, seed=2), _k=max(a[-1], 13))
    for dtype in FLOATS[1:]:
        case("matmul", random([5, 9], dtype, seed=1), random([9, 6], dtype, seed=2), _k=9)
        case("matmul", random([2, 5, 9], dtype, seed=1), random([2, 9, 6], dtype, seed=2), _k=9)
        case("linear", random([5, 9], dtype, seed=1), random([6, 9], dtype, seed=2), random([6], dtype), _k=9)
    for m, k, n in ((64, 96, 80), (1, 300, 50), (129, 65, 1), (33, 257, 70)):
        case("matmul", Generated([m, k], 21), Generated([k, n], 22), _k=max(m, k, n))
        case("linear", Generated([m, k], 21), Generated([n, k], 22), Generated([n], 23), _k=max(m, k, n))
    case("matmul", Generated([6, 20, 30], 24), Generated([6, 30, 25], 25), _k=30)
    case("matmul", values(INF, 1.0, NAN, 0.0).reshape(2, 2), values(1.0, 2.0, 0.0, 1.0).reshape(2, 2))
    for a, b in (([2, 3], [2, 3]), ([3], [4]), ([2, 2, 3], [3, 3, 4]), ([], [3])):
        case("matmul", random(a), random(b), raises=True)
    case("matmul", random([2, 3]), random([3, 2], "float64"), raises=True)
    case("linear", random([4, 3]), random([2, 3]))
    case("linear", random([3]), random([2, 3]), random([2]))
    case("linear", random([2, 4, 3]), random([5, 3]), random([5]))
    case("linear", random([0, 3]), random([2, 3]), random([2]))
    case("linear", random([4, 3]), random([2, 4]), raises=True)


def indexing(case):
    ids = values(2, 0, 2, 1, dtype="int64")
    for dtype in DTYPES:
        case("gather", random([3, 4], dtype), random([2, 4], "int64", 0, 2), dim=0)
        case("index_select", random([3, 4], dtype), ids, dim=0)
    case("gather", random([3, 4]), random([3, 6], "int64", 0, 3), dim=1)
    case("gather", random([3, 4]), random([2, 2], "int64", 0, 3), dim=-1)
    case("gather", random([2, 3, 4]), random([2, 5, 3], "int64", 0, 2), dim=1)
    case("gather", random([3, 4]), random([0, 4], "int64"), dim=0)
    case("gather", random([]), values(0, dtype="int64").reshape([]), dim=0)
    case("gather", random([3, 4]), values(3, dtype="int64").reshape(1, 1), dim=0, raises=True)
    case("gather", random([3, 4]), values(-1, dtype="int64").reshape(1, 1), dim=0, raises=True)
    case("gather", random([3, 4]), random([3, 4]), dim=0, raises=True)
    case("index_select", random([3, 4]), ids, dim=1)
    case("index_select", random([2, 3, 4]), values(1, 1, dtype="int64"), dim=-2)
    case("index_select", random([5]), ids, dim=0)
    case("index_select", random([3, 4]), random([0], "int64"), dim=0)
    case("index_select", random([3, 4]), values(1, 0, dtype="int32"), dim=0)
    case("index_select", random([3, 4]), values(3, dtype="int64"), dim=0, raises=True)
    case("index_select", Generated([50, 40], 31), random([70], "int64", 0, 49), dim=0)
    for dtype in FLOATS:
        case("embedding", ids, random([3, 5], dtype))
    case("embedding", random([2, 3], "int64", 0, 6), random([7, 4]))
    case("embedding", random([2, 3], "int64", 0, 2), random([3, 4]), padding_idx=1)
    case("embedding", values(1, 1, 1, dtype="int64"), random([3, 2]), padding_idx=1)
    case("embedding", values(1, dtype="int64").reshape([]), random([3, 2]))
    case("embedding", random([0], "int64"), random([3, 2]))
    case("embedding", random([6, 11], "int64", 0, 99), Generated([100, 16], 32))
    case("embedding", values(3, dtype="int64"), random([3, 2]), raises=True)
    case("embedding", values(2, 0, dtype="int32"), random([3, 2]))
    case("one_hot", ids, classes=4)
    case("one_hot", random([2, 3], "int64", 0, 4), classes=5)
    case("one_hot", random([0], "int64"), classes=3)
    case("one_hot", values(5, dtype="int64"), classes=3, raises=True)
    for a, b in ((random([2, 3]), random([2, 3])), (random([2, 3]), random([3, 2])), (values(NAN), values(NAN)),
                 (values(1.0, 2.0), values(1.0, 3.0)), (values(0.0), values(-0.0)), (random([0]), random([0]))):
        case("equal", a, b)
    for a, b in ((1.0, 1.000009), (1.0, 1.1), (NAN, NAN), (INF, INF), (INF, -INF), (0.0, 1e-9), (0.0, 1e-7)):
        case("allclose", values(a), values(b))
    case("allclose", values(1.0), values(1.05), rtol=0.1)


def convolution(case):
    def conv(x, w, bias=True, dtype="float32", stored=True, raises=None, **a):
        # Sums: of a window forward, of all positions for the weight's gradient.
        k = max(w[1] * w[2] * w[3], x[0] * x[2] * x[3], w[0])
        make = (lambda s, n: random(s, dtype, -1, 1, seed=n)) if stored else (
            lambda s, n: Generated(s, 40 + n, bits=8, dtype=dtype))
        extra = {"raises": True} if raises else {}
        case("conv2d", make(x, 1), make(w, 2), make([w[0]], 3) if bias else None, _k=k, **a, **extra)

    conv([1, 1, 4, 4], [1, 1, 3, 3])
    conv([2, 3, 5, 7], [4, 3, 3, 3])
    conv([2, 3, 5, 7], [4, 3, 3, 3], bias=False, padding=1)
    conv([2, 3, 6, 6], [4, 3, 1, 1])
    conv([2, 3, 6, 6], [4, 3, 1, 1], stride=2, bias=False)
    conv([1, 2, 7, 9], [3, 2, 3, 5], padding=[1, 2], stride=[2, 1])
    conv([1, 2, 9, 9], [3, 2, 3, 3], dilation=2)
    conv([1, 2, 9, 8], [2, 2, 3, 2], dilation=[3, 2], padding=[2, 1], stride=2)
    conv([2, 4, 5, 5], [6, 2, 3, 3], groups=2, padding=1)
    conv([2, 4, 5, 5], [4, 1, 3, 3], groups=4, padding=1)
    conv([2, 4, 5, 5], [8, 1, 3, 3], groups=4, padding=1, stride=2)
    conv([1, 6, 8, 8], [6, 1, 5, 5], groups=6, padding=4, dilation=2, bias=False)
    conv([1, 6, 6, 6], [9, 2, 1, 1], groups=3)
    conv([1, 2, 2, 2], [2, 2, 3, 3], padding=2)
    conv([1, 2, 3, 3], [2, 2, 3, 3])
    conv([1, 2, 5, 5], [2, 2, 2, 2], stride=3)
    conv([0, 2, 5, 5], [2, 2, 3, 3])
    conv([1, 1, 1, 9], [2, 1, 1, 3], padding=[0, 1])
    conv([3, 1, 28, 28], [6, 1, 5, 5], stored=False, padding=2)
    conv([2, 3, 32, 32], [16, 3, 7, 7], stored=False, padding=3, stride=2, bias=False)
    conv([2, 16, 14, 14], [32, 16, 3, 3], stored=False, padding=1, bias=False)
    conv([2, 32, 9, 9], [16, 32, 1, 1], stored=False, bias=False)
    conv([2, 32, 9, 9], [32, 1, 3, 3], stored=False, padding=1, groups=32)
    conv([1, 17, 13, 11], [19, 17, 3, 3], stored=False, padding=1, stride=2)
    conv([1, 24, 10, 10], [40, 6, 3, 3], stored=False, padding=2, dilation=2, groups=4)
    for dtype in FLOATS[1:]:
        conv([2, 3, 5, 5], [4, 3, 3, 3], dtype=dtype, padding=1)
        conv([1, 4, 5, 5], [4, 1, 3, 3], dtype=dtype, groups=4)
        conv([1, 3, 6, 6], [4, 3, 1, 1], dtype=dtype, stride=2)
    conv([1, 2, 2, 2], [2, 2, 3, 3], raises=True)
    conv([1, 3, 4, 4], [2, 2, 3, 3], raises=True)
    conv([1, 3, 4, 4], [2, 1, 3, 3], groups=2, raises=True)


def pooling(case):
    tied = torch.ones([1, 1, 4, 4])
    special = random([1, 1, 4, 4])
    special[0, 0, 1, 1] = NAN
    special[0, 0, 3, 3] = INF
    for op in ("max_pool2d", "avg_pool2d"):
        x = random([2, 3, 7, 8])
        case(op, x, kernel=2)
        case(op, x, kernel=3, stride=2)
        case(op, x, kernel=3, stride=2, padding=1)
        case(op, x, kernel=[2, 3], stride=[1, 2], padding=[1, 0])
        case(op, x, kernel=3, stride=2, ceil=True)
        case(op, x, kernel=3, stride=2, padding=1, ceil=True)
        case(op, x, kernel=2, stride=3, ceil=True)
        case(op, x, kernel=1)
        case(op, x, kernel=[7, 8])
        case(op, random([1, 2, 5, 5]), kernel=2, stride=1)
        case(op, random([0, 2, 5, 5]), kernel=2)
        case(op, tied, kernel=3, stride=1)
        case(op, special, kernel=2)
        for dtype in FLOATS[1:]:
            case(op, random([1, 3, 6, 5], dtype), kernel=3, stride=2, padding=1)
        case(op, Generated([2, 16, 30, 31], 51), kernel=3, stride=2, padding=1)
        case(op, x, kernel=9, raises=True)
        case(op, x, kernel=2, padding=2, raises=True)
    case("max_pool2d", random([1, 1, 4, 4]) - 10, kernel=3, stride=2, padding=1)
    case("max_pool2d", random([1, 2, 8, 8]), kernel=3, dilation=2)
    case("max_pool2d", random([1, 2, 8, 9]), kernel=2, stride=2, dilation=[3, 2], padding=1)
    case("max_pool2d", random([1, 2, 8, 9]), kernel=2, stride=2, dilation=[3, 2], padding=1, ceil=True)
    for ceil in (False, True):
        for stride in (1, 2, 3):
            case("avg_pool2d", random([1, 2, 6, 7]), kernel=3, stride=stride, padding=1, ceil=ceil,
                 count_include_pad=False)
            case("avg_pool2d", random([1, 2, 6, 7]), kernel=[3, 2], stride=stride, padding=1, ceil=ceil)
    for size in (1, [1, 1], 2, 3, [2, 5], [5, 4], [7, 8], [9, 11]):
        case("adaptive_avg_pool2d", random([2, 3, 7, 8]), size=size)
    for dtype in FLOATS[1:]:
        case("adaptive_avg_pool2d", random([2, 3, 5, 6], dtype), size=[2, 3])
    case("adaptive_avg_pool2d", Generated([3, 20, 12, 12], 52), size=1)


def norms(case):
    def bn(x, training, affine=True, running=True, dtype="float32", make=random, **a):
        c = x[1]
        one = [random([c], dtype, 0.5, 2, seed=3), random([c], dtype, seed=4)] if affine else [None, None]
        stats = [random([c], dtype, seed=1), random([c], dtype, 0.5, 2, seed=2)] if running else [None, None]
        t = make(x, dtype, seed=0) if make is random else make(x, 61, offset=1.0)
        case("batch_norm", t, *stats, *one, training=training, _grad=[0, 3, 4], **a)

    for training in (True, False):
        bn([4, 3, 2, 2], training)
        bn([2, 5, 3, 4], training)
        bn([6, 3], training)
        bn([2, 3, 4], training)
        bn([2, 3, 2, 3, 2], training)
        bn([3, 2, 2, 2], training, affine=False)
        bn([3, 2, 2, 2], training, momentum=0.4, eps=1e-3)
        bn([3, 2, 2, 2], training, dtype="float64")
        bn([3, 4, 3, 3], training, dtype="bfloat16")
        bn([4, 16, 9, 10], training, make=Generated)
    bn([3, 2, 2, 2], True, running=False)
    bn([3, 2, 2, 2], True, affine=False, running=False)
    case("batch_norm", torch.ones([4, 2, 2, 2]), None, None, None, None, training=True)
    for x, s in (([3, 5], [5]), ([2, 3, 4], [4]), ([2, 3, 4], [3, 4]), ([2, 3, 4], [2, 3, 4]), ([7], [7]),
                 ([0, 4], [4])):
        case("layer_norm", random(x), random(s, seed=1), random(s, seed=2), shape=s)
        case("layer_norm", random(x), shape=s)
    for dtype in FLOATS[1:]:
        case("layer_norm", random([4, 9], dtype), random([9], dtype, seed=1), random([9], dtype, seed=2), shape=[9])
    case("layer_norm", random([3, 5]), random([5], seed=1), shape=[5], eps=1e-2)
    case("layer_norm", Generated([20, 130], 62, offset=5.0), Generated([130], 63), Generated([130], 64), shape=[130])
    case("layer_norm", torch.ones([2, 4]), shape=[4])
    case("layer_norm", random([3, 5]), shape=[4], raises=True)
    case("dropout", random([3, 4]), p=0.5, training=False)
    case("dropout", random([3, 4]), p=0.0, training=True)
    case("dropout", random([3, 4]), p=1.0, training=True)


def losses(case):
    target = values(1, 0, 4, 1, dtype="int64")
    skipped = values(1, 2, 4, 2, dtype="int64")
    x = random([4, 5])
    for r in ("mean", "sum", "none"):
        for op in ("cross_entropy", "nll_loss"):
            case(op, x, target, reduction=r)
            case(op, x, skipped, reduction=r, ignore_index=2)
            case(op, random([2, 3, 4]), random([2, 4], "int64", 0, 2), reduction=r)
            case(op, random([2, 3, 2, 3]), random([2, 2, 3], "int64", 0, 2), reduction=r, ignore_index=1)
            case(op, random([0, 3]), random([0], "int64"), reduction=r)
        for smoothing in (0.1, 1.0):
            case("cross_entropy", x, target, reduction=r, label_smoothing=smoothing)
            case("cross_entropy", x, skipped, reduction=r, ignore_index=2, label_smoothing=smoothing)
        case("cross_entropy", random([2, 3, 4]), random([2, 4], "int64", 0, 2), reduction=r, label_smoothing=0.2)
        case("mse_loss", random([3, 4], seed=1), random([3, 4], seed=2), reduction=r)
        case("mse_loss", random([], seed=1), random([], seed=2), reduction=r)
        case("mse_loss", random([0]), random([0]), reduction=r)
    for op in ("cross_entropy", "nll_loss"):
        case(op, x, torch.full([4], 2, dtype=torch.int64), ignore_index=2)
        case(op, x, values(1, 5, 0, 0, dtype="int64"), raises=True)
        case(op, x, values(1, -1, 0, 0, dtype="int64"), raises=True)
        case(op, x, values(1, 0, dtype="int64"), raises=True)
        case(op, x, values(1, -100, 3, 0, dtype="int64"))
        for dtype in FLOATS[1:]:
            case(op, random([4, 5], dtype), target)
        case(op, Generated([40, 30], 71, scale=4.0), random([40], "int64", 0, 29))
    for dtype in FLOATS[1:]:
        case("cross_entropy", random([4, 5], dtype), target, label_smoothing=0.1)
        case("mse_loss", random([3, 4], dtype, seed=1), random([3, 4], dtype, seed=2))
    case("cross_entropy", values(1000.0, -1000.0, 0.0).reshape(1, 3), values(1, dtype="int64"))
    case("cross_entropy", values(INF, 0.0, 0.0).reshape(1, 3), values(1, dtype="int64"))
    case("mse_loss", Generated([30, 40], 72), Generated([30, 40], 73))


GROUPS = {"creation": creation, "shape": shape, "reduce": reduce, "linalg": linalg, "indexing": indexing,
          "convolution": convolution, "pooling": pooling, "norms": norms, "losses": losses}
