"""One token from one row of logits. Knows no engine and no text; the arithmetic is native."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from maglio import _core
from maglio.checks import MAX_SEED, MAX_TOKEN_ID, check_int
from maglio.decode.constraint import Mask
from maglio.decode.params import SamplingParams
from maglio.engine.base import Logits
from maglio.errors import InvalidArgumentError, InvalidLogitsError

_SAME = (
    "temperature",
    "top_n_sigma",
    "top_k",
    "typical_p",
    "top_p",
    "min_p",
    "xtc_probability",
    "xtc_threshold",
    "min_keep",
    "repeat_penalty",
    "penalty_last_n",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "seed",
)


class Chooser(Protocol):
    """What a stream asks of whatever picks its tokens. :class:`Picker` is the usual one.

    A row is picked from once, when all tokens before it are committed; again only where what came
    of it was not delivered.
    """

    @property
    def n_vocab(self) -> int:
        """Length of the rows it picks from."""
        ...

    def pick(self, row: Logits, position: int, mask: Mask | None = None) -> int:
        """Return the token that ``row`` gives at ``position``; see :meth:`Picker.pick`."""
        ...

    def extend(self, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to the history."""
        ...

    def follow(self, tokens: Sequence[int], *, kept: int, answer: int) -> None:
        """Make the history ``tokens``; see :meth:`Picker.follow`."""
        ...


