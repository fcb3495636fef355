"""A chat request, from its body to neutral deltas: the one way in for all dialects.

Boundary: no wire form. Endpoints make a :class:`~maglio.server.schema.chat.ChatRequest`, begin a
task, and write its deltas in their own way::

    async with await ChatTask.begin(body, state, record) as task:
        async for delta in task.deltas():
            ...

The prompt's ids are a function of the body alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

import anyio.to_thread

from maglio.calls import AnswerReader
from maglio.checks import MAX_SEED
from maglio.generation import Generation
from maglio.request import Request
from maglio.server.schema.chat import ChatRequest
from maglio.server.state import ServerState
from maglio.server.streams.event import Began, Ended, Wrote
from maglio.server.task.answer import Answer
from maglio.server.task.chat_prompt import ChatPrompt, chat_prompt
from maglio.server.task.constraints import chat_grammar
from maglio.server.task.delta import ChatDelta, Finished, Forward
from maglio.server.task.parameters import (
    limit_of,
    prediction_of,
    references_of,
    sampling_of,
    seed_of,
    speculation_of,
)
from maglio.server.task.running import Running
from maglio.server.telemetry.record import Record
from maglio.text import Tokenizer


@dataclass(frozen=True, slots=True)
class Plan:
    """What a body asks for.

    Attributes:
        prompt: what the model reads.
        requests: a generation for each choice; their seeds follow each other.
        seed: of the first of them.
        reader: makes a reader for one choice.
    """

    prompt: ChatPrompt
    requests: tuple[Request, ...]
    seed: int
    reader: Callable[[], AnswerReader]


class ChatTask:
    """A chat request that is being answered. Made by :meth:`begin`.

    Attributes:
        model: what the model is called in the answer.
        seed: of the first choice; the same seed gives the same answer.
        prompt: what the model reads.
    """

    def __init__(self, model: str, plan: Plan, running: Running, state: ServerState) -> None:
        self.model = model
        self.seed = plan.seed
        self.prompt = plan.prompt
        self._running = running
        self._stop = plan.requests[0].stop
        self._tokenizer = state.model.tokenizer
        self._cached: dict[int, int] = {}  # by choice
        self._answers = [
            Answer(index, plan.reader(), self._tokenizer.eog_ids)
            for index in range(len(plan.requests))
        ]

    @classmethod
    async def begin(cls, body: ChatRequest, state: ServerState, record: Record) -> ChatTask:
        """Ask for the answer.

        Args:
            body: what is asked.
            state: the server.
            record: of the HTTP request.

        Raises:
            MaglioError: the request cannot be served; see
                :func:`~maglio.server.errors.as_api_error`.
        """
        name = state.settings.name_of(body.model)
        plan = await anyio.to_thread.run_sync(planned, body, state)
        return cls(name, plan, Running(plan.requests, state, record), state)

    async def deltas(self) -> AsyncIterator[ChatDelta]:
        """Yield what the answer is made of, a :class:`Finished` for each choice among it.

        Raises:
            Exception: a choice failed.
        """
        async for index, event in self._running.events():
            answer = self._answers[index]
            if isinstance(event, Began):
                self._cached[index] = event.cached_tokens
            elif isinstance(event, Wrote):
                sources = tuple(token.source for token in event.tokens)
                yield Forward(index, sources, event.drafted, event.accepted)
                for delta in answer.push(event.tokens):
                    yield delta
            elif isinstance(event, Ended):
                for delta in self._finish(answer, event.generation):
                    yield delta

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that were computed before; known with the first delta."""
        return next(iter(self._cached.values()), 0)

    def _finish(self, answer: Answer, generation: Generation) -> list[ChatDelta]:
        deltas = answer.finish(
            generation,
            prompt=len(self.prompt.ids),
            cached=self._cached.get(answer.index, 0),
            stop_text=stop_text(generation, self._stop, self._tokenizer),
        )
        self._running.note([(end.reason, end.usage) for end in deltas if isinstance(end, Finished)])
        return deltas

    async def __aenter__(self) -> ChatTask:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.cancel()


def planned(body: ChatRequest, state: ServerState) -> Plan:
    """What a body asks for; renders and encodes, so it may take a while.

    Raises:
        MaglioError: the request cannot be served.
    """
    state.service.check_room()
    prompt = chat_prompt(body, state)
    seed = seed_of(body, state)
    limit = limit_of(state, body.max_completion_tokens, body.max_tokens, body.n_predict)
    references = references_of(body, state)
    prediction = prediction_of(body, state)
    grammar = chat_grammar(body, prompt, state.calls)
    if grammar is not None:
        state.model.grammars.start(grammar)  # compiles it, here and not in the event loop
    requests = tuple(
        Request(
            prompt=prompt.ids,
            max_tokens=limit,
            sampling=sampling_of(body, state, (seed + index) & MAX_SEED),
            speculation=speculation_of(body, state),
            references=references,
            stop=body.stop or (),
            prediction=prediction,
            grammar=grammar,
            logprobs=(body.top_logprobs or 0) if body.logprobs else None,
            show_control=True,
        )
        for index in range(body.n)
    )

    def reader() -> AnswerReader:
        return state.calls.reader(
            prompt.tools, reasoning=prompt.reasoning, whole_calls=not body.stream
        )

    return Plan(prompt, requests, seed, reader)


def stop_text(generation: Generation, stops: Sequence[str], tokenizer: Tokenizer) -> str | None:
    """The stop text that ended a generation; ``None`` if none did."""
    if generation.finish_reason != "stop" or not stops:
        return None
    whole = tokenizer.decode(generation.tokens, show_control=True, continues=True)
    rest = whole[len(generation.text) :]
    return next((stop for stop in stops if rest.startswith(stop)), None)
