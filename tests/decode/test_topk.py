from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio import _core


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(0, 4),
    vocab=st.sampled_from([1, 7, 8, 64, 65, 600, 3000]),
    count=st.sampled_from([1, 3, 8, 20]),
    distinct=st.sampled_from([0, 1, 3]),
    hole=st.sampled_from([None, np.nan, -np.inf, np.inf]),
)
def test_topk_is_a_stable_sort(seed, rows, vocab, count, distinct, hole):
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((rows, vocab)).astype(np.float32)
    if distinct:
        logits = np.round(logits * distinct)
    if hole is not None:
        logits[rng.random(logits.shape) < 0.3] = hole
    count = min(count, vocab)
    ids = _core.topk_rows(logits, count)
    keys = np.where(np.isnan(logits), -np.inf, logits)
    assert ids.dtype == np.int32
    assert ids.tolist() == np.argsort(-keys, axis=1, kind="stable")[:, :count].tolist()


@pytest.mark.parametrize("count", [0, 11])
def test_a_count_beyond_the_row_is_refused(count):
    with pytest.raises(ValueError, match=r"must be 1 \.\. 10"):
        _core.topk_rows(np.zeros((2, 10), dtype=np.float32), count)
