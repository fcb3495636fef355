"""The cascade: conversation, reference documents, history and recycled logits as one source.

Boundary: follows the stream with every member. Which member drafts, and how much, is the policy's
choice; finding a continuation is the members' business.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from maglio._core import FrozenAutomaton
from maglio.checks import MAX_TOKEN_ID, check_int
from maglio.draft.conversation import DEFAULT_TOKEN_CAP, ConversationMember
from maglio.draft.member import Ids, Member
from maglio.draft.prediction import PredictedText, PredictionMember
from maglio.draft.recycling import DEFAULT_PAIR_SLOTS, RecyclingMember
from maglio.draft.reference import ReferenceMember, frozen
from maglio.draft.source import Draft, DraftSource, Step
from maglio.economics.gate import GateOptions
from maglio.errors import InvalidArgumentError
from maglio.tokens import Tokens, token_array

CATCH_UP_TOKENS = 1 << 16
"""How far back a reference that joins late can match: the stream's last tokens, at least."""


class Policy(Protocol):
    """Chooses a draft at every step, and hears what came of it."""

    @property
    def gate(self) -> GateOptions:
        """The constants of the cost gate that suit its drafts."""
        ...

    def choose(
        self, matching: Sequence[Member], recycling: Member | None, limit: int
    ) -> Draft | None:
        """The draft to verify, or ``None`` for a plain step.

        Args:
            matching: the members that draft by a match, in order of preference.
            recycling: the member to fall back on, if there is one.
            limit: most draft tokens, at least 1.
        """
        ...

    def learn(self, step: Step) -> None:
        """The stream went on with ``step`` after the last choice."""
        ...

    def muted(self, name: str) -> bool:
        """Whether a member is muted now."""
        ...

    def forget(self, name: str) -> None:
        """A new member has this name: what was learnt of an earlier one is not about it."""
        ...


