"""Cases of attention; see op_table.py. Dropout draws other random numbers and is tested elsewhere."""
import torch
import torch.nn.functional as F
from make_fixtures import Generated, random
from op_table import FLOATS, INF, NAN, values


def sdpa(q, k, v, mask=None, causal=False, scale=None):
    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale)


def attention(case):
    def some(q, k=None, ev=None, dtype="float32", mask=None, **a):
        k = k or q
        v = [*k[:-1], ev or k[-1]]
        case("scaled_dot_product_attention", random(q, dtype, seed=1), random(k, dtype, seed=2),
             random(v, dtype, seed=3), mask, _k=max(q[-1], k[-2]), **a)

    some([2, 3, 5, 4])
    some([5, 4])
    some([3, 5, 4])
    some([2, 3, 5, 4], [2, 3, 7, 4])
    some([1, 2, 5, 4], [1, 2, 7, 4], ev=6)
    some([2, 1, 5, 4], [1, 3, 7, 4])
    some([2, 1, 1, 4], [2, 1, 1, 4])
    some([1, 1, 3, 1])
    some([2, 0, 5, 4])
    some([1, 2, 0, 4], [1, 2, 3, 4])
    for dtype in FLOATS:
        for grad in (True, False):  # without gradients Pippin takes its kernel
            some([1, 2, 6, 4], dtype=dtype, _grad=grad)
            some([1, 2, 6, 4], dtype=dtype, causal=True, _grad=grad)
            some([1, 2, 6, 4], dtype=dtype, mask=random([6, 6], "bool", seed=5), _grad=grad)
            some([1, 2, 6, 4], dtype=dtype, mask=random([6, 6], dtype, seed=5), _grad=grad)
    for q, k in (([1, 1, 4, 3], [1, 1, 7, 3]), ([1, 1, 7, 3], [1, 1, 4, 3]), ([2, 6, 6], [2, 6, 6])):
        some(q, k, causal=True)
        some(q, k, causal=True, scale=0.5)
    for scale in (1.0, -0.25, 0.0, 3.0):
        some([1, 2, 5, 4], scale=scale)
    some([2, 3, 5, 4], mask=random([2, 1, 1, 5], "bool", seed=8))
    some([2, 3, 5, 4], mask=random([1, 3, 5, 5], seed=8))
    some([2, 3, 5, 4], mask=random([5], seed=8))
    one_dead = torch.ones([4, 5], dtype=torch.bool)
    one_dead[2] = False
    one_dead[1, 3:] = False
    some([2, 4, 3], [2, 5, 3], mask=one_dead)
    some([1, 2, 4, 3], [1, 2, 5, 3], mask=one_dead)
    some([2, 4, 3], [2, 5, 3], mask=torch.zeros([4, 5], dtype=torch.bool))
    added = torch.zeros([4, 5]).masked_fill(~one_dead, -INF)
    case("scaled_dot_product_attention", random([2, 4, 3], seed=1), random([2, 5, 3], seed=2),
         random([2, 5, 3], seed=3), added, _grad=[0, 1, 2])
    case("scaled_dot_product_attention", random([2, 4, 3], seed=1) * 100, random([2, 5, 3], seed=2) * 100,
         random([2, 5, 3], seed=3), _grad=False)
    case("scaled_dot_product_attention", values(NAN, 1.0).reshape(2, 1), values(1.0, 2.0).reshape(2, 1),
         values(1.0, 2.0).reshape(2, 1))
    big = [Generated([1, 2, 70, 32], 80 + i) for i in range(3)]
    case("scaled_dot_product_attention", *big, _k=70)
    case("scaled_dot_product_attention", *big, causal=True, _k=70)
    case("scaled_dot_product_attention", *big, random([70, 70], "bool", seed=9), _k=70)
    # Large enough for the kernel with gradients.
    large = [Generated([1, 4, 150, 16], 84 + i) for i in range(2)] + [Generated([1, 4, 150, 24], 86)]
    padding = random([1, 1, 1, 150], "bool", seed=9)
    per_query = torch.arange(150).reshape(150, 1) % 3 != 0  # some see no key
    for a in (dict(), dict(causal=True), dict(scale=0.7)):
        case("scaled_dot_product_attention", *large, _k=150, **a)
    for mask in (padding, per_query, random([4, 1, 150], seed=9)):
        case("scaled_dot_product_attention", *large, mask, _k=150, _grad=[0, 1, 2])
    x = random([2, 4, 3])
    case("scaled_dot_product_attention", x, random([2, 4, 2]), x, raises=True)
    case("scaled_dot_product_attention", x, x, random([2, 4, 3], "float64"), raises=True)
    case("scaled_dot_product_attention", x, x, x, torch.ones([4, 4], dtype=torch.bool), causal=True, raises=True)
    case("scaled_dot_product_attention", x, x, x, random([3, 4]), raises=True)
    case("scaled_dot_product_attention", x, x, x, random([4, 4], "int64"), raises=True)


FUNCTIONS = {"scaled_dot_product_attention": sdpa}
GROUPS = {"attention": attention}
