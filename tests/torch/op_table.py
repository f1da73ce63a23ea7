"""The table of op cases that tools/make_fixtures.py computes with PyTorch and test_torch with Pippin.

A new case is a new line here or in one of op_table_*.py. A new op also needs a line in FUNCTIONS and one in
dispatch*.cpp.

Known deliberate differences and what is left out:
- rand, uniform, randn, normal, bernoulli, randint and dropout with p > 0: other random numbers.
- norm with p < 1 other than 0, and complex, quantised and sparse tensors: Pippin has none.
- `dims` of reductions: an empty list means all dims, as it does in most of PyTorch's.
- any and all of uint8 are bool, not uint8.
- gelu of infinities: vectorised kernels of PyTorch give NaN.
- pow(-0., 0.5) has PyTorch's rsqrt in it, whose result at -0. is -inf, where C's pow gives inf.
- pow of a bool tensor by a bool number is not refused by PyTorch.
- max_pool2d windows that see padding alone (dilation only): PyTorch 2.15's gradient writes outside of
  the input for them. Pippin's goes nowhere.
- prod over several dims: PyTorch's takes one dim; the table chains them.
"""
import importlib
import math
import pathlib

import torch
import torch.nn.functional as F
from make_fixtures import DTYPES, Generated, NAME_OF, random

INF, NAN = math.inf, math.nan
FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTS = ["int64", "int32", "uint8"]


def values(*v, dtype="float32"):
    return torch.tensor(v, dtype=DTYPES[dtype])


def unwrap(v):
    return float(v) if isinstance(v, str) else v


def dims_of(dims):
    return tuple(dims) if dims else None


def reduction(f):
    return lambda x, dims=[], keepdim=False, **a: f(x, dim=dims_of(dims), keepdim=keepdim, **a)


def prod(x, dims=[], keepdim=False):
    for d in sorted((d % x.dim() for d in (dims or range(x.dim()))), reverse=True):
        x = x.prod(d, keepdim=keepdim)
    return x.prod() if x.dim() == 0 and not dims else x


def moments(f):
    def call(x, dims=[], correction=1, keepdim=False):
        return f(x, dim=dims_of(dims), correction=correction, keepdim=keepdim)
    return call


def index_of(items):
    """... is "...", a new axis null, a slice [start, stop, step], an integer itself."""
    of = {"...": Ellipsis, None: None}
    return tuple(slice(*i) if isinstance(i, list) else of.get(i, i) if not isinstance(i, int) else i
                 for i in items)


def index_put(x, value, at):
    y = x.clone()
    y[index_of(at)] = value
    return y


def in_place(f):
    def call(x, other):
        y = x.clone()
        f(y, other)
        return y
    return call


def batch_norm(x, mean, var, weight, bias, training, momentum=0.1, eps=1e-5):
    mean, var = (None if t is None else t.detach().clone() for t in (mean, var))
    y = F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)
    return [y] + [t for t in (mean, var) if t is not None]


def promotion(op, left, right, raises=False):
    """An op on ones of the kinds "dtype/rank" or "bool", "int", "real"."""
    one = {"bool": True, "int": 1, "real": 1.0}
    a, b = (one[k] if k in one else
            torch.ones([1] * int(k[-1]), dtype=DTYPES[k[:-2]]) for k in (left, right))
    return FUNCTIONS[op](a, b)


def pool(f, names):
    def call(x, kernel, **a):
        return f(x, kernel, **{names.get(k, k): v for k, v in a.items()})
    return call


