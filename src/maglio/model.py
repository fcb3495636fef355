"""A loaded model: what the library offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

from maglio.batch import Batch, sampling_of_each
from maglio.chat import Conversation, OnFull
from maglio.decode import MarginGuard, Picker, SamplingParams
from maglio.draft.past import History
from maglio.economics.cost import UNPROBED_NATIVE_COST, CostModel
from maglio.economics.profile import ProfileKey, ProfileStore
from maglio.engine.base import Cache, Engine, Exactness
from maglio.engine.quick_check import QuickCheck
from maglio.engine.session import Session
from maglio.errors import InvalidArgumentError
from maglio.generation import Ending, Generation, Started, Stream
from maglio.grammar import Grammar, GrammarCompiler
from maglio.history_file import HistoryFile
from maglio.prompt import Prompt
from maglio.references import Reference, each, index_reference
from maglio.request import Request
from maglio.speculation import DraftingSetup, Speculation
from maglio.starting import start, start_drafting
from maglio.text import ChatTemplate, Tokenizer


class Model:
    """A loaded model: an engine and the tokenizer that belongs to it. Made by :func:`load`.

    Attributes:
        engine: computes logits.
        tokenizer: text to token ids and back.
        path: the file that it was read from, if it was read from one.
        checked: how exact the quick check of :func:`load` found the engine; ``None`` if there was
            none, as for the native engine.
        drafting: sets up drafting for its streams.
        grammars: compiles what answers must be.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        *,
        chat_template: str | Mapping[str, str] | None = None,
        path: Path | None = None,
        checked: QuickCheck | None = None,
        guard: bool = False,
    ) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.path = path
        self.checked = checked
        self._guard = guard
        self.drafting = DraftingSetup(
            engine.n_vocab, lambda: self.cost, can_rewind=engine.can_rewind
        )
        self.grammars = GrammarCompiler(tokenizer, engine.n_vocab)
        self._chat_template = chat_template
        self._file_size = 0 if path is None else path.stat().st_size  # the file may go away

    @property
    def name(self) -> str:
        """The name of its file; that of the engine for a model without one."""
        return self.engine.name if self.path is None else self.path.name

    @property
    def profile_key(self) -> ProfileKey | None:
        """What a measured profile of its costs is kept under; ``None`` if its file is gone."""
        return None if self.path is None else ProfileKey.of(self.engine, self.path)

    @cached_property
    def cost(self) -> CostModel:
        """What a forward costs: this machine's profile of the model, or a built-in table."""
        key = self.profile_key
        measured = None if key is None else ProfileStore().load(key)
        if measured is not None:
            return measured.curve()
        return UNPROBED_NATIVE_COST

    @cached_property
    def chat_template(self) -> ChatTemplate:
        """How conversations are written for this model; ChatML if its file does not say.

        Raises:
            ChatTemplateError: the template in the model file is too long.
        """
        return ChatTemplate(self._chat_template, self.tokenizer)

    @property
    def promised(self) -> Exactness:
        """What the engine says of its rows itself. What is relied on is ``engine.exactness``."""
        return self.engine.exactness if self.checked is None else self.checked.claimed

    def margin_guard(self, picker: Picker) -> MarginGuard | None:
        """What keeps rounding from changing a stream's tokens.

        ``None`` where nobody asked for it with ``exact="guard"``, where rows are bitwise, and where
        the engine cannot go back to compute a row again.
        """
        found = self.checked
        if not self._guard or found is None or found.exactness == "bitwise":
            return None
        return MarginGuard(picker, found.drift) if self.engine.can_rewind else None

    def session(self) -> Session:
        """Start an empty sequence for direct use of the engine."""
        return Session(self.engine)

    def stream(
        self,
        prompt: Prompt | Request,
        *,
        max_tokens: int = 128,
        sampling: SamplingParams | None = None,
        speculation: bool | Speculation = True,
        references: Sequence[Reference] = (),
        stop: Sequence[str] = (),
        stop_tokens: Sequence[int] = (),
        prediction: Prompt | None = None,
        grammar: Grammar | None = None,
        logprobs: int | None = None,
        on_prefill: Callable[[int, int], None] | None = None,
    ) -> Stream:
        """Generate after ``prompt``, token by token.

        Text prompts are plain text: what looks like a control token in them is not one.

        Args:
            prompt: text or token ids; or a :class:`~maglio.Request`, which brings all options but
                ``on_prefill`` with it.
            max_tokens: most tokens to generate; the context's end may come first.
            sampling: how tokens are chosen; greedily when ``None``.
            speculation: whether, or how, to draft. The tokens are the same either way.
            references: documents that the model may quote, to draft from: texts; files, folders or
                index files given as :class:`~pathlib.Path`; token ids of this model's tokenizer;
                or indexes of such ids. Unused without speculation.
            stop: the generation ends before the first of these texts.
            stop_tokens: ids that end the generation, besides the model's own.
            prediction: what the answer is expected to be, or to be an edited copy of, as text or
                token ids, to draft from. It need not be right. Unused without speculation.
            grammar: what the answer must be (docs/grammar.md).
            logprobs: keep the log-probability of each token, and so many of the most probable
                alternatives; neither when ``None``.
            on_prefill: called with (tokens done, tokens in all) while a prompt is read.

        Raises:
            InvalidArgumentError: an argument can never work, such as an empty prompt.
            GrammarError: the grammar cannot be compiled.
            OutOfMemoryError: a reference is too large to index.
            ContextFullError: the prompt is longer than the context.
        """
        request = (
            prompt
            if isinstance(prompt, Request)
            else Request(
                prompt=prompt,
                max_tokens=max_tokens,
                sampling=sampling,
                speculation=speculation,
                references=references,
                stop=stop,
                stop_tokens=stop_tokens,
                prediction=prediction,
                grammar=grammar,
                logprobs=logprobs,
            )
        )
        started = self.start(request)
        return Stream(
            self.engine,
            started.reading,
            started.cost,
            progress=on_prefill,
            on_end=started.remember,
        )

    def generate(
        self,
        prompt: Prompt | Request,
        *,
        max_tokens: int = 128,
        sampling: SamplingParams | None = None,
        speculation: bool | Speculation = True,
        references: Sequence[Reference] = (),
        stop: Sequence[str] = (),
        stop_tokens: Sequence[int] = (),
        prediction: Prompt | None = None,
        grammar: Grammar | None = None,
        logprobs: int | None = None,
    ) -> Generation:
        """Generate after ``prompt``, with the arguments of :meth:`stream`, and return it whole."""
        return self.stream(
            prompt,
            max_tokens=max_tokens,
            sampling=sampling,
            speculation=speculation,
            references=references,
            stop=stop,
            stop_tokens=stop_tokens,
            prediction=prediction,
            grammar=grammar,
            logprobs=logprobs,
        ).result()

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt | Request],
        *,
        max_parallel: int = ...,
        max_tokens: int = ...,
        sampling: SamplingParams | Sequence[SamplingParams] | None = ...,
        speculation: bool | Speculation = ...,
        references: Sequence[Reference] = ...,
        stop: Sequence[str] = ...,
        stop_tokens: Sequence[int] = ...,
        as_completed: Literal[False] = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> list[Generation]: ...

    @overload
    def generate_many(
        self,
        prompts: Iterable[Prompt | Request],
        *,
        max_parallel: int = ...,
        max_tokens: int = ...,
        sampling: SamplingParams | Sequence[SamplingParams] | None = ...,
        speculation: bool | Speculation = ...,
        references: Sequence[Reference] = ...,
        stop: Sequence[str] = ...,
        stop_tokens: Sequence[int] = ...,
        as_completed: Literal[True],
        progress: Callable[[int, int], None] | None = ...,
    ) -> Iterator[tuple[int, Generation]]: ...

    def generate_many(
        self,
        prompts: Iterable[Prompt | Request],
        *,
        max_parallel: int = 8,
        max_tokens: int = 128,
        sampling: SamplingParams | Sequence[SamplingParams] | None = None,
        speculation: bool | Speculation = True,
        references: Sequence[Reference] = (),
        stop: Sequence[str] = (),
        stop_tokens: Sequence[int] = (),
        as_completed: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Generation] | Iterator[tuple[int, Generation]]:
        """Generate after many prompts at once: their rows share forwards.

        Each result is, to the bit, the one that :meth:`generate` gives for its prompt alone. What
        all prompts begin with is computed once.

        Args:
            prompts: texts or token ids; or requests, which bring their own options.
            max_parallel: most generations at a time. Each needs memory for its own tokens.
            max_tokens: most tokens to generate for each.
            sampling: how tokens are chosen; or one for each prompt. Greedily when ``None``.
            speculation: whether, or how, to draft. A source of your own must be given as a
                function that makes one, since every generation needs its own.
            references: documents to draft from, as for :meth:`stream`.
            stop: a generation ends before the first of these texts.
            stop_tokens: ids that end a generation, besides the model's own.
            as_completed: return an iterator of (number of the prompt, generation) that yields each
                as it ends, instead of a list in the order of the prompts.
            progress: called with (prompts done, prompts in all) after each.

        Returns:
            The generations. One that failed has its :attr:`Generation.error`; it does not end the
            others.

        Raises:
            InvalidArgumentError: an argument can never work. A prompt that cannot work is an error
                of its own generation.
            OutOfMemoryError: a reference is too large to index.
        """
        if isinstance(prompts, str) or not isinstance(prompts, Iterable):
            raise InvalidArgumentError(f"prompts is {prompts!r:.80}, must be several prompts")
        if isinstance(speculation, Speculation):
            speculation = speculation.for_many()
        # Raises for what can never work, and indexes what all prompts draft from.
        indexed = [index_reference(r, self.tokenizer) for r in each(references)]
        cost = start_drafting(self, speculation, SamplingParams(), indexed).cost
        ending = Ending(max_tokens=max_tokens, stop=stop, stop_ids=stop_tokens)
        ending.check(self.engine.n_vocab)
        given = list(prompts)
        requests = [
            prompt
            if isinstance(prompt, Request)
            else Request(
                prompt=prompt,
                max_tokens=max_tokens,
                sampling=params,
                speculation=speculation,
                references=indexed,
                stop=stop,
                stop_tokens=stop_tokens,
            )
            for prompt, params in zip(given, sampling_of_each(sampling, len(given)), strict=True)
        ]
        batch = Batch(self, requests, cost, max_parallel=max_parallel, progress=progress)
        if as_completed:
            return batch.run()
        done = dict(batch.run())
        return [done[number] for number in range(len(given))]

    def chat(
        self,
        system: str | None = None,
        *,
        sampling: SamplingParams | None = None,
        speculation: bool | Speculation = True,
        references: Sequence[Reference] = (),
        max_tokens: int = 512,
        on_full: OnFull = "stop",
        stop: Sequence[str] = (),
        on_prefill: Callable[[int, int], None] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        template_variables: Mapping[str, Any] | None = None,
    ) -> Conversation:
        """Start a conversation.

        Args:
            system: what the model is told first. ``None`` leaves it to the chat template.
            sampling: how tokens are chosen; greedily when ``None``.
            speculation: whether, or how, to draft. What is said is the same either way.
            references: documents that the model may quote, to draft from: texts, files or folders
                given as paths, token ids, or indexes.
            max_tokens: most tokens of an answer; the context's end may come first.
            on_full: what to do when a message does not fit the context any more. ``stop``: raise
                ContextFullError. ``drop``: leave out the oldest turns, but not the system prompt;
                :attr:`Conversation.dropped` says how many.
            stop: an answer ends before the first of these texts, besides where the model ends it.
            on_prefill: called with (tokens done, tokens in all) while a message is read.
            tools: descriptions of the tools that the model may call, for the chat template.
            chat_template: which of the templates in the model file, such as ``"rag"``. When
                ``None``: ``tool_use`` where there are tools and it, else the default one.
            template_variables: more of what the template reads, such as
                ``{"enable_thinking": False}``.

        Raises:
            InvalidArgumentError: an argument can never work.
            ChatTemplateError: the model's chat template is too long.
            OutOfMemoryError: there is no memory for the cache or a reference.
        """
        return Conversation(
            self,
            system=system,
            sampling=sampling,
            speculation=speculation,
            references=references,
            max_tokens=max_tokens,
            on_full=on_full,
            stop=stop,
            on_prefill=on_prefill,
            tools=tools,
            chat_template=chat_template,
            template_variables=template_variables,
        )

    def history(self, key: str | None = None) -> History:
        """The history of streams with ``history=key``; without a key, that of ``history=True``."""
        return self.drafting.history(key)

    @property
    def history_file(self) -> HistoryFile:
        """Where streams of this model can be remembered beyond this process.

        ``History(store=model.history_file)`` is a history that does; see
        :attr:`Speculation.history`.
        """
        if self.path is None:
            raise InvalidArgumentError("a model without a file has no history on disk")
        key = f"{self.tokenizer.fingerprint} {self.path.name} {self._file_size}"
        return HistoryFile(key, self.engine.n_vocab, separator=self.tokenizer.eos_id)

    def start(self, request: Request, *, cache: Cache | None = None) -> Started:
        """Begin a generation for a driver of its own: see :func:`maglio.starting.start`."""
        return start(self, request, cache=cache)