class Picker:
    """The sampling pipeline and the history that penalties and DRY look at.

    The random number for a token is a function of the seed and of a position in the random stream,
    and of nothing else: Philox4x32-10 (Salmon et al., SC 2011) with the position as its counter.
    So picking changes nothing, and can be repeated. XTC's coin is of another stream, whose counter
    differs in its third word, and of the same position.

    A picker serves one stream of tokens and one thread at a time.

    Args:
        params: what to do with a row.
        n_vocab: length of a row; token ids are ``0 .. n_vocab - 1``.
        exempt: tokens that are never penalised: those that steer the model and are not text.
        ends: tokens that ``ignore_eos`` forbids, unless a mask allows nothing else.

    Raises:
        InvalidArgumentError: ``n_vocab`` is not in ``1 .. 2**20 - 1``, or a token of an argument is
            outside the vocabulary.
    """

    __slots__ = ("_forbidden", "_n_vocab", "_native", "_params")

    def __init__(
        self,
        params: SamplingParams,
        n_vocab: int,
        *,
        exempt: Iterable[int] = (),
        ends: Iterable[int] = (),
    ) -> None:
        check_int("n_vocab", n_vocab, 1, 2**20 - 1)
        if not isinstance(params, SamplingParams):
            raise InvalidArgumentError(f"sampling is {params!r:.80}, must be SamplingParams")
        self._params = params
        self._n_vocab = n_vocab
        native = _core.SamplerParams()
        for name in _SAME:
            setattr(native, name, getattr(params, name))
        native.order = list(params.steps)
        native.dry_breakers = [
            breaker if isinstance(breaker, tuple) else (breaker,) for breaker in params.dry_breakers
        ]
        native.exempt = list(exempt)
        forbidden = dict.fromkeys(ends, -math.inf) if params.ignore_eos else {}
        self._forbidden = frozenset(forbidden)
        native.logit_bias = list((dict(params.bias_pairs) | forbidden).items())
        try:
            self._native = _core.Sampler(native, n_vocab)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None

    @property
    def params(self) -> SamplingParams:
        """The parameters this picker was made with."""
        return self._params

    @property
    def n_vocab(self) -> int:
        """Length of the rows it picks from."""
        return self._n_vocab

    @property
    def length(self) -> int:
        """How many tokens the history holds."""
        return self._native.length

    def extend(self, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to the history; all of them, or none if one cannot be a token.

        Raises:
            InvalidArgumentError: an id is not an integer of the vocabulary.
        """
        try:
            self._native.extend(tokens)
        except TypeError:
            raise InvalidArgumentError(
                f"tokens must be 32-bit integers, got {tokens!r:.200}"
            ) from None
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None

    def follow(self, tokens: Sequence[int], *, kept: int, answer: int) -> None:
        """Make the history ``tokens``, of which it has the first ``kept`` as far as it goes.

        Args:
            tokens: the whole history.
            kept: how many of its first tokens are in the history if that is so long.
            answer: where in ``tokens`` the answer begins, which some penalties are about.
        """
        self.truncate(min(self.length, kept))
        self.extend(tokens[self.length :])
        self.begin_answer(answer)

    def begin_answer(self, index: int) -> None:
        """Say where in the history the answer begins; it may lie ahead. At first all is answer.

        Raises:
            InvalidArgumentError: the index is negative.
        """
        check_int("index", index, 0, MAX_TOKEN_ID)
        self._native.begin_answer(index)

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` tokens of the history.

        Raises:
            InvalidArgumentError: the history is not that long.
        """
        check_int("length", length, 0, self.length)
        self._native.truncate(length)

    def pick(self, row: Logits, position: int, mask: Mask | None = None) -> int:
        """Return the token that ``row`` gives at ``position`` of the random stream.

        A logit of -inf makes a token impossible. Where a mask allows nothing but ends, the most
        likely of them is picked, also if they are to be ignored. Nothing is changed: :meth:`extend`
        the history if the token is committed.

        Args:
            row: contiguous float32 ``(n_vocab,)``.
            position: the index of the random number, from 0. Greedy picking needs none.
            mask: tokens that it does not allow count as impossible.

        Raises:
            InvalidArgumentError: the row or the mask has another shape or dtype, or the position is
                negative.
            InvalidLogitsError: the row has NaN or +inf, or nothing above -inf.
        """
        try:
            return self._native.sample(row, position, mask)
        except InvalidLogitsError:
            end = self._only_end(row, mask)
            if end is None:
                raise
            return end
        except TypeError:
            check_int("position", position, 0, MAX_SEED)
            _check_mask(mask)
            raise InvalidArgumentError(
                "row must be a contiguous float32 array of one dimension, got "
                f"{getattr(row, 'dtype', type(row).__name__)} {getattr(row, 'shape', '')}"
            ) from None
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None

    def stands(
        self, token: int, row: Logits, position: int, mask: Mask | None = None, *, drift: float
    ) -> bool:
        """Whether :meth:`pick` gives ``token`` too when the logits of the row drift.

        Greedily: whether all others are further below it than two logits can come together. Else
        the token is drawn from three rows that have drifted most to its disadvantage: with as much
        as possible ranked before it, with as much as possible after it, and with its rivals fallen
        behind it. For temperature, top-k, top-p and min-p these are the worst there is.

        Args:
            token: what was picked with the same arguments.
            row: as for :meth:`pick`,
            position: and
            mask: too.
            drift: how far each logit may be from what it is in the row; may be infinite.

        Raises:
            InvalidArgumentError: an argument is not what :meth:`pick` takes.
        """
        try:
            return self._native.stands(token, row, position, drift, mask)
        except InvalidLogitsError:
            end = self._only_end(row, mask)
            if end is None:
                raise
            return end == token  # among ends that are to be ignored, no guard is needed
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(str(error)) from None

    def _only_end(self, row: Logits, mask: Mask | None) -> int | None:
        """The most likely end that is to be ignored, if the mask allows nothing else."""
        if mask is None or np.isnan(row).any():
            return None
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: self._n_vocab]
        allowed = np.flatnonzero(bits)
        if len(allowed) == 0 or not self._forbidden.issuperset(allowed.tolist()):
            return None
        best = int(allowed[row[allowed].argmax()])
        return best if np.isfinite(row[best]) else None


def _check_mask(mask: object) -> None:
    if mask is None:
        return
    is_array = isinstance(mask, np.ndarray) and mask.dtype == np.int32 and mask.ndim == 1
    if not is_array or not np.asarray(mask).flags.c_contiguous:
        raise InvalidArgumentError(
            "mask must be a contiguous int32 array of one dimension, got "
            f"{getattr(mask, 'dtype', type(mask).__name__)} {getattr(mask, 'shape', '')}"
        )