def cross_entropy(x, y, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    return F.cross_entropy(x, y, reduction=reduction, ignore_index=ignore_index,
                           label_smoothing=label_smoothing)


def typed(f):
    return lambda *t, dtype=None, **a: f(*t, **({"dtype": DTYPES[dtype]} if dtype else {}), **a)


FUNCTIONS = {
    # creation
    "zeros": typed(lambda shape, **a: torch.zeros(shape, **a)),
    "ones": typed(lambda shape, **a: torch.ones(shape, **a)),
    "full": typed(lambda shape, value, dtype=torch.float32: torch.full(shape, value, dtype=dtype)),
    "zeros_like": torch.zeros_like, "ones_like": torch.ones_like,
    "full_like": lambda x, value: torch.full_like(x, value),
    "arange": typed(lambda start, end, step=1, **a: torch.arange(start, end, step, **a)),
    "linspace": typed(lambda start, end, steps, **a: torch.linspace(start, end, steps, **a)),
    "eye": typed(lambda n, **a: torch.eye(n, **a)),
    "scalar": typed(lambda value, **a: torch.tensor(value, **a)),
    "runtime_scalar": typed(lambda value, **a: torch.tensor(value, **a)),
    # binary
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "add_alpha": lambda a, b, alpha: torch.add(a, b, alpha=alpha),
    "pow": torch.pow, "remainder": torch.remainder, "maximum": torch.maximum,
    "minimum": torch.minimum, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "logical_not": torch.logical_not,
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "where": torch.where,
    "clamp": lambda x, low=None, high=None: torch.clamp(x, low, high),
    "promotion": promotion,
    # unary
    **{name: getattr(torch, name) for name in (
        "neg abs sign exp log sqrt rsqrt reciprocal square sin cos erf floor ceil round isnan "
        "isfinite tanh sigmoid relu").split()},
    "cast": lambda x, dtype: x.to(DTYPES[dtype]),
    "leaky_relu": lambda x, negative_slope=0.01: F.leaky_relu(x, negative_slope),
    "gelu": lambda x, kind="none": F.gelu(x, approximate=kind), "silu": F.silu,
    # shape
    "reshape": lambda x, shape: x.reshape(shape),
    "flatten": lambda x, start=0, end=-1: x.flatten(start, end),
    "permute": lambda x, dims: x.permute(dims), "transpose": lambda x, a, b: x.transpose(a, b),
    "t": lambda x: x.t(), "squeeze": lambda x, dim=None: x.squeeze() if dim is None else x.squeeze(dim),
    "unsqueeze": lambda x, dim: x.unsqueeze(dim), "expand": lambda x, shape: x.expand(shape),
    "flip": lambda x, dims: x.flip(dims), "narrow": lambda x, dim, start, length: x.narrow(dim, start, length),
    "cat": lambda *x, dim=0: torch.cat(x, dim), "stack": lambda *x, dim=0: torch.stack(x, dim),
    "split": lambda x, size, dim=0: list(x.split(size, dim)),
    "pad": lambda x, amounts, value=0.0: F.pad(x, amounts, value=value),
    "index": lambda x, at: x[index_of(at)], "index_put_": index_put, "select": lambda x, i: x[i],
    "add_": in_place(lambda y, o: y.add_(o)), "sub_": in_place(lambda y, o: y.sub_(o)),
    "mul_": in_place(lambda y, o: y.mul_(o)), "div_": in_place(lambda y, o: y.div_(o)),
    "assign_": in_place(lambda y, o: y.copy_(o)), "fill_": in_place(lambda y, o: y.fill_(o)),
    # reductions
    "sum": reduction(torch.sum), "mean": reduction(torch.mean), "prod": prod,
    "var": moments(torch.var), "std": moments(torch.std),
    "norm": lambda x, p=2, dims=[], keepdim=False: torch.linalg.vector_norm(
        x, unwrap(p), dims_of(dims), keepdim),
    "amax": lambda x, dims=[], keepdim=False: torch.amax(x, tuple(dims), keepdim),
    "amin": lambda x, dims=[], keepdim=False: torch.amin(x, tuple(dims), keepdim),
    "max": torch.max, "min": torch.min,
    "argmax": lambda x, dim=None, keepdim=False: torch.argmax(x, dim, keepdim),
    "argmin": lambda x, dim=None, keepdim=False: torch.argmin(x, dim, keepdim),
    "any": reduction(lambda x, **a: torch.any(x, **a).bool()),
    "all": reduction(lambda x, **a: torch.all(x, **a).bool()),
    "softmax": lambda x, dim: torch.softmax(x, dim),
    "log_softmax": lambda x, dim: torch.log_softmax(x, dim),
    "logsumexp": lambda x, dim, keepdim=False: torch.logsumexp(x, dim, keepdim),
    # linear algebra, indexing
    "matmul": torch.matmul, "linear": F.linear,
    "gather": lambda x, index, dim: x.gather(dim, index),
    "index_select": lambda x, index, dim: x.index_select(dim, index),
    "embedding": lambda ids, w, padding_idx=None: F.embedding(ids, w, padding_idx),
    # convolution, pooling, norms
    "conv2d": lambda x, w, b=None, **a: F.conv2d(x, w, b, **a),
    "max_pool2d": pool(F.max_pool2d, {"ceil": "ceil_mode"}),
    "avg_pool2d": pool(F.avg_pool2d, {"ceil": "ceil_mode"}),
    "adaptive_avg_pool2d": lambda x, size: F.adaptive_avg_pool2d(x, size),
    "batch_norm": batch_norm,
    "layer_norm": lambda x, w=None, b=None, shape=None, eps=1e-5: F.layer_norm(x, shape, w, b, eps),
    "dropout": lambda x, p, training: F.dropout(x, p, training),
    # losses
    "cross_entropy": cross_entropy,
    "nll_loss": lambda x, y, **a: F.nll_loss(x, y, **a), "mse_loss": lambda x, y, **a: F.mse_loss(x, y, **a),
    "one_hot": lambda x, classes: F.one_hot(x, classes),
    "equal": lambda a, b: torch.tensor(torch.equal(a, b)),
    "allclose": lambda a, b, rtol=1e-5, atol=1e-8: torch.tensor(torch.allclose(a, b, rtol, atol)),
}


def refusing(functions):
    """A refused call is a case of its own: the argument only marks it."""
    return {name: (lambda f: lambda *t, raises=False, **a: f(*t, **a))(f) for name, f in functions.items()}


FUNCTIONS = refusing(FUNCTIONS)
SPECIAL = values(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 1e-30, -1e-30, 88.0, -110.0)
FINITE = torch.cat([SPECIAL[:1], SPECIAL[3:]])


def unary(case):
    ranged = {"log": (0.05, 4), "sqrt": (0.05, 4), "rsqrt": (0.05, 4), "reciprocal": (0.3, 3)}
    ops = ("neg abs sign exp log sqrt rsqrt reciprocal square sin cos erf floor ceil round isnan "
           "isfinite tanh sigmoid relu leaky_relu gelu silu").split()
    for op in ops:
        low, high = ranged.get(op, (-2.5, 2.5))
        for shape in ([], [0], [3], [2, 3, 5]):
            case(op, random(shape, "float32", low, high))
        for dtype in FLOATS[1:]:
            # Half types: PyTorch rounds each factor of rsqrt's gradient.
            case(op, random([3, 7], dtype, low, high), _k=2 if op == "rsqrt" else 1)
        case(op, FINITE if op == "gelu" else SPECIAL)
        case(op, Generated([37, 129], 3, scale=1.0, offset=2.0 if op in ranged else 0.0))
        if op not in ("leaky_relu", "gelu", "silu"):
            for dtype in INTS:
                case(op, random([5], dtype, -3, 3))
    for op in "logical_not isnan isfinite abs sqrt exp".split():
        if op != "abs":
            case(op, random([4], "bool"))
    case("logical_not", SPECIAL)
    case("logical_not", random([2, 3], "int64", -1, 1))
    for slope in (0.2, 0.0, 1.0):
        case("leaky_relu", random([9]), negative_slope=slope)
    for dtype in FLOATS:
        case("gelu", random([3, 5], dtype), kind="tanh")
    case("gelu", FINITE, kind="tanh")
    case("neg", random([3], "bool"), raises=True)
    for a in DTYPES:
        for b in DTYPES:
            low = 0 if a == "uint8" or b == "uint8" else -3
            case("cast", random([2, 4], a, low, 3), dtype=b)
    case("cast", values(NAN, INF, 0.0, -0.0, 1e-40, 1e30), dtype="bool")
    case("cast", values(NAN, INF, 70000.0, 1e-8, 3.4e38, 1.00390625, 1.01171875), dtype="float16")
    case("cast", values(NAN, INF, 70000.0, 1e-8, 3.4e38, 1.00390625, 1.01171875), dtype="bfloat16")
    case("cast", values(2**31 + 5, -(2**31) - 1, 300, -1, dtype="int64"), dtype="int32")
    case("cast", values(2**31 + 5, 256, 300, -1, dtype="int64"), dtype="uint8")


def binary(case):
    both = "add sub mul div eq ne lt le gt ge pow remainder maximum minimum".split()
    shapes = [([], []), ([0], [1]), ([3], [3]), ([2, 3], [3]), ([2, 1, 3], [4, 1]), ([], [2, 2]), ([3, 1], [1, 5])]
    for op in both:
        low = 0.2 if op in ("pow", "remainder", "div") else -2
        for n, (a, b) in enumerate(shapes):
            case(op, random(a, low=low, seed=1), random(b, low=low, seed=2))
        for dtype in FLOATS[1:]:
            case(op, random([2, 5], dtype, low, seed=1), random([5], dtype, low, seed=2))
        for dtype in INTS:
            case(op, random([2, 3], dtype, -3, 4, seed=1), random([3], dtype, 1, 4, seed=2))
        case(op, random([4], "int64", 0, 3), random([4], "float32", 0.5))
        case(op, Generated([65, 67], 5, offset=2.0), Generated([67], 6, offset=2.0))
        if op not in ("maximum", "minimum"):
            for number in (2, 2.5):
                case(op, random([5], "float32", 0.2), number)
                case(op, number, random([5], "float32", 0.2), _grad=op != "remainder")
                case(op, random([3], "float16", 0.2), number)
                case(op, random([3], "int64", 1, 3), number)
                case(op, number, random([3], "int32", 1, 3))
        grid = values(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5)
        case(op, grid.reshape(8, 1), grid)
        if op in ("maximum", "minimum", "eq"):
            case(op, values(1, 2, 2, 0), values(1, 2, 3, -0.0))  # ties
    for exponent in (0, 1, 2, 3, -1, 0.5, -0.5, 2.0, 1.5, NAN, INF):
        zeros = [0.0] if exponent in (0.5, -0.5) else [0.0, -0.0]
        case("pow", values(*zeros, 1.0, 2.0, 0.25, INF, NAN), exponent)
    for exponent in (0, 1, 2, 3, 5):
        case("pow", values(0, 1, -2, 3, 4, dtype="int64"), exponent)
        case("pow", values(-1.5, 0, 2, dtype="float64"), exponent)
    case("pow", values(0.0, 0.0, 0.0, 2.0, -2.0), values(0.0, 1.0, 2.0, 0.0, 3.0))
    case("pow", 0.0, values(0.0, 1.0, 2.0))
    case("pow", values(2, 3, -1, 1, dtype="int64"), values(3, 0, 3, -2, dtype="int64"))
    case("remainder", values(7, -7, 7, -7, dtype="int64"), values(3, 3, -3, -3, dtype="int64"))
    case("remainder", values(7.5, -7.5, 7.5, -7.5, 0, 3), values(2, 2, -2, -2, 3, INF))
    case("remainder", values(-7, 7, 0), 3)
    big = values(2**63 - 1, -(2**63), 2**62, dtype="int64")
    case("add", big, 1)
    case("mul", big, 2)
    case("sub", big, 3)
    case("neg", big)
    case("add", values(250, 3, dtype="uint8"), values(10, 4, dtype="uint8"))
    case("sub", values(3, 4, dtype="uint8"), values(10, 4, dtype="uint8"))
    case("mul", values(2**30, -(2**31), dtype="int32"), values(4, -1, dtype="int32"))
    case("lt", big, values(2**63 - 2, 0, 2**62 + 1, dtype="int64"))
    case("eq", values(2**53 + 1, dtype="int64"), values(2**53, dtype="int64"))
    for op in ("add", "mul", "div", "eq"):
        case(op, random([2, 3]), random([2]), raises=True)
    for alpha in (2, -0.5):
        case("add_alpha", random([2, 3], seed=1), random([3], seed=2), alpha=alpha)
    case("add_alpha", random([3], "int64"), random([3], "int64", seed=2), alpha=3)
    case("add_alpha", random([3], "bfloat16"), random([3], "bfloat16", seed=2), alpha=0.5)
    for op in ("logical_and", "logical_or", "logical_xor"):
        for dtype in DTYPES:
            case(op, random([2, 6], dtype, -1, 1, seed=1).round() if dtype in FLOATS
                 else random([2, 6], dtype, -1, 1, seed=1), random([6], dtype, -1, 1, seed=2))
        case(op, SPECIAL, random([16], "bool"))
        case(op, random([], "bool"), random([0], "bool"))
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        for dtype in ["bool"] + INTS:
            case(op, random([3, 4], dtype, -100, 100, seed=1), random([4], dtype, -100, 100, seed=2))
        case(op, random([4], "int32", 0, 9), random([4], "uint8", 0, 9))
        case(op, random([4], "int64", 0, 9), 6)
        case(op, random([4]), random([4]), raises=True)
    for op in ("add_", "sub_", "mul_", "div_"):
        case(op, random([2, 3], seed=1), random([3], "float32", 0.5, seed=2))
        case(op, random([2, 3], "float16", seed=1), random([3], "float32", 0.5, seed=2), _grad=False)
        case(op, random([4], "float64"), 3)
        if op == "div_":
            case(op, random([3], "int64", 1, 9), 2, raises=True)
        else:
            case(op, random([3], "int64", 1, 9), 2)
        case(op, random([3], "int64", 1, 9), random([3]), raises=True)
        case(op, random([3]), random([2, 3]), raises=True)


def select(case):
    for dtype in DTYPES:
        case("where", random([2, 4], "bool"), random([2, 4], dtype, seed=1), random([4], dtype, seed=2))
        if dtype != "bool":
            case("clamp", random([2, 5], dtype, -4, 4), low=0, high=2)
    case("where", random([3, 1], "bool"), random([1, 4], seed=1), random([], seed=2))
    case("where", random([], "bool"), random([3], seed=1), random([2, 1], seed=2))
    case("where", random([0], "bool"), random([1]), random([1]))
    case("where", random([5], "bool"), random([5]), 0.5)
    case("where", random([5], "bool"), 1, random([5], "int64"))
    case("where", random([5], "bool"), 1.5, random([5], "int64"))
    case("where", values(True, False, dtype="bool"), values(1.0, NAN), values(NAN, 2.0))
    case("where", random([3], "bool"), random([3], "int64"), random([3]))
    case("where", random([40, 1], "bool"), Generated([40, 50], 5), Generated([50], 6))
    edges = values(NAN, INF, -INF, -1.0, 1.0, 0.0, -0.0, 0.5, 3.0)
    for low, high in ((-1.0, 1.0), (None, 1.0), (-1.0, None), (2.0, -2.0)):
        case("clamp", edges, low=low, high=high, _grad=False)
        inside = torch.tensor([v for v in edges.tolist() if v == v and v not in (low, high)])
        case("clamp", inside, low=low, high=high)
    case("clamp", random([3], "int64", -3, 3), low=-1)
    case("clamp", random([3], "int64", -3, 3), low=-0.5, high=1.5)
    case("clamp", random([]), low=0.0)
    case("clamp", random([0, 3]), high=0.0)


def promote(case):
    kinds = [f"{d}/{r}" for d in DTYPES for r in (0, 1)]
    import warnings
    warnings.simplefilter("ignore")
    for op in "add sub mul div pow remainder maximum eq lt logical_and bitwise_and".split():
        pairs = [(a, b) for a in kinds for b in kinds if a[-1] == "1" or b[-1] == "1" or op == "add"]
        if op != "maximum":
            pairs += [(a, s) for a in kinds for s in ("bool", "int", "real")]
            if op != "logical_and":
                pairs += [(s, a) for a in kinds for s in ("bool", "int", "real")]
        if op == "logical_and":
            pairs = [p for p in pairs if "/" in p[1]]
        if op == "pow":
            pairs = [p for p in pairs if p[0][:4] != "bool" or p[1] != "bool"]
        table = {}
        for a, b in pairs:
            try:
                table[f"{a} {b}"] = NAME_OF[promotion(op, a, b).dtype]
            except (RuntimeError, TypeError):
                table[f"{a} {b}"] = "error"
        case.cases.append({"id": f"promotion {op}", "op": "promotion", "args": {"op": op, "table": table},
                           "in": [], "out": []})


def groups():
    """Every group of cases, by the name of its file. Each op_table_*.py has GROUPS and may have
    FUNCTIONS of its own."""
    found = {"unary": unary, "binary": binary, "select": select, "promotion": promote}
    for path in sorted(pathlib.Path(__file__).parent.glob("op_table_*.py")):
        module = importlib.import_module(path.stem)
        FUNCTIONS.update(refusing(getattr(module, "FUNCTIONS", {})))
        found.update(module.GROUPS)
    return found
