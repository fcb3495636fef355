"""How probable a token was: the model's own distribution, before sampling changes it."""

from __future__ import annotations

from dataclasses import dataclass

from maglio import _core
from maglio.engine.base import Logits

MAX_ALTERNATIVES = 100
"""Most alternatives that are kept for a token."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log-probability of one generated token. Natural logarithms.

    They are of the softmax of the model's row, before penalties, bias, constraint, temperature and
    filters. So they are the same however the token was chosen.

    Attributes:
        token: the token id.
        logprob: its log-probability.
        top: the most probable tokens and theirs, most probable first, ties to the lowest id.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def logprob_of(row: Logits, token: int, n_top: int) -> TokenLogprob:
    """Return the log-probability of ``token`` in a float32 row ``(n_vocab,)``.

    Args:
        row: logits that can be sampled.
        token: a token id.
        n_top: how many of the most probable tokens to list; at most the vocabulary.
    """
    mass = _core.log_mass(row)
    top: tuple[tuple[int, float], ...] = ()
    if n_top > 0:
        [best] = _core.topk_rows(row[None], min(n_top, len(row)))
        top = tuple((int(one), float(row[one]) - mass) for one in best)
    return TokenLogprob(token, float(row[token]) - mass, top)
