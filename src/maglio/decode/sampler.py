"""One token from one row of logits. Knows no engine and no text; the arithmetic is native."""

from __future__ import annotations

from collections.abc import Sequence

from maglio import _core
from maglio.checks import MAX_SEED, check_int
from maglio.decode.params import SamplingParams
from maglio.engine.base import Logits
from maglio.errors import InvalidArgumentError


class Sampler:
    """The sampling pipeline with its history and its random stream.

    The random number for a token depends on the seed and on the number of tokens sampled before
    it (:attr:`position`) and on nothing else: Philox4x32-10 (Salmon et al., SC 2011) on that
    counter. Greedy sampling needs no number, but moves the position by one as well, so that a
    position counts tokens whatever the parameters.

    A sampler serves one stream of tokens and one thread at a time.

    Args:
        params: what to do with a row.
        n_vocab: length of a row; token ids are ``0 .. n_vocab - 1``.

    Raises:
        InvalidArgumentError: ``n_vocab`` is not in ``1 .. 2**20 - 1``, or a biased token is
            outside the vocabulary.
    """

    __slots__ = ("_n_vocab", "_native", "_params")

    def __init__(self, params: SamplingParams, n_vocab: int) -> None:
        check_int("n_vocab", n_vocab, 1, 2**20 - 1)
        if not isinstance(params, SamplingParams):
            raise InvalidArgumentError(f"sampling is {params!r:.80}, must be SamplingParams")
        self._params = params
        self._n_vocab = n_vocab
        self._native = self._make()

    def _make(self) -> _core.Sampler:
        params = self._params
        try:
            return _core.Sampler(
                self._n_vocab,
                temperature=params.temperature,
                top_k=params.top_k,
                top_p=params.top_p,
                min_p=params.min_p,
                repeat_penalty=params.repeat_penalty,
                frequency_penalty=params.frequency_penalty,
                presence_penalty=params.presence_penalty,
                penalty_last_n=params.penalty_last_n,
                logit_bias=list(params.bias_pairs),
                seed=params.seed,
            )
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None

    @property
    def params(self) -> SamplingParams:
        """The parameters this sampler was made with."""
        return self._params

    @property
    def n_vocab(self) -> int:
        """Length of the rows it samples from."""
        return self._n_vocab

    @property
    def position(self) -> int:
        """How many tokens were sampled: the index of the next draw in the random stream."""
        return self._native.position

    @property
    def history_length(self) -> int:
        """How many tokens were accepted into the history that penalties look at."""
        return self._native.history_length

    def seek(self, position: int) -> None:
        """Continue the random stream at ``position``; the history is not changed."""
        check_int("position", position, 0, MAX_SEED)
        self._native.seek(position)

    def restart(self, history: Sequence[int]) -> None:
        """Make ``history`` the history; the random stream stays where it is.

        Raises:
            InvalidArgumentError: an id is not an integer of the vocabulary; nothing is changed.
        """
        before, position = self._native, self._native.position
        self._native = self._make()
        self._native.seek(position)
        try:
            self.accept(history)
        except InvalidArgumentError:
            self._native = before
            raise

    def accept(self, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to the history; all of them, or none if one cannot be a token.

        Raises:
            InvalidArgumentError: an id is not an integer of the vocabulary.
        """
        try:
            self._native.accept(tokens)
        except TypeError:
            raise InvalidArgumentError(
                f"tokens must be 32-bit integers, got {tokens!r:.200}"
            ) from None
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None

    def sample(self, row: Logits) -> int:
        """Return the next token given ``row``, contiguous float32 ``(n_vocab,)``.

        A logit of -inf makes a token impossible. The history is not changed: :meth:`accept` the
        token if it is committed.

        Raises:
            InvalidArgumentError: the row has another shape or dtype.
            InvalidLogitsError: the row has NaN or +inf, or nothing above -inf. The position is
                not moved.
        """
        try:
            return self._native.sample(row)
        except TypeError:
            raise InvalidArgumentError(
                "row must be a contiguous float32 array of one dimension, got "
                f"{getattr(row, 'dtype', type(row).__name__)} {getattr(row, 'shape', '')}"
            ) from None
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None
