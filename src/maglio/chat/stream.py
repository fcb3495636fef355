"""The token stream behind a conversation: one sequence, how it is sampled and drafted for.

Boundary: token ids. It knows no messages and no template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from maglio.chat.shelf import ReferenceShelf
from maglio.decode import Picker, SamplingParams
from maglio.decode import Sequence as TokenSequence
from maglio.draft.source import DraftSource
from maglio.engine.base import Cache
from maglio.generation import Ending, Reading, Stream
from maglio.speculation import Speculation
from maglio.starting import StreamModel
from maglio.text import ChatTemplate


class ChatModel(StreamModel, Protocol):
    """What a conversation needs of a model besides."""

    @property
    def chat_template(self) -> ChatTemplate:
        """How conversations are written."""
        ...


class ChatStream:
    """The stream of one conversation. Whatever cannot be set up leaves it as it was.

    Args:
        model: computes its logits.
        shelf: the references that it drafts from.
        sampling: how tokens are chosen.
        speculation: whether, or how, to draft.

    Raises:
        InvalidArgumentError: an argument can never work.
        OutOfMemoryError: there is no memory for the cache or the indexes.
    """

    def __init__(
        self,
        model: StreamModel,
        shelf: ReferenceShelf,
        sampling: SamplingParams,
        speculation: bool | Speculation,
    ) -> None:
        self._model = model
        self._shelf = shelf
        self._remembered = 0  # tokens that the history knows of
        self._begin(model.engine.new_cache(), sampling, speculation)

    @property
    def tokens(self) -> tuple[int, ...]:
        """All committed tokens."""
        return self._sequence.tokens

    @property
    def position(self) -> int:
        """Where the random stream stands."""
        return self._sequence.position

    @property
    def sampling(self) -> SamplingParams:
        """How tokens are chosen."""
        return self._sampling

    @property
    def speculation(self) -> bool | Speculation:
        """Whether, or how, to draft."""
        return self._speculation

    @property
    def source(self) -> DraftSource | None:
        """What drafts are proposed by."""
        drafter = self._sequence.drafter
        return None if drafter is None else drafter.source

    def go_on(
        self, sampling: SamplingParams, speculation: bool | Speculation, position: int
    ) -> None:
        """Sample or draft in another way from here on, with the random stream at ``position``."""
        self._begin(self._sequence.cache, sampling, speculation, self.tokens, position)

    def fork(self, shelf: ReferenceShelf) -> ChatStream:
        """Return an independent stream that begins with the same tokens; the cache is shared.

        Raises:
            InvalidArgumentError: the draft source serves one stream.
            OutOfMemoryError: there is no memory for it.
        """
        if isinstance(self._speculation, Speculation):
            self._speculation.for_many()  # checks it
        branch = ChatStream.__new__(ChatStream)
        branch._model, branch._shelf, branch._remembered = self._model, shelf, self._remembered
        cache = self._sequence.cache
        branch._begin(
            cache.fork(cache.length), self.sampling, self._speculation, self.tokens, self.position
        )
        return branch

    def answer(
        self,
        prompt: Sequence[int],
        ending: Ending,
        progress: Callable[[int, int], None] | None,
    ) -> Stream:
        """Generate after ``prompt``, a whole conversation; only what is new is computed.

        Raises:
            ContextFullError: the prompt does not fit.
        """
        cache = self._sequence.cache

        def told(done: int, total: int) -> None:
            if done == total:
                cache.keep()  # another answer, or another writing of this one, begins here
            if progress is not None:
                progress(done, total)

        start = _common_prefix(prompt, self.tokens)
        self._sequence.rewind(start)
        self._remembered = min(self._remembered, start)
        reading = Reading(self._sequence, self._model.tokenizer, prompt[start:], ending)
        return Stream(self._model.engine, reading, self._cost, progress=told)

    def keep(self, length: int) -> None:
        """An answer has ended: so many tokens of the stream stay."""
        self._sequence.rewind(length)
        begin, self._remembered = self._remembered, length
        if self._past is not None:
            self._past.add(self.tokens[begin:])

    def _begin(
        self,
        cache: Cache,
        sampling: SamplingParams,
        speculation: bool | Speculation,
        tokens: Sequence[int] = (),
        position: int = 0,
    ) -> None:
        engine = self._model.engine
        drafter, cost, history = self._model.drafting.start(speculation, sampling)  # checks both
        control, ends = self._model.tokenizer.control_tokens, self._model.tokenizer.eog_ids
        picker = Picker(sampling, engine.n_vocab, exempt=control.values(), ends=ends)
        if drafter is not None:
            self._shelf.tell(drafter.source)
        self._sequence = TokenSequence(
            cache,
            picker,
            drafter,
            n_ctx=engine.n_ctx,
            tokens=tokens,
            position=position,
            guard=self._model.margin_guard(picker),
        )
        self._sampling, self._speculation = sampling, speculation
        self._cost, self._past = cost, history


def _common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first tokens are the same."""
    same, more = 0, min(len(one), len(other))
    while more > 0:  # halves: comparing slices is many times quicker than comparing ids
        half = (more + 1) // 2
        if one[same : same + half] == other[same : same + half]:
            same, more = same + half, more - half
        else:
            more = half - 1
    return same
