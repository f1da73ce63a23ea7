"""Cases of convolutions padded by name and of packed sequences; see op_table.py.

Known deliberate differences: a packed sequence holds its sequences padded; data, batch_sizes and
sorted_indices say how PyTorch packs them. A length beyond the padding is refused.
"""
import torch
import torch.nn.functional as F
from make_fixtures import Generated, random
from op_table import FLOATS, INF, NAN, values

rnn = torch.nn.utils.rnn


def padding_names(case):
    def conv(x, w, dtype="float32", bias=True, **a):
        positions, window = 1, w[1]
        for n, k in zip(x[2:], w[2:]):
            positions, window = positions * n, window * k
        case(f"conv{len(x) - 2}d", random(x, dtype, -1, 1, seed=1), random(w, dtype, -1, 1, seed=2),
             random(w[:1], dtype, -1, 1, seed=3) if bias else None, _k=max(x[0] * positions, window, w[0]), **a)

    for padding in ("same", "valid"):
        for k in (1, 2, 3, 4, 5):
            conv([2, 3, 7], [4, 3, k], padding=padding)
            conv([2, 3, 7, 6], [4, 3, k, 3], padding=padding)
            conv([2, 2, 9], [3, 2, min(k, 4)], padding=padding, dilation=2)
            conv([1, 2, 9, 8], [3, 2, 2, min(k, 4)], padding=padding, dilation=[3, 2], bias=False)
        conv([2, 4, 6], [6, 2, 2], padding=padding, groups=2)
        conv([2, 4, 5, 5], [4, 1, 2, 4], padding=padding, groups=4)
        for dtype in FLOATS[1:]:
            conv([2, 3, 7], [3, 3, 2], dtype=dtype, padding=padding)
            conv([2, 3, 5, 6], [3, 3, 4, 3], dtype=dtype, padding=padding)
        case("conv1d", random([3, 7]), random([3, 3, 4]), padding=padding, _k=21)
        case("conv2d", random([3, 7, 5]), random([3, 3, 2, 3]), padding=padding, _k=105)
        case("conv2d", Generated([2, 8, 20, 20], 5, bits=8), Generated([16, 8, 4, 4], 6, bits=8), padding=padding,
             _k=800)
    conv([1, 2, 3], [2, 2, 8], padding="same")  # a window longer than the input
    conv([1, 2, 2, 3], [2, 2, 5, 6], padding="same")
    conv([1, 2, 3], [2, 2, 8], padding="valid", raises=True)
    conv([1, 2, 9], [2, 2, 3], padding="valid", stride=2)
    conv([1, 2, 9, 9], [2, 2, 3, 2], padding="valid", stride=[2, 1])
    conv([1, 2, 9], [2, 2, 3], padding="same", stride=2, raises=True)
    conv([1, 2, 9, 9], [2, 2, 3, 3], padding="same", stride=2, raises=True)
    conv([1, 2, 9, 9], [2, 2, 1, 3], padding="same", stride=[2, 1], raises=True)
    conv([1, 2, 9, 9], [2, 2, 1, 3], padding="same", stride=[1, 2], raises=True)
    for name in ("full", "Same", "reflect"):
        conv([1, 2, 9], [2, 2, 3], padding=name, raises=True)
        conv([1, 2, 9, 9], [2, 2, 3, 3], padding=name, raises=True)


def pack(x, lengths, batch_first=False, enforce_sorted=True):
    packed = rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted)
    order = [] if enforce_sorted else [packed.sorted_indices]
    return [packed.data, packed.batch_sizes, *order]


def there_and_back(x, lengths, batch_first=False, **options):
    packed = rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
    return list(rnn.pad_packed_sequence(packed, batch_first, **options))


def packed(case):
    def lengths(*n):
        return values(*n, dtype="int64")

    holes = random([4, 3, 2])  # what lies behind the ends may be anything
    holes[2:, 1], holes[1:, 2] = NAN, INF
    for x, n in ((random([5, 3, 2]), (5, 3, 1)), (random([5, 3, 2]), (3, 3, 3)), (random([4, 1, 2]), (4,)),
                 (random([6, 4]), (6, 4, 4, 1)), (random([3, 2, 2, 2]), (3, 2)), (holes, (4, 2, 1)),
                 (random([3, 5, 1], "int64"), (3, 3, 2, 1, 1))):
        case("pack_padded_sequence", x, lengths(*n))
        case("pack_padded_sequence", x.transpose(0, 1).contiguous(), lengths(*n), batch_first=True)
        case("pack_padded_sequence", x, lengths(*n), enforce_sorted=False)
        case("pad_packed_sequence", x, lengths(*n))
    for n in ((1, 3, 5), (2, 5, 2), (4, 4, 5), (1, 1, 1)):
        x = random([5, 3, 2], seed=4)
        case("pack_padded_sequence", x, lengths(*n), enforce_sorted=False)
        case("pad_packed_sequence", x, lengths(*n), padding_value=-7.5)
        case("pad_packed_sequence", x, lengths(*n), total_length=8)
        case("pad_packed_sequence", x.transpose(0, 1).contiguous(), lengths(*n), batch_first=True, total_length=6,
             padding_value=2.0)
    for dtype in FLOATS[1:]:
        case("pack_padded_sequence", random([4, 2, 3], dtype), lengths(4, 2))
        case("pad_packed_sequence", random([4, 2, 3], dtype), lengths(2, 3), padding_value=0.5)
    x = random([5, 3, 2])
    case("pack_padded_sequence", x, lengths(3, 5, 1), raises=True)
    case("pack_padded_sequence", x, lengths(5, 3), raises=True)
    case("pack_padded_sequence", x, lengths(5, 3, 0), raises=True)
    case("pack_padded_sequence", x, lengths(5, 3, -1), raises=True)
    case("pack_padded_sequence", x, lengths(5, 3, 1), batch_first=True, raises=True)
    case("pad_packed_sequence", x, lengths(4, 3, 1), total_length=3, raises=True)

    sequences = [random([n, 2], seed=n) for n in (4, 2, 1)]
    for batch_first in (False, True):
        case("pad_sequence", *sequences, batch_first=batch_first)
        case("pad_sequence", *sequences[::-1], batch_first=batch_first, padding_value=-1.5)
        case("pad_sequence", random([3]), random([5]), batch_first=batch_first)
        case("pad_sequence", random([0, 2]), random([3, 2]), batch_first=batch_first)
    case("pad_sequence", random([2, 3]), random([2, 4]), raises=True)
    case("pack_sequence", *sequences)
    case("pack_sequence", *sequences[::-1], enforce_sorted=False)
    case("pack_sequence", *sequences[::-1], raises=True)


def pack_list(*x, enforce_sorted=True):
    made = rnn.pack_sequence(list(x), enforce_sorted)
    return [made.data, made.batch_sizes]


FUNCTIONS = {
    "pack_padded_sequence": pack, "pad_packed_sequence": there_and_back, "pack_sequence": pack_list,
    "pad_sequence": lambda *x, **a: rnn.pad_sequence(list(x), **a),
}
GROUPS = {"padding_names": padding_names, "packed": packed}
