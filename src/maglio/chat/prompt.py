"""From the messages of a conversation to the token ids of its next prompt.

Boundary: joins the chat template with what earlier turns were encoded to. Knows no model.

An answer is kept as the ids that the model generated, which encoding its text again need not
give. So a prompt is not encoded as a whole: where it begins with the text of an earlier prompt
and its answer, their ids are taken over, and only the rest is encoded. Where a template writes
earlier messages differently the second time (many drop thinking), the ids are those of the new
text from there on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from maglio.chat.history import Exchanges
from maglio.errors import ContextFullError
from maglio.text import Tokenizer
from maglio.text.prompt_text import PromptText
from maglio.text.template import ChatTemplate, Message


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text and as token ids.

    Attributes:
        text: the text.
        ids: the ids.
        cuts: where both can be cut, as (characters, ids): the ends of prompts and of answers.
    """

    text: PromptText = field(default_factory=PromptText)
    ids: tuple[int, ...] = ()
    cuts: tuple[tuple[int, int], ...] = ()

    def extended(self, text: PromptText, ids: Sequence[int]) -> Rendered:
        """Go on with ``text``, whose ids are ``ids``."""
        whole, all_ids = self.text + text, (*self.ids, *ids)
        return Rendered(whole, all_ids, (*self.cuts, (len(whole), len(all_ids))))

    def cut(self, n_cuts: int) -> Rendered:
        """The beginning up to the cut before ``cuts[n_cuts]``."""
        length, n_ids = self.cuts[n_cuts - 1] if n_cuts else (0, 0)
        return Rendered(self.text.head(length), self.ids[:n_ids], self.cuts[:n_cuts])


class PromptEncoder:
    """Encodes growing conversations.

    Args:
        template: the model's chat template.
        tokenizer: the model's.
        tools: descriptions of the tools that the model may call, for the template.
        variables: more of what the template reads.
    """

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._tools = tools
        self._variables = variables

    def prompt(
        self, messages: Sequence[Message], known: Rendered, *, opens_answer: bool = True
    ) -> Rendered:
        """Render ``messages``, using what holds of ``known``.

        Args:
            messages: the conversation.
            known: a beginning of it that was rendered before.
            opens_answer: whether to go on up to the beginning of an answer.

        Raises:
            ChatTemplateError: the template does not take these messages.
        """
        text = self._template.render(
            messages,
            tools=self._tools,
            variables=self._variables,
            add_generation_prompt=opens_answer,
        )
        n_cuts = len(known.cuts)
        while n_cuts and not self._continues(known.cut(n_cuts).text, text):
            n_cuts -= 1
        begin = known.cut(n_cuts)
        rest = text.tail(len(begin.text))
        return begin.extended(rest, self._template.encode(rest, continues=n_cuts > 0))

    def answer(self, prompt: Rendered, text: str, ids: Sequence[int]) -> Rendered:
        """Add what the model answered to a prompt.

        ``ids`` may stop short of ``text``, where a stop string began within a token; the rest of
        the text is encoded.
        """
        said = self._tokenizer.decode(ids, continues=True)
        rest: list[int] = []
        if len(said) < len(text) and text.startswith(said):
            rest = self._tokenizer.encode(text[len(said) :], add_special=False)
        return prompt.extended(PromptText(text), (*ids, *rest))

    def history(self, history: Exchanges, known: Rendered) -> Rendered:
        """Render all turns that the model sees, with the answers as they were generated."""
        rendered = known
        for index in range(history.dropped, len(history.turns)):
            turn = history.turns[index]
            prompt = self.prompt(history.messages(index, turn.user), rendered)
            rendered = self.answer(prompt, turn.answer, turn.tokens)
        return rendered if history.dropped < len(history.turns) else Rendered()

    def fit(
        self, history: Exchanges, user: str, known: Rendered, *, n_ctx: int, reserve: int | None
    ) -> tuple[Exchanges, Rendered]:
        """Render the prompt for what the user says now.

        Args:
            history: the conversation before.
            user: the message.
            known: ``history`` as it was rendered.
            n_ctx: most tokens of the prompt.
            reserve: drop turns, oldest first, where less than this would be left for the answer;
                and then down to half the context, so that not every later turn has to drop one.
                ``None``: never.

        Returns:
            ``history``, perhaps with more turns dropped, and the prompt.

        Raises:
            ContextFullError: the prompt does not fit.
        """
        prompt = self.prompt(history.messages(user=user), known)
        limit = n_ctx - (reserve or 0)
        if len(prompt.ids) <= limit:
            return history, prompt
        if reserve is None:
            raise ContextFullError(
                f"the conversation with this message has {len(prompt.ids)} tokens, more than the "
                f"context of {n_ctx}; undo turns, clear the conversation, choose "
                "on_full='drop', or load the model with a larger n_ctx"
            )
        while len(prompt.ids) > n_ctx // 2 and history.dropped < len(history.turns):
            history = history.dropping(history.dropped + 1)
            prompt = self.prompt(history.messages(user=user), self.history(history, known))
        if len(prompt.ids) > limit:
            raise ContextFullError(
                f"this message alone makes {len(prompt.ids)} tokens, more than the {limit} that "
                f"the context of {n_ctx} has for it; shorten it, or load the model with a larger "
                "n_ctx"
            )
        return history, prompt

    def _continues(self, begin: PromptText, text: PromptText) -> bool:
        if not text.begins_with(begin):
            return False
        # A tokenizer that puts a space before a text would put one in the middle of this one.
        return not self._tokenizer.adds_space_prefix or text.tail(len(begin)).begins_with_control
