"""A completion request, from its body to generations under way.

Boundary: no wire form. Control tokens that are spelled in a prompt are read as such, as clients
expect that write the chat format or fill-in-the-middle prompts themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from maglio.checks import MAX_SEED
from maglio.prompt import encoded
from maglio.request import Request
from maglio.server import limits
from maglio.server.errors import ApiError
from maglio.server.schema.completion import CompletionRequest
from maglio.server.state import ServerState
from maglio.server.task.constraints import grammar_of
from maglio.server.task.parameters import (
    limit_of,
    prediction_of,
    references_of,
    sampling_of,
    seed_of,
    speculation_of,
)

MAX_TOKENS = 16
"""Most tokens of a completion that does not say, as with OpenAI."""


@dataclass(frozen=True, slots=True)
class CompletionPlan:
    """What a body asks for: ``n`` generations for each prompt, one prompt after the other.

    Attributes:
        texts: the prompts as texts.
        requests: the generations. Those of one prompt have seeds that follow each other.
        seed: the first of these.
        per_prompt: how many generations each prompt has.
    """

    texts: tuple[str, ...]
    requests: tuple[Request, ...]
    seed: int
    per_prompt: int

    def prompt_tokens(self, index: int) -> int:
        """Tokens of the prompt of a generation."""
        return len(self.requests[index].prompt)


def planned_completion(body: CompletionRequest, state: ServerState) -> CompletionPlan:
    """What a body asks for; encodes prompts, so it may take a while.

    Raises:
        MaglioError: the request cannot be served.
    """
    _check(body)
    state.service.check_room()
    model = state.model
    sizes = {"n_vocab": model.engine.n_vocab, "n_ctx": model.engine.n_ctx}
    prompts = [
        encoded(prompt, model.tokenizer, **sizes, parse_special=True) for prompt in body.prompt
    ]
    seed = seed_of(body, state)
    limit = limit_of(state, body.max_tokens, body.n_predict, absent=MAX_TOKENS)
    references = references_of(body, state)
    prediction = prediction_of(body, state)
    grammar = grammar_of(body)
    if grammar is not None:
        model.grammars.start(grammar)  # compiles it, here and not in the event loop
    requests = tuple(
        Request(
            prompt=ids,
            max_tokens=limit,
            sampling=sampling_of(body, state, (seed + number) & MAX_SEED),
            speculation=speculation_of(body, state),
            references=references,
            stop=body.stop or (),
            prediction=prediction,
            grammar=grammar,
            logprobs=body.logprobs,
        )
        for ids in prompts
        for number in range(body.n)
    )
    texts = tuple(
        prompt if isinstance(prompt, str) else model.tokenizer.decode(prompt, show_control=True)
        for prompt in body.prompt
    )
    return CompletionPlan(texts, requests, seed, body.n)


def _check(body: CompletionRequest) -> None:
    if len(body.prompt) * body.n > limits.PROMPTS:
        raise ApiError(
            f"{len(body.prompt)} prompts with n={body.n} are more than {limits.PROMPTS} "
            "completions, the most of one request",
            param="n",
            code="invalid_value",
        )
    if body.echo and body.logprobs is not None:
        raise ApiError(
            "echo with logprobs is not supported: the tokens of a prompt are read without their "
            "probabilities; leave one of the two out",
            param="echo",
            code="unsupported_parameter",
        )
    if body.best_of is not None and body.best_of != body.n:
        raise ApiError(
            f"best_of is not supported unless it is n ({body.n}): completions are not ranked",
            param="best_of",
            code="unsupported_parameter",
        )
