"""The seam's claims hold for every engine here, and each of them can fail."""

from __future__ import annotations

import numpy as np
import pytest

from maglio.engine.base import Segment
from maglio.engine.conformance import CLAIMS, check
from maglio.errors import InvalidArgumentError
from support.models import FAMILIES
from support.tiny import TinyModels
from support.toy_engine import ToyCache, ToyEngine


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("kind", [{}, {"can_rewind": False}, {"is_hybrid": True}])
def test_the_toy_engine_keeps_every_claim(claim, kind):
    CLAIMS[claim](ToyEngine(**kind))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_native_engine_keeps_every_claim(tiny: TinyModels, family, claim, threads):
    CLAIMS[claim](tiny.engine(family, "Q4_0", threads=threads))


class ForgetsARow(ToyEngine):
    def forward(self, batch):
        return [rows[1:] if len(rows) > 3 else rows for rows in super().forward(batch)]


class DependsOnWidth(ToyEngine):
    def forward(self, batch):
        return [rows + np.float32(1e-6 * (len(rows) > 1)) for rows in super().forward(batch)]


class DependsOnNeighbours(ToyEngine):
    def forward(self, batch):
        return [rows + np.float32(1e-6 * (len(batch) > 1)) for rows in super().forward(batch)]


class SwapsSegments(ToyEngine):
    def forward(self, batch):
        return super().forward(batch)[::-1]


class KeepsTooMuch(ToyEngine):
    class Cache(ToyCache):
        def truncate(self, length):
            return super().truncate(min(self.length, length + (1 < length < 8)))

    def new_cache(self):
        return self.Cache(self)


class ClaimsToRewind(ToyEngine):
    class Cache(ToyCache):
        def truncate(self, length):
            kept = super().truncate(length)
            return super().truncate(0) if 4 < length < 12 else kept

    def new_cache(self):
        return self.Cache(self)


class SharesForks(ToyEngine):
    class Cache(ToyCache):
        def fork(self, length):
            self.truncate(length)
            return self

    def new_cache(self):
        return self.Cache(self)


class TakesAnything(ToyEngine):
    def _check(self, batch):
        pass


class RaisesForeignErrors(ToyEngine):
    def _check(self, batch):
        try:
            super()._check(batch)
        except InvalidArgumentError as error:
            raise RuntimeError from error


class Tears(ToyEngine):
    """Appends token by token, so that an interrupt leaves half of them."""

    def forward(self, batch):
        self._check(batch)
        out = []
        for cache, tokens, n_logits in batch:
            rows = []
            for token in tokens:
                cache.tokens.append(int(token))
                rows.append(self.row(cache.tokens))
            out.append(np.stack(rows)[len(rows) - n_logits :])
        return out


class TearsSeveral(ToyEngine):
    """Appends whole segments, but token by token where there are several."""

    def forward(self, batch):
        return super().forward(batch) if len(batch) == 1 else Tears.forward(self, batch)


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        (ForgetsARow, "rows_have_their_shape"),
        (DependsOnWidth, "rows_depend_on_their_prefix"),
        (DependsOnNeighbours, "a_batch_is_its_segments"),
        (SwapsSegments, "a_batch_is_its_segments"),
        (KeepsTooMuch, "a_truncated_cache_is_a_fresh_one"),
        (ClaimsToRewind, "the_last_forward_can_be_taken_back"),
        (SharesForks, "a_fork_is_independent"),
        (TakesAnything, "what_cannot_be_done_changes_nothing"),
        (RaisesForeignErrors, "what_cannot_be_done_changes_nothing"),
        (Tears, "an_interrupt_leaves_a_usable_cache"),
        (TearsSeveral, "an_interrupt_leaves_a_usable_cache"),
    ],
)
def test_a_broken_engine_is_found(broken, claim):
    found = dict(check(broken()))
    assert found.keys() == CLAIMS.keys()
    assert found[claim] is not None


def test_an_engine_that_promises_distributions_may_round(monkeypatch):
    monkeypatch.setattr(DependsOnWidth, "exactness", "distribution")
    assert set(dict(check(DependsOnWidth())).values()) == {None}


def test_a_cache_of_another_engine_is_refused(tiny: TinyModels):
    for one, other in ((ToyEngine(), ToyEngine()), (tiny.engine("llama", "Q4_0"), ToyEngine())):
        with pytest.raises(InvalidArgumentError):
            one.forward([Segment(other.new_cache(), [1], 1)])