class Cascade(DraftSource):
    """Drafts from whichever member the policy finds best.

    The members are what the answer is expected to be (``prediction``, see :meth:`predict`), the
    stream itself (``conversation``), documents (``reference:0`` and on, see :meth:`add_reference`),
    earlier streams (``history``), and the logits of earlier rows (``recycling``).

    Args:
        n_vocab: number of token ids.
        policy: chooses among the members.
        conversation: whether to draft from the stream itself.
        recycling: whether to draft from recycled logits.
        history: an index of earlier streams.
        token_cap: tokens of the stream to index.
        pair_slots: size of the recycling table keyed by two tokens, a power of two; 0 is none.

    Raises:
        InvalidArgumentError: an argument is out of range.
        OutOfMemoryError: there is no memory for the recycling tables.
    """

    def __init__(
        self,
        n_vocab: int,
        policy: Policy,
        *,
        conversation: bool = True,
        recycling: bool = False,
        history: FrozenAutomaton | None = None,
        token_cap: int = DEFAULT_TOKEN_CAP,
        pair_slots: int = DEFAULT_PAIR_SLOTS,
    ) -> None:
        self.gate = policy.gate
        self._n_vocab = n_vocab
        self._policy = policy
        self._conversation: list[Member] = []
        if conversation:
            self._conversation.append(ConversationMember(token_cap=token_cap))
        self._prediction: list[Member] = []
        self._references: list[Member] = []
        self._history: list[Member] = []
        if history is not None and history.max_token < n_vocab:
            # Answers are not copied along one another (docs/lab/drafting.md).
            self._history.append(ReferenceMember("history", history, in_order=False))
        self._recycling: RecyclingMember | None = None
        if recycling:
            self._recycling = RecyclingMember(n_vocab, pair_slots=pair_slots)
            self.topk = RecyclingMember.WIDTH
        self._stream = array("i")  # the end of it, for references that join late
        self._length = 0  # of all of it

    @property
    def recycling(self) -> RecyclingMember | None:
        """The recycling tables, to read."""
        return self._recycling

    def parts(self) -> Mapping[str, bool]:
        """See :meth:`DraftSource.parts`."""
        return {member.name: self._policy.muted(member.name) for member in self._members()}

    def match_lengths(self) -> Mapping[str, int]:
        """The match of every member that matches, muted or not."""
        return {member.name: member.match_length for member in self._matching()}

    def propose(self, stream: Sequence[int], limit: int) -> Draft | None:
        """See :meth:`DraftSource.propose`; ``stream`` must be what was observed so far."""
        return self._policy.choose(self._matching(), self._recycling, limit)

    def observe(self, step: Step) -> None:
        """Follow the stream.

        Raises:
            InvalidArgumentError: an id is outside the vocabulary; nothing is then learnt.
        """
        tokens = token_array(step.tokens, self._n_vocab)
        if self._recycling is not None and step.top is not None:
            self._recycling.recycle(step.fed, step.top)
        for member in self._members():
            member.follow(tokens)
        self._remember(tokens)
        self._policy.learn(step)

    def rewind(self, stream: Sequence[int]) -> None:
        """Follow ``stream`` instead. What verified rows have taught about the model stays."""
        tokens = token_array(stream, self._n_vocab)
        for member in self._members():
            member.rewind(tokens)
        del self._stream[:]
        self._length = 0
        self._remember(tokens)

    def add_reference(self, document: Tokens | FrozenAutomaton, *, name: str | None = None) -> str:
        """Draft from a document too; it is matched against the stream so far at once.

        Args:
            document: token ids of the model's tokenizer, or an index of them.
            name: what to call it: ``reference:`` and a word; by default its number.

        Returns:
            The name of the new member.

        Raises:
            InvalidArgumentError: the document is empty or too long, or an id is outside the
                vocabulary; nothing is then added.
            OutOfMemoryError: there is no memory to index it; nothing is then added.
        """
        index = document if isinstance(document, FrozenAutomaton) else frozen(document)
        if len(index) == 0:
            raise InvalidArgumentError("the reference is empty; give at least one token")
        if index.max_token >= self._n_vocab:
            raise InvalidArgumentError(
                f"the reference has token id {index.max_token}, outside the vocabulary of "
                f"{self._n_vocab}; encode it with the tokenizer of the model"
            )
        if name is not None and not name.startswith("reference:"):
            raise InvalidArgumentError(f"name is {name!r}, must be reference: and a word")
        if name is None:
            numbered = [m for m in self._references if m.name.removeprefix("reference:").isdigit()]
            name = f"reference:{len(numbered)}"
        member = ReferenceMember(name, index)
        member.follow(np.asarray(self._stream, dtype=np.int32))
        self._references.append(member)
        self._policy.forget(name)
        return name

    def predict(self, text: Tokens | PredictedText, *, begin: int) -> None:
        """Expect an answer, instead of any expected before. Say so before it is generated.

        Args:
            text: token ids of the expected answer; none expects nothing. A long one is better made
                a :class:`~maglio.draft.prediction.PredictedText` by whoever has the time.
            begin: length of the stream before the answer; at least what was observed.

        Raises:
            InvalidArgumentError: an id is outside the vocabulary, or the answer has begun; nothing
                is then changed.
        """
        check_int("begin", begin, self._length, MAX_TOKEN_ID)
        if not isinstance(text, PredictedText):
            text = PredictedText(token_array(text, self._n_vocab, name="prediction"))
        self._prediction.clear()
        if len(text) > 0:
            member = PredictionMember(text, begin, seen=self._length)
            self._prediction.append(member)
            self._policy.forget(member.name)

    def clear_references(self) -> None:
        """Drop all documents."""
        self._references.clear()

    def _matching(self) -> list[Member]:
        """The members that draft by a match, in order of preference."""
        return [*self._prediction, *self._conversation, *self._references, *self._history]

    def _members(self) -> list[Member]:
        return [*self._matching(), *([self._recycling] if self._recycling is not None else [])]

    def _remember(self, tokens: Ids) -> None:
        self._length += len(tokens)
        self._stream.frombytes(tokens.tobytes())
        if len(self._stream) > 2 * CATCH_UP_TOKENS:
            del self._stream[:-CATCH_UP_TOKENS]
