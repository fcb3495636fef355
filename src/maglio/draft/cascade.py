"""The cascade: conversation, reference documents and recycled logits behind one draft source.

Boundary: follows the stream, keeps account, and mutes. Which member drafts, and how much, is the
policy's choice; finding a continuation is the indexes' business.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from maglio._core import FrozenAutomaton, SuffixAutomaton
from maglio.draft.calibrated import CalibratedPolicy
from maglio.draft.calibration import Calibrations
from maglio.draft.member import Member
from maglio.draft.options import IndexOptions
from maglio.draft.past_streams import PastStreams
from maglio.draft.policy import Choice, DraftPolicy, RecordPolicy
from maglio.draft.recycling import RecyclingTable
from maglio.draft.source import SourceCounts
from maglio.draft.suffix import common_prefix
from maglio.errors import InvalidArgumentError, OutOfMemoryError
from maglio.tokens import token_array

CATCH_UP_TOKENS = 1 << 16
"""How far back a reference that joins late can match: the stream's last tokens, at least."""


class SpeculationIndex:
    """Drafts from whichever of its sources knows best how the stream goes on.

    The sources are the stream itself (``conversation``), documents (``reference:0`` and on, see
    :meth:`add_reference`), streams before this one (``history``), and the logits of earlier rows
    (``recycling``). Under the record policy a source whose drafts are seldom accepted is muted for
    a while; it goes on following the stream, so it is in step when it returns.

    What was accepted is inferred: the common prefix of the last suggestion and the tokens observed
    next.

    Args:
        n_vocab: number of token ids.
        options: constants and policy.
        past: earlier streams of the model, to draft from; this one becomes one of them.
        calibrations: what earlier streams taught about the sources, to go on from and add to.

    Raises:
        InvalidArgumentError: an argument is out of range.
        OutOfMemoryError: there is no memory for the recycling tables.
    """

    def __init__(
        self,
        n_vocab: int,
        *,
        options: IndexOptions | None = None,
        past: PastStreams | None = None,
        calibrations: Calibrations | None = None,
    ) -> None:
        self._options = options = options or IndexOptions()
        self._n_vocab = n_vocab
        self._table: RecyclingTable | None = None
        self._recycling: Member | None = None
        if options.recycling:
            self._table = RecyclingTable(n_vocab, pair_slots=options.pair_slots)
            self._recycling = Member("recycling", self._table, self._table.observe, options)
        self._conversation: Member | None = None
        if options.conversation:
            self._conversation = _conversation(options)
        self._references: list[Member] = []
        self._history: Member | None = None
        self._past: FrozenAutomaton | None = None  # what the history matches
        self._documents: list[FrozenAutomaton] = []  # of the references, in their order
        self._policy = _policy(options)
        self._stream = array("i")  # the end of it, for references that join late
        self._pending: Choice | None = None
        self._drafted_by = ""
        self._answering = False  # whether drafts were asked for since the last prompt
        if past is not None:
            self._join(past)
        if calibrations is not None:
            for member in self._members():
                member.calibration = calibrations.of(member.kind)

    @property
    def topk(self) -> int:
        """Candidates per row that recycling wants; 0 without it."""
        return 0 if self._table is None else RecyclingTable.WIDTH

    @property
    def drafted_by(self) -> str:
        """Name of the source behind the last suggestion; empty before the first."""
        return self._drafted_by

    @property
    def recycling(self) -> RecyclingTable | None:
        """The recycling tables, to read."""
        return self._table

    def counts(self) -> Mapping[str, SourceCounts]:
        """Draft tokens proposed and accepted by source, up to the last :meth:`observe`."""
        return {member.name: member.counts() for member in self._members()}

    def match_lengths(self) -> Mapping[str, int]:
        """The match of every source that matches, muted or not."""
        return {member.name: member.matcher.match_length for member in self._matching()}

    def suggest(self, context: Sequence[int], limit: int) -> Sequence[int]:
        """Propose at most ``limit`` tokens; ``context`` must be what was observed so far."""
        self._pending = None
        self._answering = True
        if limit < 1:
            return []
        matching = [member for member in self._matching() if not member.muted]
        recycling = self._recycling
        if recycling is not None and recycling.muted:
            recycling = None
        choice = self._policy.choose(matching, recycling, limit)
        if choice is None or not choice.draft:
            return []
        self._pending = choice
        self._drafted_by = choice.member.name
        return choice.draft

    def observe(self, committed: Sequence[int]) -> None:
        """Account for the last suggestion, and follow the stream.

        Raises:
            InvalidArgumentError: an id is not one of the vocabulary; nothing is then learnt.
        """
        tokens = token_array(committed)
        if len(tokens) > 0 and max(committed) >= self._n_vocab:
            raise InvalidArgumentError(
                f"token id {max(committed)} is outside the vocabulary of {self._n_vocab}"
            )
        for member in self._members():
            member.observe(tokens)
        self._remember(tokens)
        # A step commits a token, and more only if they were drafted: the rest are prompts.
        drafted = 0 if self._pending is None else len(self._pending.draft)
        if self._answering and len(tokens) > 1 + drafted:
            self._answering = False
            self._policy.begin_turn(self._members())
        self._policy.learn(committed)
        if self._pending is not None:
            member, draft = self._pending
            member.judge(len(draft), common_prefix(draft, committed))
            self._pending = None

    def observe_topk(self, tokens: Sequence[int], candidates: npt.NDArray[np.int32]) -> None:
        """Learn that ``candidates[i]``, best first, may follow ``tokens[i]``.

        Rows of a verify step (``tokens[0]`` is then the last token observed) or of a prompt, in
        order. Does nothing without recycling.

        Raises:
            InvalidArgumentError: an id is outside the vocabulary, or the shapes do not fit.
        """
        if self._table is not None:
            self._table.observe_topk(tokens, candidates)

    def truncate_pending(self, n: int) -> None:
        """Count only the first ``n`` tokens of the last suggestion: the rest was never tried."""
        tried = max(n, 0)
        self._policy.forget(tried)
        if self._pending is not None:
            member, draft = self._pending
            self._pending = Choice(member, draft[:tried])

    def rewind(self, kept: Sequence[int]) -> None:
        """The stream is now ``kept``: follow that one instead.

        The counts stay, and what verified rows have taught about the model.
        """
        tokens = token_array(kept)
        self.truncate_pending(0)
        self._pending = None
        if self._conversation is not None:
            self._conversation.replace(*_live_index(self._options))
            self._conversation.follow(tokens)
        indexed = list(zip(self._references, self._documents, strict=True))
        if self._history is not None and self._past is not None:
            indexed.append((self._history, self._past))
        for member, document in indexed:
            cursor = document.cursor()
            member.replace(cursor, cursor.advance_many)
            member.follow(tokens)
        if self._table is not None:
            self._table.restart()
            self._table.observe(tokens[-2:])
        del self._stream[:]
        self._remember(tokens)

    def add_reference(
        self,
        document: Sequence[int] | npt.NDArray[np.integer] | FrozenAutomaton,
        *,
        name: str | None = None,
    ) -> str:
        """Draft from a document too; it is matched against the stream so far at once.

        Args:
            document: token ids of the model's tokenizer, or an index of them.
            name: what to call the source: ``reference:`` and a word; by default its number.

        Returns:
            The name of the new source.

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
        cursor = index.cursor()
        cursor.advance_many(np.asarray(self._stream, dtype=np.int32))
        if name is None:
            numbered = [m for m in self._references if m.name.removeprefix("reference:").isdigit()]
            name = f"reference:{len(numbered)}"
        self._documents.append(index)
        self._references.append(Member(name, cursor, cursor.advance_many, self._options))
        return name

    def clear_references(self) -> None:
        """Drop all documents with their counts; what is pending of them is never counted."""
        self._references.clear()
        self._documents.clear()

    def _matching(self) -> list[Member]:
        """The members that match the stream, in order of preference."""
        return [
            *([self._conversation] if self._conversation else []),
            *self._references,
            *([self._history] if self._history else []),
        ]

    def _members(self) -> list[Member]:
        return [*self._matching(), *([self._recycling] if self._recycling else [])]

    def _join(self, past: PastStreams) -> None:
        """Draft from earlier streams, and be one of them."""
        index = past.index()
        if index is not None and index.max_token < self._n_vocab:
            self._past = index
            cursor = index.cursor()
            self._history = Member("history", cursor, cursor.advance_many, self._options)
        past.follow(self._stream)

    def _remember(self, tokens: npt.NDArray[np.int32]) -> None:
        self._stream.frombytes(tokens.tobytes())
        if len(self._stream) > 2 * CATCH_UP_TOKENS:
            del self._stream[:-CATCH_UP_TOKENS]


def frozen(tokens: Sequence[int] | npt.NDArray[np.integer]) -> FrozenAutomaton:
    """Index a document for :meth:`SpeculationIndex.add_reference`.

    Raises:
        InvalidArgumentError: an id is not one, or the document is too long.
        OutOfMemoryError: there is no memory to index it.
    """
    try:
        return FrozenAutomaton(token_array(tokens))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except MemoryError as error:
        raise OutOfMemoryError(
            f"no memory to index a reference of {len(tokens)} tokens (about 150 bytes each while "
            "it is built); use a shorter one"
        ) from error


def _policy(options: IndexOptions) -> DraftPolicy:
    return CalibratedPolicy(options) if options.policy == "calibrated" else RecordPolicy(options)


def _conversation(options: IndexOptions) -> Member:
    index, follow = _live_index(options)
    return Member("conversation", index, follow, options)


def _live_index(
    options: IndexOptions,
) -> tuple[SuffixAutomaton, Callable[[npt.NDArray[np.int32]], None]]:
    """Make an empty index of the stream, and what extends it."""
    try:
        index = SuffixAutomaton(token_cap=options.token_cap)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(str(error)) from None

    def follow(tokens: npt.NDArray[np.int32]) -> None:
        try:
            index.extend(tokens)
        except MemoryError:
            return  # the index has poisoned itself: it answers 0 from now on

    return index, follow
