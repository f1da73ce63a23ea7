"""Cases of modules for tools/make_fixtures.py: constructor arguments, the printed line, names and shapes
of the state (filled by `generate`, so that nothing large is stored), outputs, and gradients of inputs
and parameters; modules_test.cpp has their C++ side. A new module is a line here and one there.

Known deliberate differences:
- MultiheadAttention, TransformerEncoderLayer: dropout draws other random numbers, so that cases have none.
"""
import torch
from make_fixtures import UPSTREAM_SEED, Generated, generate, random

nn = torch.nn


def encoder(d_model, nhead, num_layers, norm=False, **options):
    layer = nn.TransformerEncoderLayer(d_model, nhead, **options)
    return nn.TransformerEncoder(layer, num_layers, nn.LayerNorm(d_model) if norm else None,
                                 enable_nested_tensor=False)


def encoder_layer(d_model, nhead, activation="relu", **options):
    return nn.TransformerEncoderLayer(d_model, nhead, activation=activation, **options)


MAKERS = {"TransformerEncoder": encoder, "TransformerEncoderLayer": encoder_layer}


def state_spec(name, t, number):
    """Arguments of `generate` for one tensor of floating point."""
    if name.endswith("running_var"):
        return dict(seed=number, bits=8, scale=0.5, offset=1.0)
    scale = 0.5 if t.dim() > 1 or t.numel() > 1 else 0.25
    return dict(seed=number, bits=8, scale=scale)


