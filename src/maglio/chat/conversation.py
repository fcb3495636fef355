"""Conversations: turns, their place in the cache, and what drafting may learn from them.

Boundary: turns text into prompts and answers. How tokens are chosen is the decoder's business, and
how messages are written the chat template's.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from maglio.chat import saved
from maglio.chat.history import Exchanges
from maglio.chat.limits import Limits, OnFull
from maglio.chat.prompt import PromptEncoder
from maglio.chat.rendered import Rendered
from maglio.chat.shelf import ReferenceShelf
from maglio.chat.stream import ChatModel, ChatStream
from maglio.chat.turn import Answer, Turn
from maglio.checks import MAX_TOKEN_ID, check_int
from maglio.decode import GenerationStats, SamplingParams, total
from maglio.errors import InvalidArgumentError, MaglioError
from maglio.one_thread import OneThread, one_thread
from maglio.references import Reference, each
from maglio.speculation import Speculation


class Conversation:
    """Turns with one model. Made by :meth:`maglio.Model.chat`, which documents the arguments.

    The cache keeps what was computed: a turn costs its own tokens, however long the history is.
    After an undo, an edit, or where the template writes earlier turns anew, only what follows the
    first changed token is computed again.

    One thread at a time can use it: another is refused with :class:`~maglio.errors.MaglioError`.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        system: str | None,
        sampling: SamplingParams | None,
        speculation: bool | Speculation,
        references: Sequence[Reference],
        max_tokens: int,
        on_full: OnFull,
        stop: Sequence[str],
        on_prefill: Callable[[int, int], None] | None,
        tools: Sequence[Mapping[str, Any]] | None,
        chat_template: str | None,
        template_variables: Mapping[str, Any] | None,
    ) -> None:
        self._limits = Limits(max_tokens=max_tokens, stop=stop, on_full=on_full)
        self.on_prefill = on_prefill
        self._model = model
        self._encoder = PromptEncoder(
            model.chat_template,
            model.tokenizer,
            tools=tools,
            variables=template_variables,
            name=chat_template,
        )
        self._use = OneThread("this conversation")
        self._history = Exchanges(system)
        self._rendered = Rendered()
        self._spent: list[GenerationStats] = []
        self._open: Answer | None = None
        self._shelf = ReferenceShelf(model.tokenizer)
        self._stream = ChatStream(
            model, self._shelf, SamplingParams() if sampling is None else sampling, speculation
        )
        for reference in each(references):
            self.add_reference(reference)

    # --- what there is ---------------------------------------------------------------------------

    @property
    def system(self) -> str | None:
        """The system prompt. Setting it changes the beginning of the conversation."""
        return self._history.system

    @system.setter
    @one_thread
    def system(self, text: str | None) -> None:
        self._settle()
        self._become(replace(self._history, system=text))

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, oldest first."""
        self._settle()
        return self._history.turns

    @property
    def dropped(self) -> int:
        """How many of the oldest turns the model does not see any more, the context being full."""
        return self._history.dropped

    @property
    def messages(self) -> list[dict[str, str]]:
        """What the model sees, in the form that chat templates take."""
        self._settle()
        return self._history.messages()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The token ids of the conversation so far, up to the last answer's end."""
        self._settle()
        return self._rendered.ids

    @property
    def room(self) -> int:
        """Positions of the context that are left."""
        return max(0, self._model.engine.n_ctx - len(self.tokens))

    @property
    def position(self) -> int:
        """Where the random stream stands: how many tokens were sampled."""
        self._settle()
        return self._stream.position

    @property
    def stats(self) -> GenerationStats:
        """The sum of all that was generated, undone turns included."""
        self._settle()
        return total(self._spent)

    @property
    def sampling(self) -> SamplingParams:
        """How tokens are chosen. Setting it takes effect with the next turn.

        The random stream goes on where it stands unless the seed is another one.
        """
        return self._stream.sampling

    @sampling.setter
    @one_thread
    def sampling(self, params: SamplingParams) -> None:
        self._settle()
        same_numbers = getattr(params, "seed", None) == self.sampling.seed
        self._stream.go_on(params, self.speculation, self.position if same_numbers else 0)

    @property
    def on_full(self) -> OnFull:
        """What to do when a message does not fit the context: ``stop`` or ``drop``."""
        return self._limits.on_full

    @on_full.setter
    def on_full(self, choice: OnFull) -> None:
        self._limits = replace(self._limits, on_full=choice)

    @property
    def max_tokens(self) -> int:
        """Most tokens of an answer."""
        return self._limits.max_tokens

    @max_tokens.setter
    def max_tokens(self, limit: int) -> None:
        self._limits = replace(self._limits, max_tokens=limit)

    @property
    def stop(self) -> tuple[str, ...]:
        """An answer ends before the first of these texts, besides where the model ends it."""
        return tuple(self._limits.stop)

    @stop.setter
    def stop(self, texts: Sequence[str]) -> None:
        self._limits = replace(self._limits, stop=texts)

    @property
    def speculation(self) -> bool | Speculation:
        """Whether, or how, to draft. Setting it takes effect with the next turn."""
        return self._stream.speculation

    @speculation.setter
    @one_thread
    def speculation(self, speculation: bool | Speculation) -> None:
        self._settle()
        self._stream.go_on(self.sampling, speculation, self.position)

    # --- turns -----------------------------------------------------------------------------------

    @one_thread
    def send(self, text: str) -> Answer:
        """Say ``text`` and return the answer, which comes as it is iterated.

        Raises:
            ContextFullError: the message does not fit; nothing is changed.
            ChatTemplateError: the chat template does not take it; nothing is changed.
        """
        self._settle()
        if not isinstance(text, str):
            raise InvalidArgumentError(f"a message is {text!r:.80}, must be a text")
        n_ctx, limits = self._model.engine.n_ctx, self._limits
        history, prompt = self._encoder.fit(
            self._history, text, self._rendered, n_ctx=n_ctx, reserve=limits.reserve(n_ctx)
        )
        ending = limits.ending(self._encoder.stop)
        stream = self._stream.answer(prompt.ids, ending, self.on_prefill)
        before, spent = (self._history, self._rendered), self._spent
        self._history = history

        def finish(answer: Answer) -> None:
            # An interrupt may have it called again, so it stores results and changes nothing else.
            self._spent = [*spent, answer.stats]
            self._history, self._rendered = self._kept(history, text, prompt, answer) or before
            self._open = None

        thinking = prompt.text.text[-64:].rstrip().endswith("<think>")
        self._open = Answer(stream, finish, begins_thinking=thinking, use=self._use)
        return self._open

    @one_thread
    def undo(self, turns: int = 1) -> tuple[Turn, ...]:
        """Take back the last turns and return them.

        Raises:
            InvalidArgumentError: there are not that many.
        """
        self._settle()
        check_int("turns", turns, 1, MAX_TOKEN_ID)
        n = len(self.turns)
        if turns > n:
            raise InvalidArgumentError(f"cannot undo {turns}: the conversation has {n} turns")
        gone = self.turns[n - turns :]
        self._become(self._history.first(n - turns))
        return gone

    @one_thread
    def retry(self) -> Answer:
        """Take back the last turn and say the same again; sampling goes on, so it may differ."""
        self._check_turn(0)
        return self.edit(len(self.turns) - 1, self.turns[-1].user)

    @one_thread
    def edit(self, turn: int, text: str) -> Answer:
        """Go back to before turn number ``turn``, counted from 0, and say ``text`` instead.

        Raises as :meth:`send`; nothing is then changed.
        """
        self._check_turn(turn)
        before = self._history, self._rendered
        self._become(self._history.first(turn))
        try:
            return self.send(text)
        except BaseException:  # Ctrl-C too
            self._history, self._rendered = before
            raise

    @one_thread
    def fork(self) -> Conversation:
        """Return an independent conversation that begins like this one.

        What was computed is shared and not copied. Both go on with the same random numbers.

        Raises:
            OutOfMemoryError: there is no memory for it.
        """
        self._settle()
        branch = copy.copy(self)
        branch._use = OneThread("this conversation")
        branch._spent = list(self._spent)
        branch._shelf = self._shelf.copy()
        branch._stream = self._stream.fork(branch._shelf)
        return branch

    @one_thread
    def drop(self, turn: int) -> Turn:
        """Take turn number ``turn``, counted from 0, out of the conversation and return it."""
        self._check_turn(turn)
        gone = self.turns[turn]
        self._become(self._history.without(turn))
        return gone

    @one_thread
    def clear(self) -> None:
        """Take back all turns. The system prompt and the references stay."""
        self._settle()
        self._become(self._history.first(0))

    # --- references ------------------------------------------------------------------------------

    @one_thread
    def add_reference(self, reference: Reference) -> None:
        """Draft from a document too: a text, a file or folder given as a path, token ids, an index.

        It changes speed and never what is said; the model does not see it.

        Raises:
            InvalidArgumentError: it is empty or cannot be read, or drafting is by a source of
                your own that takes no references.
            IndexFileError: an index file is damaged or of another tokenizer.
            OutOfMemoryError: the index does not fit in memory.
        """
        self._settle()
        self._shelf.add(reference, self._stream.source)

    @one_thread
    def clear_references(self) -> None:
        """Forget all references."""
        self._settle()
        self._shelf.clear(self._stream.source)

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references as they were given."""
        return self._shelf.origins

    # --- on disk ---------------------------------------------------------------------------------

    @one_thread
    def save(self, path: str | Path) -> None:
        """Save the conversation as JSON; whatever happens meanwhile, ``path`` is whole.

        References are saved as they were given: paths as paths.

        Raises:
            ConversationFileError: it cannot be written.
            InvalidArgumentError: a reference was given as an index, which only its file could
                bring back.
        """
        chat = saved.SavedChat(
            fingerprint=self._model.tokenizer.fingerprint,
            system=self.system,
            turns=self.turns,
            dropped=self.dropped,
            references=self._shelf.savable(),
            sampling=self.sampling,
            position=self.position,
            limits=self._limits,
        )
        saved.write(Path(path), chat)

    @one_thread
    def load(self, path: str | Path) -> None:
        """Become the conversation that was saved; cache and indexes follow with the next turn.

        An older file has no ``max_tokens``, ``stop`` and ``on_full``; these then stay as they are.
        Answers are encoded anew if another tokenizer made their ids. A reference whose file cannot
        be read any more is left out with a warning: it changes speed alone.

        Raises:
            ConversationFileError: the file cannot be read or trusted; nothing is changed.
            ChatTemplateError: the chat template does not take its turns; nothing is changed.
        """
        tokenizer = self._model.tokenizer
        chat = saved.read(Path(path), tokenizer.fingerprint, self._model.engine.n_vocab)
        turns = chat.turns_for(tokenizer)
        self._settle()
        history = Exchanges(chat.system, turns, chat.dropped)
        rendered = self._encoder.history(history, self._rendered)
        self._stream.go_on(chat.sampling, self.speculation, chat.position)
        self._history, self._rendered = history, rendered
        self._limits = chat.limits or self._limits
        self.clear_references()
        for reference in chat.references:
            try:
                self.add_reference(reference)
            except MaglioError as error:  # noqa: PERF203
                warnings.warn(f"a reference is left out: {error}", RuntimeWarning, stacklevel=3)

    # --- inside ----------------------------------------------------------------------------------

    @one_thread
    def _settle(self) -> None:
        """End an answer that nobody waits for any more."""
        if self._open is not None:
            self._open.close()

    def _kept(
        self, history: Exchanges, user: str, prompt: Rendered, answer: Answer
    ) -> tuple[Exchanges, Rendered] | None:
        """What there is after an answer; the cache and the indexes forget what does not stay.

        ``None`` if it was interrupted before it began: then it is as if nothing had been said.
        """
        kept = answer.stream.kept
        ids = answer.tokens[:kept]
        reason = answer.finish_reason
        self._stream.keep(len(prompt.ids) + kept)
        if reason is None and not answer.text and not ids:
            return None
        turn = Turn(user, answer.text, ids, reason or "interrupted", answer.stats)
        return history.plus(turn), self._encoder.answer(prompt, answer.text, ids)

    def _become(self, history: Exchanges) -> None:
        """Go on from another history. Cache and indexes are cut back when a message is sent."""
        self._rendered = self._encoder.history(history, self._rendered, self._history)
        self._history = history

    def _check_turn(self, turn: int) -> None:
        self._settle()
        check_int("turn", turn, 0, max(0, len(self.turns) - 1))
        if not self.turns:
            raise InvalidArgumentError("the conversation has no turns yet")
