"""A recorded token stream: turns of ids, some with the candidates of their rows. No text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maglio.bench.data import Dialogue, Message
from maglio.chat.prompt import PromptEncoder
from maglio.chat.rendered import Rendered
from maglio.text import ChatTemplate, Tokenizer
from maglio.text.template import FALLBACK_END

TOP = 8
"""Candidates recorded per row."""

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Turn:
    """Consecutive tokens of one side.

    Attributes:
        tokens: int32 ``(n,)``.
        is_target: whether the model generates them; the others are given to it.
        candidates: int32 ``(n, m)``, best first: row ``i`` follows ``tokens[i]``. ``None`` when
            no model was at hand.
        material: the text that a target is made from, such as code to edit; ``None`` if unknown.
    """

    tokens: Ids
    is_target: bool
    candidates: Ids | None = None
    material: Ids | None = None


@dataclass(frozen=True, slots=True)
class TokenStream:
    """One conversation.

    Attributes:
        group: what its results are reported under: a data set or one of its categories.
        turns: in order.
    """

    group: str
    turns: tuple[Turn, ...]


def encode_dialogue(group: str, dialogue: Dialogue, text: ModelText) -> TokenStream:
    """The turns of a conversation as tokens, in the model's own chat format.

    A turn of the assistant ends with the token that ends it, which the model generates too.

    Raises:
        ChatTemplateError: the model's template does not take this conversation.
    """
    if text.is_plain:
        return TokenStream(group, tuple(_paragraphs(dialogue, text.tokenizer)))
    return TokenStream(group, tuple(_chat_turns(dialogue, text)))


def encode_prompt(messages: Sequence[Message], text: ModelText) -> list[int]:
    """The tokens of a prompt that a model is to answer.

    Raises:
        ChatTemplateError: the model's template does not take this conversation.
    """
    if text.is_plain:
        joined = "\n\n".join(message.text for message in messages)
        return text.tokenizer.encode(joined + "\n\n")
    return list(text.encoder.prompt(_as_dicts(messages), Rendered()).ids)


class ModelText:
    """How a model reads and writes conversations.

    Args:
        tokenizer: the model's.
        template: its chat template.
        variables: more of what the template reads.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        *,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.encoder = PromptEncoder(template, tokenizer, variables=variables)
        # A base model knows no chat format: its text is paragraphs.
        self.is_plain = template.is_fallback and FALLBACK_END not in tokenizer.control_tokens


def _chat_turns(dialogue: Dialogue, text: ModelText) -> Iterator[Turn]:
    messages = _as_dicts(dialogue.messages)
    material = _material(dialogue, text.tokenizer)
    known = Rendered()
    given = 0  # ids of the stream so far
    for index, message in enumerate(dialogue.messages):
        if message.role != "assistant":
            continue
        prompt = text.encoder.prompt(messages[:index], known)
        # A template may write earlier turns anew: they are then read again, as a model would.
        begin = given if prompt.ids[: len(known.ids)] == known.ids else 0
        if len(prompt.ids) > begin:
            yield _turn(prompt.ids[begin:], False)
        body = text.tokenizer.encode(message.text, add_special=False)
        known = text.encoder.answer(prompt, message.text, body)
        after = text.encoder.prompt(messages[: index + 1], known, opens_answer=False).ids
        end = [token for token in after[len(known.ids) :][:1] if token in text.tokenizer.eog_ids]
        if len(body) + len(end) > 0:
            yield _turn([*body, *end], True, material)
        given = len(known.ids) + len(end)


def _paragraphs(dialogue: Dialogue, tokenizer: Tokenizer) -> Iterator[Turn]:
    gap = tokenizer.encode("\n\n", add_special=False)
    material = _material(dialogue, tokenizer)
    for message in dialogue.messages:
        body = tokenizer.encode(message.text, add_special=False)
        if message.role != "assistant":
            yield _turn([*body, *gap], False)
            continue
        if body:
            yield _turn(body, True, material)
        yield _turn(gap, False)


def _as_dicts(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in messages]


def _material(dialogue: Dialogue, tokenizer: Tokenizer) -> Ids | None:
    if not dialogue.material:
        return None
    return np.array(tokenizer.encode(dialogue.material, add_special=False), dtype=np.int32)


def _turn(tokens: Sequence[int], is_target: bool, material: Ids | None = None) -> Turn:
    return Turn(np.array(tokens, dtype=np.int32), is_target, material=material)
