"""Token streams that are hard on a suffix automaton, each in its own way."""

import numpy as np
import pytest


def _fibonacci(n):
    a, b = [0], [0, 1]
    while len(b) < n:
        a, b = b, b + a
    return b[:n]


def _zipf_with_copies(n, alphabet, seed):
    rng = np.random.default_rng(seed)
    out = []
    while len(out) < n:
        if len(out) > 20 and rng.random() < 0.1:
            start = int(rng.integers(len(out) - 10))
            out += out[start : start + int(rng.integers(3, 20))]
        else:
            out.append(int(rng.zipf(1.3)) % alphabet)
    return out[:n]


def _triangle(n):
    out = []
    k = 1
    while len(out) < n:
        out += [7] * k + [1]
        k += 1
    return out[:n]


_N = 90
STREAMS = {
    **{
        f"random-{a}": np.random.default_rng(a).integers(a, size=_N).tolist()
        for a in (2, 5, 31, 150000)
    },
    **{f"zipf-{a}": _zipf_with_copies(_N, a, a) for a in (5, 31, 150000)},
    "periodic": [i % 7 for i in range(_N)],
    "fibonacci": _fibonacci(_N),
    "all-equal": [2**31 - 1] * _N,
    "runs": _triangle(_N),
    "one-then-many": [0] + [1] * (_N - 1),
    # The first half passes many lengths of one letter; the end then needs all of them split.
    "splits": [0] * (_N // 2) + [1] + [2] * (_N // 2 - 1),
    "fan-out": [x for i in range(_N // 2) for x in (5, i + 10)],
}


@pytest.fixture(params=STREAMS.values(), ids=STREAMS.keys())
def stream(request):
    return request.param
