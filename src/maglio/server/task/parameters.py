"""What the fields of a body mean to the model: sampling, drafting, limits, references.

Boundary: from checked bodies and the operator's settings to parts of a
:class:`~maglio.request.Request`. May take a while; endpoints call it in a thread.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from maglio.checks import MAX_SEED, MAX_TOKEN_ID
from maglio.decode import SamplingParams
from maglio.draft.prediction import PredictedText
from maglio.llama_sampling import RANDOM_SEED, SAME, breakers, drawn_seed, order_of
from maglio.references import Reference, index_reference
from maglio.server.errors import ApiError
from maglio.server.schema.generating import GeneratingBody
from maglio.server.schema.sampling import SamplingBody
from maglio.server.state import ServerState
from maglio.speculation import Speculation
from maglio.tokens import token_array


def seed_of(body: SamplingBody, state: ServerState) -> int:
    """The seed of a request. Negative ones count from the top."""
    seed = state.settings.seed if body.seed is None else body.seed
    return drawn_seed() if seed in (None, RANDOM_SEED) else (seed or 0) % (MAX_SEED + 1)


def sampling_of(body: SamplingBody, state: ServerState, seed: int) -> SamplingParams:
    """How tokens are chosen: as the body says, and elsewhere as the server's options do.

    Raises:
        InvalidArgumentError: values that can never work, together or for this model.
    """
    changes: dict[str, Any] = {
        name: value for name in SAME if (value := getattr(body, name)) is not None
    }
    if body.top_k is not None:
        changes["top_k"] = max(0, body.top_k)
    if body.top_n_sigma is not None:
        changes["top_n_sigma"] = max(0.0, body.top_n_sigma)
    if body.min_keep is not None:
        changes["min_keep"] = max(1, body.min_keep)
    if body.repeat_last_n is not None:
        changes["penalty_last_n"] = body.repeat_last_n
    if body.logit_bias is not None:
        changes["logit_bias"] = tuple(body.logit_bias)
        _check_ids(body.logit_bias, state)
    if body.samplers is not None:
        changes["order"] = order_of(body.samplers)
    params = replace(state.settings.sampling, **changes, seed=seed & MAX_SEED)
    if body.dry_sequence_breakers is not None:
        texts = [text.encode() for text in body.dry_sequence_breakers]
        return replace(params, dry_breakers=breakers(texts, state.model.tokenizer))
    if params.dry_multiplier > 0.0 and not params.dry_breakers:
        return replace(params, dry_breakers=state.breakers)
    return params


def speculation_of(body: GeneratingBody, state: ServerState) -> bool | Speculation:
    """How drafts are made."""
    asked, mine = body.speculative, state.settings.speculation
    if asked is None:
        return mine
    if not asked.enabled:
        return False
    changes: dict[str, Any] = {
        "max_draft": asked.max_draft,
        "gate": asked.gate,
        "history": asked.history,
        "source": asked.policy,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    return replace(mine if isinstance(mine, Speculation) else Speculation(), **changes)


def references_of(body: GeneratingBody, state: ServerState) -> tuple[Reference, ...]:
    """What to draft from: the server's documents, and those of the request, indexed.

    Raises:
        InvalidArgumentError: a text has no tokens.
        OutOfMemoryError: there is no memory for an index.
    """
    tokenizer = state.model.tokenizer
    mine = [index_reference(text, tokenizer) for text in body.references or ()]
    return (*state.settings.references, *mine)


def prediction_of(body: GeneratingBody, state: ServerState) -> PredictedText | None:
    """What the answer is expected to be, prepared here and not while all streams wait."""
    if body.prediction is None or not body.prediction.content:
        return None
    ids = state.model.tokenizer.encode(body.prediction.content, add_special=False)
    return PredictedText(token_array(ids))


def limit_of(state: ServerState, *given: int | None, absent: int = -1) -> int:
    """Most tokens of an answer, from the several fields that can say so.

    Raises:
        ApiError: two of them disagree.
    """
    said = {limit for limit in given if limit is not None}
    if len(said) > 1:
        raise ApiError(
            "max_tokens, max_completion_tokens and n_predict mean the same, and are given with "
            f"different values: {', '.join(map(str, sorted(said)))}",
            param="max_tokens",
            code="invalid_value",
        )
    limit = said.pop() if said else absent
    return min(MAX_TOKEN_ID if limit == -1 else limit, state.settings.max_tokens)


def _check_ids(bias: list[tuple[int, float]], state: ServerState) -> None:
    n_vocab = state.model.engine.n_vocab
    for token, _ in bias:
        if not 0 <= token < n_vocab:
            raise ApiError(
                f"logit_bias names token {token}, must be a token id from 0 to {n_vocab - 1}",
                param="logit_bias",
                code="invalid_value",
            )
