"""Cases of activations and of the losses beside op_table_nn.py's; see op_table.py.

Known deliberate differences:
- Integer inputs are refused; PyTorch takes them in hardtanh, relu6 and threshold.
- hardswish of -inf is 0 and of 3e38 itself: PyTorch multiplies first, for NaN and inf.
- hardsigmoid's gradient in float64: PyTorch's 1 / 6 there is a float32.
- kl_div of a negative target: the same NaN or number as PyTorch's, but no gradient case.
"""
import torch
import torch.nn.functional as F
from make_fixtures import Generated, random
from op_table import FINITE, FLOATS, INF, NAN, SPECIAL, values

FUNCTIONS = {
    **{name: getattr(F, name) for name in (
        "selu mish hardswish hardsigmoid relu6 softsign logsigmoid tanhshrink elu celu hardtanh prelu "
        "softplus softshrink hardshrink threshold glu softmin "
        "l1_loss soft_margin_loss smooth_l1_loss huber_loss kl_div hinge_embedding_loss "
        "margin_ranking_loss cosine_embedding_loss triplet_margin_loss poisson_nll_loss normalize "
        "cosine_similarity pairwise_distance").split()},
    "cross_entropy": lambda x, y, w=None, **a: F.cross_entropy(x, y, w, **a),
    "nll_loss": lambda x, y, w=None, **a: F.nll_loss(x, y, w, **a),
    "binary_cross_entropy": lambda x, y, w=None, **a: F.binary_cross_entropy(x, y, w, **a),
    "binary_cross_entropy_with_logits": lambda x, y, w=None, pos=None, **a:
        F.binary_cross_entropy_with_logits(x, y, w, pos_weight=pos, **a),
}


def activations(case):
    # Edges of every piece, and where exponentials overflow or vanish.
    edges = values(-3.0, 3.0, 0.0, -0.0, 6.0, -0.5, 0.5, 1.0, -1.0, 1e-8, -1e-8, -1e-4, 19.9, 20.1, -20.0,
                   60.0, -60.0, 90.0, -90.0, 1e-30)
    extreme = values(INF, -INF, NAN, 3e38, -3e38)
    plain = ("selu mish hardswish hardsigmoid relu6 softsign logsigmoid tanhshrink elu celu hardtanh "
             "softplus softshrink hardshrink").split()
    for op in plain:
        case(op, random([3, 4]))
        case(op, random([]))
        case(op, random([0, 2]))
        case(op, edges)
        if op != "hardswish":
            case(op, extreme, _grad=False)
        case(op, Generated([40, 50], 81, scale=8.0))
        case(op, Generated([50, 40], 82, scale=8.0).tensor.t())  # PyTorch sees other strides
        for dtype in FLOATS[1:]:
            case(op, random([5, 7], dtype, -8, 8), _grad=(op, dtype) != ("hardsigmoid", "float64"))
        case(op, edges.double(), _grad=op != "hardsigmoid")
    for alpha in (0.3, 2.0, -1.0):
        case("elu", edges, alpha=alpha)
        case("celu", edges, alpha=alpha)
    case("celu", edges, alpha=0.0, raises=True)
    for low, high in ((-2.0, 0.5), (0.5, 3.0), (1.0, 1.0)):
        case("hardtanh", edges, min_val=low, max_val=high)
    case("hardtanh", edges, min_val=1.0, max_val=0.0, raises=True)
    for beta, threshold in ((2.0, 20.0), (0.5, 5.0), (1.0, -1.0), (10.0, 20.0)):
        case("softplus", edges, beta=beta, threshold=threshold)
    for lambd in (0.0, 1.0, 2.5):
        case("softshrink", edges, lambd=lambd)
        case("hardshrink", edges, lambd=lambd)
    case("softshrink", edges, lambd=-1.0, raises=True)
    case("hardshrink", edges, lambd=-1.0)
    for at, value in ((0.0, 0.0), (0.5, -2.0), (-1.0, 20.0)):
        case("threshold", edges, threshold=at, value=value)
        case("threshold", extreme, threshold=at, value=value, _grad=False)
        for dtype in FLOATS[1:]:
            case("threshold", random([6], dtype), threshold=at, value=value)
    for shape, count in (([4], 1), ([3, 4], 4), ([3, 4], 1), ([2, 3, 2, 2], 3), ([2, 3, 5], 1), ([], 1)):
        case("prelu", random(shape), random([count], seed=1))
    case("prelu", values(0.0, -0.0, NAN, 1.0), values(0.25))
    case("prelu", random([2, 3]), random([2]), raises=True)
    case("prelu", random([3]), random([3]), raises=True)
    for dtype in FLOATS[1:]:
        case("prelu", random([2, 3], dtype), random([3], dtype, seed=1))
    for shape, dim in (([4], -1), ([3, 6], 1), ([4, 3], 0), ([2, 4, 3], 1), ([2, 3, 8], -1), ([0, 2], 1)):
        case("glu", random(shape), dim=dim)
    case("glu", random([3, 5]), dim=1, raises=True)
    case("glu", random([]), raises=True)
    case("glu", random([4, 2]), dim=2, raises=True)
    for dtype in FLOATS[1:]:
        case("glu", random([3, 4], dtype))
    for dim in (0, 1, -1):
        case("softmin", random([3, 4]), dim=dim)
    case("softmin", values(1000.0, -1000.0, 0.0), dim=0)
    case("elu", random([3], "int64"), raises=True)
    case("mish", random([3], "int64"), raises=True)
    case("softplus", random([3], "int64"), raises=True)


