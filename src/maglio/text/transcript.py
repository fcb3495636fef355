"""A generation read as text, token by token. Knows a tokenizer, no model.

It follows a stream of generated tokens that may be cut back: it is read again from its beginning
then, which is rare.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from maglio.text.detokenizer import Detokenizer
from maglio.text.stop import StopMatcher
from maglio.text.tokenizer import Tokenizer


class Transcript:
    """The text of generated tokens, cut before a stop string.

    Args:
        tokenizer: the model's.
        stop: the text ends before the first of these.
        stop_ids: tokens that end the generation and are not part of the text.
        show_control: whether control tokens other than those are text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        stop: Sequence[str] = (),
        stop_ids: Collection[int] = (),
        show_control: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._show_control = show_control
        self._stop = tuple(stop)
        self._stop_ids = stop_ids
        self._tokens: list[int] = []
        self._restart()

    def _restart(self) -> None:
        self._is_torn = True
        self._detokenizer = Detokenizer(
            self._tokenizer, show_control=self._show_control, continues=True
        )
        self._matcher = StopMatcher(self._stop)
        self._tokens.clear()
        self._pieces: list[str] = []  # by token, what became certain with it
        self._length = 0  # of the text, before any stop string is cut off
        self._ends: list[int | None] = []  # where each token's text ends, if not in a character
        self._settled = 0
        self._flushed = False
        self._tail = ""
        self._is_torn = False  # whether an interrupt came in the middle of a change

    @property
    def length(self) -> int:
        """Generated tokens read so far."""
        if self._is_torn:
            self._restart()
        return len(self._tokens)

    @property
    def settled(self) -> int:
        """How many of them are sure to stay: no stop string can reach back to them."""
        return self._settled

    def push(self, token: int) -> bool:
        """Read the next generated token; whether it completes a stop string."""
        self._is_torn = True
        is_end = token in self._stop_ids and self._tokenizer.is_control(token)
        piece = "" if is_end else self._detokenizer.push(token)
        text, stopped = self._matcher.push(piece)
        self._tokens.append(token)
        self._pieces.append(text)
        if token not in self._stop_ids:
            pending = self._detokenizer.pending
            self._length += len(piece)
            self._ends.append(None if pending else self._length)
            if not self._stop or not (stopped or pending or self._matcher.holding):
                self._settled = len(self._ends)
        self._is_torn = False
        return stopped

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` generated tokens."""
        if length < self.length:
            kept = self._tokens[:length]
            self._restart()
            for token in kept:
                self.push(token)

    def text(self, n_tokens: int) -> str:
        """The text of the first ``n_tokens`` tokens, and what :meth:`flush` has added."""
        return "".join(self._pieces[:n_tokens]) + self._tail

    def piece(self, index: int) -> str:
        """The text that became certain with token number ``index``.

        It is empty while a character is incomplete or a stop string might be beginning.
        """
        return self._pieces[index]

    def flush(self) -> str:
        """Return what was held back, as the text ends here. A second call returns nothing."""
        if self._flushed:
            return ""
        self._is_torn = True
        text, stopped = self._matcher.push(self._detokenizer.flush())
        self._tail = text if stopped else text + self._matcher.flush()
        self._flushed = True
        self._is_torn = False
        return self._tail

    def kept(self, text_length: int) -> int:
        """How many tokens stay when the text ends after ``text_length`` characters.

        All up to a stop token or a stop string; a token that a stop string begins in does not
        count.
        """
        if self._matcher.stopped:
            fits = [i for i, e in enumerate(self._ends) if e is not None and e <= text_length]
            return fits[-1] + 1 if fits else 0
        return len(self._ends)