def flat(outputs):
    """A module's tensors in order: nested tuples laid flat, None left out."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [t for o in outputs if o is not None for t in flat(o)]


class Modules:
    """case(module name, [constructor arguments], {named}, *inputs): one or more tensors or None;
    `_call` says how the inputs reach the module where that is not module(*inputs)."""

    def __init__(self, writer):
        self.writer = writer

    def __call__(self, kind, args, named, *inputs, _train=True, _call=None, _k=8, _str=True, **call):
        named = {k: tuple(v) if isinstance(v, list) else v for k, v in named.items()}
        args = [tuple(v) if isinstance(v, list) else v for v in args]
        module = MAKERS.get(kind, getattr(nn, kind))(*args, **named)
        module.train(_train)
        state = []
        with torch.no_grad():
            for number, (name, t) in enumerate(module.state_dict().items()):
                entry = dict(name=name, shape=list(t.shape))
                if t.is_floating_point():
                    entry["gen"] = state_spec(name, t, number)
                    t.copy_(generate(t.shape, **entry["gen"]))
                state.append(entry)
        leaves = []
        for v in inputs:
            v = v.tensor if isinstance(v, Generated) else v
            leaves.append(None if v is None else
                          v.clone().requires_grad_(v.is_floating_point()))
        outs = flat((_call or (lambda m, *x, **a: m(*x, **a)))(module, *leaves, **call))
        w = self.writer
        case = dict(id=f"{kind}{tuple(args)} {named} #{len(w.cases)}", module=kind, args=args, named=named,
                    train=_train, call=call, k=_k, str=str(module) if _str else None, state=state,
                    **{"in": [w.input(v) for v in inputs]}, out=[w.expected(t) for t in outs])
        pairs = [(t, generate(t.shape, UPSTREAM_SEED + i, bits=8))
                 for i, t in enumerate(outs) if t.requires_grad]
        if pairs:
            torch.autograd.backward([t for t, _ in pairs], [g for _, g in pairs])
        zero = torch.zeros_like

        def gradient(t):
            return w.expected(zero(t) if t.grad is None else t.grad)
        case["grad"] = [gradient(t) if t is not None and t.requires_grad else None for t in leaves]
        case["parameters"] = {n: gradient(p) for n, p in module.named_parameters()}
        case["buffers"] = {n: w.expected(b) for n, b in module.named_buffers()} if _train else {}
        w.cases.append(case)


def activations(case):
    x = random([2, 3, 4], low=-4, high=4)
    for kind in ("Sigmoid SiLU Mish SELU Hardswish Hardsigmoid ReLU6 Softsign LogSigmoid Tanhshrink ELU CELU "
                 "GELU LeakyReLU Hardtanh Softplus Softshrink Hardshrink GLU PReLU ReLU Tanh").split():
        case(kind, [], {}, x)
    for kind in ("ELU", "CELU", "LeakyReLU", "Softshrink", "Hardshrink"):
        case(kind, [0.75], {}, x)
    case("GELU", [], {"approximate": "tanh"}, x)
    case("Hardtanh", [-0.5, 2.0], {}, x)
    case("Softplus", [2.0, 3.0], {}, x)
    case("Threshold", [0.1, 20.0], {}, x)
    case("GLU", [2], {}, x)
    case("PReLU", [3], {}, x)
    for kind in ("Softmax", "LogSoftmax", "Softmin"):
        case(kind, [1], {}, x)
        case(kind, [-1], {}, x)


def norms(case):
    maps, rows, lines = random([4, 6, 3, 3]), random([5, 6]), random([4, 6, 5])
    for train in (True, False):
        case("BatchNorm1d", [6], {}, rows, _train=train)
        case("BatchNorm1d", [6], {"momentum": 0.3, "eps": 0.01}, lines, _train=train)
        case("BatchNorm1d", [6], {"momentum": None}, rows, _train=train)
        case("BatchNorm1d", [6], {"momentum": None, "track_running_stats": False}, lines, _train=train)
        case("BatchNorm2d", [6], {"momentum": None, "affine": False}, maps, _train=train)
        case("BatchNorm1d", [6], {"affine": False}, rows, _train=train)
        case("BatchNorm1d", [6], {"bias": False}, rows, _train=train)
        case("BatchNorm1d", [6], {"track_running_stats": False}, rows, _train=train)
        case("BatchNorm2d", [6], {}, maps, _train=train)
        case("BatchNorm2d", [6], {"affine": False, "track_running_stats": False}, maps, _train=train)
        for kind, x in (("InstanceNorm1d", lines), ("InstanceNorm2d", maps)):
            case(kind, [6], {}, x, _train=train)
            case(kind, [6], {"affine": True}, x, _train=train)
            case(kind, [6], {"track_running_stats": True, "affine": True, "momentum": 0.3}, x, _train=train)
            case(kind, [6], {}, x[0], _train=train)
    case("InstanceNorm2d", [6], {"affine": True, "bias": False}, maps)
    for groups in (1, 2, 3, 6):
        case("GroupNorm", [groups, 6], {}, maps)
        case("GroupNorm", [groups, 6], {}, lines)
    case("GroupNorm", [3, 6], {}, rows)
    case("GroupNorm", [3, 6], {"affine": False, "eps": 0.01}, maps)
    case("GroupNorm", [3, 6], {"bias": False}, maps)
    case("LayerNorm", [[6]], {}, rows)
    case("LayerNorm", [[3, 3]], {"eps": 0.1}, maps)
    case("LayerNorm", [[6]], {"bias": False}, rows)
    case("LayerNorm", [[6]], {"elementwise_affine": False}, rows)
    case("RMSNorm", [[6]], {}, rows)
    case("RMSNorm", [[3, 3]], {"eps": 0.1}, maps)
    case("RMSNorm", [[6]], {"elementwise_affine": False}, rows)


def recurrent(case):
    x, one = random([5, 3, 4]), random([5, 4])  # (L, N, input) and without N

    def with_state(m, x, *state):
        return m(x, tuple(state) if isinstance(m, (nn.LSTM, nn.LSTMCell)) else state[0])

    for kind in ("RNN", "LSTM", "GRU"):
        states = 2 if kind == "LSTM" else 1

        def state(layers, n=3):
            shape = [layers, n, 6] if n else [layers, 6]
            return [random(shape, seed=9 + i) for i in range(states)]

        case(kind, [4, 6], {}, x)
        case(kind, [4, 6], {"bias": False}, x)
        case(kind, [4, 6], {}, one)
        case(kind, [4, 6], {}, x, *state(1), _call=with_state)
        case(kind, [4, 6], {}, one, *state(1, 0), _call=with_state)
        case(kind, [4, 6], {"num_layers": 2, "dropout": 0.5}, x, _train=False)
        case(kind, [4, 6], {"bidirectional": True}, x)
        case(kind, [4, 6], {"num_layers": 2, "bidirectional": True, "batch_first": True},
             random([3, 5, 4]), *state(4), _call=with_state)
        case(kind, [4, 6], {"batch_first": True}, random([3, 5, 4]))
        case(kind + "Cell", [4, 6], {}, random([3, 4]))
        case(kind + "Cell", [4, 6], {"bias": False}, random([4]))
        case(kind + "Cell", [4, 6], {}, random([3, 4]), *[s[0] for s in state(1)], _call=with_state)
    def with_packed(m, x, lengths, *state, enforce_sorted):
        rnn = nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, lengths, m.batch_first, enforce_sorted)
        if not state:
            out = m(packed)
        else:
            out = m(packed, tuple(state) if isinstance(m, nn.LSTM) else state[0])
        return rnn.pad_packed_sequence(out[0], m.batch_first)[0], out[1]

    for kind in ("RNN", "LSTM", "GRU"):
        def packed(named, *lengths, rows=5, state=0, train=True):
            sorts = list(lengths) == sorted(lengths, reverse=True)
            first = named.get("batch_first", False)
            steps = random([len(lengths), rows, 4] if first else [rows, len(lengths), 4], seed=3)
            states = [random([state, len(lengths), 6], seed=9 + i) for i in range(2 if kind == "LSTM" else 1)]
            case(kind, [4, 6], named, steps, torch.tensor(lengths), *(states if state else []), _call=with_packed,
                 _train=train, enforce_sorted=sorts)

        packed({}, 5, 3, 1)
        packed({}, 2, 5, 2, 4)
        packed({}, 4, 4, 4)
        packed({}, 3, 1, rows=6)  # the longest is shorter than the padding
        packed({"batch_first": True}, 5, 5, 2, state=1)
        packed({"bidirectional": True}, 5, 3, 1)
        packed({"bidirectional": True, "bias": False}, 1, 5, 2, state=2)
        packed({"num_layers": 2, "bidirectional": True, "batch_first": True}, 2, 4, 1, state=4)
        packed({"num_layers": 3, "dropout": 0.5}, 5, 2, state=3, train=False)
    case("RNN", [4, 6], {"nonlinearity": "relu", "num_layers": 2}, x)
    case("RNNCell", [4, 6], {"nonlinearity": "relu"}, random([3, 4]))
    case("LSTM", [16, 32], {"num_layers": 2, "bidirectional": True}, Generated([20, 4, 16], 5), _k=64)


def layers(case):
    ids = random([2, 3], "int64", 0, 6)
    case("Embedding", [7, 4], {}, ids)
    case("Embedding", [7, 4], {"padding_idx": 1}, ids)
    case("Embedding", [7, 4], {"padding_idx": -2}, ids)
    line, maps = random([2, 4, 9]), random([2, 4, 6, 7])
    case("Conv1d", [4, 6, 3], {}, line, _k=24)
    case("Conv1d", [4, 6, 3], {"stride": 2, "padding": 2, "dilation": 2, "groups": 2, "bias": False}, line, _k=24)
    case("Conv1d", [4, 6, 3], {}, line[0], _k=24)
    for mode in ("reflect", "replicate", "circular"):
        case("Conv1d", [4, 6, 3], {"padding": 2, "padding_mode": mode}, line, _k=24)
        case("Conv2d", [4, 6, 3], {"padding": [2, 1], "stride": 2, "padding_mode": mode}, maps, _k=64)
        case("Conv2d", [4, 6, [1, 3]], {"padding": [0, 1], "padding_mode": mode, "bias": False}, maps[0], _k=64)
    for mode in ("zeros", "reflect", "replicate", "circular"):
        for padding in ("same", "valid"):
            case("Conv1d", [4, 6, 4], {"padding": padding, "padding_mode": mode}, line, _k=24)
            case("Conv1d", [4, 6, 2], {"padding": padding, "padding_mode": mode, "dilation": 3}, line[0], _k=24)
            case("Conv2d", [4, 6, [2, 3]], {"padding": padding, "padding_mode": mode}, maps, _k=64)
            case("Conv2d", [4, 6, [1, 4]], {"padding": padding, "padding_mode": mode, "groups": 2, "bias": False},
                 maps, _k=64)
    case("Conv1d", [4, 6, 3], {"padding": "valid", "stride": 2}, line, _k=24)
    case("Conv2d", [4, 6, 3], {"padding": 1, "groups": 2}, maps, _k=64)
    case("Conv2d", [4, 6, 3], {"padding_mode": "reflect"}, maps, _k=64)
    case("ConvTranspose2d", [4, 6, 3], {}, maps, _k=64)
    case("ConvTranspose2d", [4, 6, [3, 2]], {"stride": [2, 3], "padding": [1, 0], "output_padding": [1, 2],
                                             "groups": 2, "bias": False}, maps, _k=64)
    case("ConvTranspose2d", [4, 6, 3], {"dilation": 2}, maps[0], _k=64)
    case("MaxPool1d", [3], {}, line)
    case("MaxPool1d", [3], {"stride": 2, "padding": 1, "ceil_mode": True}, line)
    case("MaxPool1d", [2], {"dilation": 3, "stride": 1}, line)
    case("AvgPool1d", [3], {}, line)
    case("AvgPool1d", [3], {"stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}, line)
    case("AdaptiveAvgPool1d", [4], {}, line)
    case("AdaptiveMaxPool2d", [[3, 4]], {}, maps)
    for mode in ("nearest", "bilinear"):
        case("Upsample", [], {"scale_factor": [2.0, 3.0], "mode": mode}, maps)
        case("Upsample", [], {"size": [4, 9], "mode": mode}, maps)
    case("Upsample", [], {"size": [8, 9], "mode": "bilinear", "align_corners": True}, maps)
    case("Upsample", [], {"scale_factor": 2.0}, maps)
    case("PixelShuffle", [2], {}, maps)
    case("PixelShuffle", [2], {}, maps[0])
    case("Unflatten", [1, [2, 2]], {}, maps)
    case("Unflatten", [-1, [-1, 3]], {}, line)
    for kind in ("Dropout2d", "AlphaDropout", "Dropout"):
        case(kind, [0.5], {}, maps, _train=False)
        case(kind, [0.0], {}, maps)


def attention(case):
    x, memory = random([5, 2, 8]), random([6, 2, 8], seed=1)
    causal = torch.triu(torch.ones([5, 5]), 1).bool()
    padding = torch.zeros([2, 5]).bool()
    padding[1, 3:] = True

    def attend(need_weights=False, **masks):
        def call(m, q, k, v, attn_mask=None, key_padding_mask=None, **_):
            return m(q, k, v, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=need_weights)
        return call

    def mha(named, q, k, v, *masks, need_weights=False):
        case("MultiheadAttention", [8, 2], named, q, k, v, *masks, _call=attend(need_weights), _str=False, _k=32,
             need_weights=need_weights)

    for need in (False, True):
        mha({}, x, x, x, need_weights=need)
        mha({}, x, memory, memory, need_weights=need)
        mha({}, x, x, x, causal, need_weights=need)
        mha({}, x, x, x, None, padding, need_weights=need)
        mha({}, x, x, x, causal, padding, need_weights=need)
        mha({}, x, x, x, random([5, 5], seed=3), need_weights=need)
        mha({}, x[:, 0], memory[:, 0], memory[:, 0], need_weights=need)
        mha({"batch_first": True}, random([2, 5, 8]), random([2, 6, 8], seed=1), random([2, 6, 8], seed=2),
            random([4, 5, 6], seed=4), random([2, 6], seed=5), need_weights=need)
    mha({"bias": False}, x, x, x)
    mha({"kdim": 3, "vdim": 5}, x, random([6, 2, 3]), random([6, 2, 5]))

    def encode(m, src, src_mask=None, src_key_padding_mask=None):
        return m(src, src_mask, src_key_padding_mask=src_key_padding_mask)

    small = {"dim_feedforward": 16, "dropout": 0.0}
    for norm_first in (False, True):
        case("TransformerEncoderLayer", [8, 2], {**small, "norm_first": norm_first}, x, _call=encode, _str=False, _k=64)
        case("TransformerEncoderLayer", [8, 2], {**small, "norm_first": norm_first, "activation": "gelu",
                                                 "batch_first": True, "layer_norm_eps": 0.01},
             random([2, 5, 8]), causal, padding, _call=encode, _str=False, _k=64)
    case("TransformerEncoderLayer", [8, 2], {**small, "bias": False}, x, _call=encode, _str=False, _k=64)
    case("TransformerEncoderLayer", [8, 2], {"dim_feedforward": 16}, x, _call=encode, _train=False, _str=False, _k=64)
    case("TransformerEncoder", [8, 2, 2], small, x, _call=encode, _str=False, _k=256)
    case("TransformerEncoder", [8, 2, 2], {**small, "norm": True, "norm_first": True}, x, causal, _call=encode,
         _str=False, _k=256)


def run(writer):
    case = Modules(writer)
    activations(case)
    norms(case)
    recurrent(case)
    layers(case)
    attention(case)