def losses_more(case):
    target = values(1, 0, 4, 1, dtype="int64")
    skipped = values(1, 2, 4, 2, dtype="int64")
    x, w = random([4, 5]), random([5], low=0.1, high=3.0, seed=1)
    w0 = w.clone()
    w0[1] = 0
    maps, classes = random([2, 3, 2, 3]), random([2, 2, 3], "int64", 0, 2)
    for r in ("mean", "sum", "none"):
        for op in ("cross_entropy", "nll_loss"):
            case(op, x, target, w, reduction=r, _grad=[0])
            case(op, x, target, w0, reduction=r, _grad=[0])
            case(op, x, skipped, w, reduction=r, ignore_index=2, _grad=[0])
            case(op, maps, classes, random([3], low=0.1, high=2, seed=2), reduction=r, _grad=[0])
            case(op, x[0], values(3, dtype="int64")[0], w, reduction=r, _grad=[0])
            case(op, random([4, 5], "float64"), target, w.double(), reduction=r, _grad=[0])
        for smoothing in (0.1, 1.0):
            case("cross_entropy", x, target, w, reduction=r, label_smoothing=smoothing, _grad=[0])
            case("cross_entropy", x, skipped, w, reduction=r, label_smoothing=smoothing, ignore_index=2,
                 _grad=[0])
            case("cross_entropy", maps, classes, random([3], low=0.1, high=2, seed=2), reduction=r,
                 label_smoothing=smoothing, _grad=[0])
            case("cross_entropy", x, torch.softmax(random([4, 5], seed=3), 1), w, reduction=r,
                 label_smoothing=smoothing)
        case("cross_entropy", x, torch.softmax(random([4, 5], seed=3), 1), reduction=r)
        case("cross_entropy", x, torch.softmax(random([4, 5], seed=3), 1), w, reduction=r)
        case("cross_entropy", maps, torch.softmax(random([2, 3, 2, 3], seed=4), 1), reduction=r)
        case("cross_entropy", x[0], torch.softmax(random([5], seed=3), 0), reduction=r)
        case("cross_entropy", x, random([4, 5], seed=5), reduction=r)  # need not be a distribution
    for op in ("cross_entropy", "nll_loss"):
        case(op, x, target, random([4]), raises=True)
        case(op, x, values(1, 5, 0, 0, dtype="int64"), w, _grad=[0], raises=True)
        for dtype in FLOATS[2:]:
            case(op, random([4, 5], dtype), target, w.to(getattr(torch, dtype)), _grad=[0])
    case("cross_entropy", x, random([4, 4]), raises=True)
    case("cross_entropy", x, skipped * 0 + 2, w, ignore_index=2, _grad=[0])

    p = torch.sigmoid(random([3, 4], seed=6))
    t = torch.sigmoid(random([3, 4], seed=7))
    hard = (t > 0.5).float()
    edge_p, edge_t = values(0.0, 1.0, 0.0, 1.0, 0.5, 1e-30), values(0.0, 0.0, 1.0, 1.0, 1.0, 1.0)
    logits = values(0.0, -0.0, 100.0, -100.0, 30.0, -30.0, 1e-8, 1000.0, -1000.0)
    zero_one = values(1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    for r in ("mean", "sum", "none"):
        case("binary_cross_entropy", p, hard, reduction=r, _grad=[0])
        case("binary_cross_entropy", p, t, reduction=r)
        case("binary_cross_entropy", p, t, random([4], low=0, high=2), reduction=r, _grad=[0])
        case("binary_cross_entropy", edge_p, edge_t, reduction=r, _grad=[0])
        op = "binary_cross_entropy_with_logits"
        case(op, random([3, 4]), hard, reduction=r)
        case(op, random([3, 4]), t, random([3, 1], low=0, high=2), reduction=r, _grad=[0, 1])
        case(op, random([3, 4]), t, None, random([4], low=0, high=3), reduction=r, _grad=[0, 1])
        case(op, random([3, 4]), t, random([4], low=0, high=2), random([4], low=0, high=3, seed=2),
             reduction=r, _grad=[0])
        case(op, logits, zero_one, reduction=r, _grad=[0])
        case(op, logits, zero_one, None, values(3.0), reduction=r, _grad=[0])
        a, b = random([3, 4], seed=8), random([3, 4], seed=9)
        near = a + values(0.0, 0.5, 1.0, -1.0)  # zero, the quadratic part, and its very end
        for op in ("l1_loss", "smooth_l1_loss", "huber_loss"):
            case(op, a, b, reduction=r)
            case(op, values(0.0, 1.0, 0.5, -1.0, 3.0), values(0.0, 0.0, 0.0, 0.0, 0.0), reduction=r)
            case(op, random([0]), random([0]), reduction=r)
            case(op, a, b[0], reduction=r)
        for beta in (0.0, 0.5, 2.0):
            case("smooth_l1_loss", a, b, reduction=r, beta=beta)
        for delta in (0.5, 2.0):
            case("huber_loss", a, b, reduction=r, delta=delta)
            case("huber_loss", near, a, reduction=r, delta=delta)
        sign = values(1.0, -1.0, -1.0, 1.0)
        case("soft_margin_loss", a, sign, reduction=r, _grad=[0])
        case("hinge_embedding_loss", a, sign, reduction=r, _grad=[0])
        case("hinge_embedding_loss", a, sign, reduction=r, margin=0.3, _grad=[0])
        for margin in (0.0, 0.5):
            case("margin_ranking_loss", a[0], b[0], sign, reduction=r, margin=margin, _grad=[0, 1])
            case("cosine_embedding_loss", random([4, 3], seed=1), random([4, 3], seed=2), sign, reduction=r,
                 margin=margin, _grad=[0, 1])
        case("cosine_embedding_loss", random([3], seed=1), random([3], seed=2), sign[1], reduction=r,
             _grad=[0, 1])
        for options in ({}, {"swap": True}, {"p": 1.0, "margin": 0.5}, {"p": 3.0}):
            case("triplet_margin_loss", random([4, 3], seed=1), random([4, 3], seed=2),
                 random([4, 3], seed=3), reduction=r, **options)
        for log_input in (True, False):
            case("poisson_nll_loss", random([3, 4], low=0.1, high=3), random([3, 4], low=0, high=5, seed=2),
                 reduction=r, log_input=log_input)
    for r in ("mean", "sum", "none", "batchmean"):
        log_p = torch.log_softmax(random([3, 4], seed=1), 1)
        q = torch.softmax(random([3, 4], seed=2), 1)
        q[0] = values(0.0, 1.0, 0.0, 0.0)
        case("kl_div", log_p, q, reduction=r, _grad=[0])
        case("kl_div", log_p, torch.softmax(random([3, 4], seed=2), 1), reduction=r)
        case("kl_div", log_p, torch.log_softmax(random([3, 4], seed=2), 1), reduction=r, log_target=True)
        for dtype in FLOATS[1:]:
            case("kl_div", log_p.to(getattr(torch, dtype)), q.to(getattr(torch, dtype)), reduction=r, _grad=[0])
    for dtype in FLOATS[1:]:
        d = getattr(torch, dtype)
        a, b = random([3, 4], dtype, seed=8), random([3, 4], dtype, seed=9)
        for op in ("l1_loss", "smooth_l1_loss", "huber_loss"):
            case(op, a, b)
        case("binary_cross_entropy", p.to(d), hard.to(d), _grad=[0])
        case("binary_cross_entropy_with_logits", a, hard.to(d))
        case("soft_margin_loss", a, hard.to(d) * 2 - 1, _grad=[0])
    case("binary_cross_entropy", p, t[0], raises=True)
    case("binary_cross_entropy_with_logits", p, t[0], raises=True)
    case("huber_loss", p, t, delta=0.0, raises=True)
    case("huber_loss", p, t, delta=-1.0, raises=True)
    case("smooth_l1_loss", p, t, beta=-1.0, raises=True)
    case("triplet_margin_loss", p, p, p, margin=0.0, raises=True)
    case("triplet_margin_loss", p, p, p[0], raises=True)
    case("cosine_embedding_loss", p, p, p, raises=True)
    case("margin_ranking_loss", p, p, p[0], raises=True)
    case("l1_loss", random([3]), random([4]), raises=True)
    big, other = Generated([60, 40], 91), Generated([60, 40], 92)
    for op in ("l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
        case(op, big, other)
    for op_p in (1.0, 2.0, 3.0):
        case("normalize", random([3, 4]), p=op_p)
        case("normalize", random([3, 4]), p=op_p, dim=0)
        case("pairwise_distance", random([3, 4], seed=1), random([3, 4], seed=2), p=op_p)
    case("normalize", torch.cat([torch.zeros([1, 4]), random([2, 4])]), _grad=False)
    case("normalize", random([2, 3, 4]), dim=-1, eps=3.0)
    case("pairwise_distance", random([2, 3, 4], seed=1), random([3, 4], seed=2), keepdim=True)
    case("pairwise_distance", random([4], seed=1), random([4], seed=2))
    case("cosine_similarity", random([3, 4], seed=1), random([3, 4], seed=2))
    case("cosine_similarity", random([3, 4], seed=1), random([3, 4], seed=2), dim=0)
    case("cosine_similarity", random([2, 3, 4], seed=1), random([4], seed=2), dim=-1)
    case("cosine_similarity", random([4], seed=1), random([4], seed=2), dim=0)
    case("cosine_similarity", torch.zeros([2, 3]), random([2, 3]), _grad=False)


GROUPS = {"activations": activations, "losses_more": losses_more}
