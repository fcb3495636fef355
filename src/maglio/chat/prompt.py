"""From the messages of a conversation to the token ids of its next prompt.

Boundary: joins the chat template with what earlier turns were encoded to. Knows no model. What was
rendered, as a value, is :mod:`maglio.chat.rendered`.

An answer is kept as the ids that the model generated, which encoding its text again need not
give. So a prompt is not encoded as a whole: where it begins with the text of an earlier prompt
and its answer, their ids are taken over, and only the rest is encoded. Where a template writes
earlier messages differently the second time (many drop thinking), the ids are those of the new
text from there on.

A template is slow, and its time grows with the conversation. So nothing here renders once per turn,
unless a template writes each turn in its own way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from maglio.chat.history import Exchanges
from maglio.chat.rendered import Rendered
from maglio.errors import ContextFullError
from maglio.text import Tokenizer
from maglio.text.prompt_text import PromptText
from maglio.text.template import DEFAULT, FALLBACK_END, ChatTemplate, Message


class PromptEncoder:
    """Encodes growing conversations.

    Args:
        template: the model's chat template.
        tokenizer: the model's.
        tools: descriptions of the tools that the model may call, for the template.
        variables: more of what the template reads.
        name: which of several templates; the usual one when ``None``.

    Raises:
        InvalidArgumentError: there is no template of this name.
    """

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        if name is not None:
            template.check_name(name)
        self._template = template
        self._tokenizer = tokenizer
        self._tools = tools
        self._variables = variables
        self._name = name

    @property
    def stop(self) -> tuple[str, ...]:
        """The text that ends an answer where no token does: the format is plain text then."""
        is_fallback = self._template.is_fallback and self._name in (None, DEFAULT)
        is_text = FALLBACK_END not in self._tokenizer.control_tokens
        return (FALLBACK_END,) if is_fallback and is_text else ()

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
        return self._going_on(known, self._render(messages, opens_answer=opens_answer))

    def _going_on(self, known: Rendered, text: PromptText) -> Rendered:
        """Encode ``text``, using what holds of ``known``."""
        n_cuts = self._clean_cuts(known.cuts[: known.cuts_within(text)], text)
        begin = known.cut(n_cuts)
        return self._grown(begin, text.tail(len(begin.text)))

    def answer(self, prompt: Rendered, text: str, ids: Sequence[int]) -> Rendered:
        """Add what the model answered to a prompt.

        ``ids`` may stop short of ``text``, where a stop string began within a token; the rest of
        the text is encoded.
        """
        return prompt.extended(PromptText(text), self._answer_ids(text, ids))

    def _answer_ids(self, text: str, ids: Sequence[int]) -> Sequence[int]:
        said = self._tokenizer.decode(ids, continues=True)
        if len(said) < len(text) and text.startswith(said):
            return [*ids, *self._tokenizer.encode(text[len(said) :], add_special=False)]
        return ids

    def history(self, history: Exchanges, known: Rendered, of: Exchanges | None = None) -> Rendered:
        """Render all turns that the model sees, with the answers as they were generated.

        Args:
            history: the conversation.
            known: what was rendered before.
            of: the conversation that ``known`` is the rendering of.
        """
        first, last = history.dropped, len(history.turns) - 1
        if first > last:
            return Rendered()
        turn = history.turns[last]
        whole = self._render(history.messages(last, turn.user))
        if of is None or not history.begins(of):
            known = self._earlier_turns(history, whole)
        return self.answer(self._going_on(known, whole), turn.answer, turn.tokens)

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
        limit = n_ctx - (reserve or 0)
        text = self._render(history.messages(user=user))
        self._check_room(text, history, user, limit, drops=reserve is not None)
        whole = prompt = self._going_on(known, text)
        if len(prompt.ids) <= limit:
            return history, prompt
        if reserve is None:
            raise ContextFullError(
                f"the conversation with this message has {len(prompt.ids)} tokens, more than the "
                f"context of {n_ctx}; undo turns, clear the conversation, choose "
                "on_full='drop', or load the model with a larger n_ctx"
            )
        # The fewest turns that have to go: more than `kept`, and `gone` will do or is all there is.
        kept, gone = history.dropped, len(history.turns)
        if kept < gone:
            prompt = self._ending(history.dropping(gone), user, whole)
        n_kept, half = len(whole.ids), n_ctx // 2
        guess = True
        while (between := gone - kept) > 1 and len(prompt.ids) <= half:
            # As if all turns were equally long, unless that has not led far.
            share = (n_kept - half) / max(1, n_kept - len(prompt.ids)) if guess else 0.5
            middle = kept + min(max(1, round(share * between)), between - 1)
            shorter = self._ending(history.dropping(middle), user, whole)
            if len(shorter.ids) <= half:
                gone, prompt = middle, shorter
            else:
                kept, n_kept = middle, len(shorter.ids)
            guess = 2 * (gone - kept) <= between
        if len(prompt.ids) > limit:
            raise ContextFullError(
                f"this message alone makes {len(prompt.ids)} tokens, more than the {limit} that "
                f"the context of {n_ctx} has for it; shorten it, or load the model with a larger "
                "n_ctx"
            )
        return history.dropping(gone), prompt

    # --- inside ----------------------------------------------------------------------------------

    def _check_room(
        self, text: PromptText, history: Exchanges, user: str, limit: int, *, drops: bool
    ) -> None:
        """Refuse what is sure not to fit without encoding it, which could take minutes.

        Only what a template has written tells: it may trim a message, or leave it out.
        """
        fewest = self._tokenizer.fewest_tokens(text.text)
        if fewest > limit and drops:
            alone = self._render(history.dropping(len(history.turns)).messages(user=user))
            fewest = self._tokenizer.fewest_tokens(alone.text)
        if fewest > limit:
            raise ContextFullError(
                f"the prompt with this message of {len(user):,} characters has at least "
                f"{fewest:,} tokens, more than the {limit} that the context has for it; shorten "
                "it, or load the model with a larger n_ctx"
            )

    def _render(self, messages: Sequence[Message], *, opens_answer: bool = True) -> PromptText:
        return self._template.render(
            messages,
            tools=self._tools,
            variables=self._variables,
            name=self._name,
            add_generation_prompt=opens_answer,
        )

    def _grown(self, begin: Rendered, text: PromptText) -> Rendered:
        continues = len(begin.cuts) > 0
        return begin.extended(text, self._template.encode(text, continues=continues))

    def _clean_cuts(self, cuts: Sequence[tuple[int, int]], text: PromptText) -> int:
        """How many of these cuts there are up to the last one after which ``text`` can go on."""
        n_cuts = len(cuts)
        # A tokenizer that puts a space before a text would put one in the middle of this one.
        while n_cuts and self._tokenizer.adds_space_prefix:
            if text.tail(cuts[n_cuts - 1][0]).begins_with_control:
                break
            n_cuts -= 1
        return n_cuts

    def _ending(self, history: Exchanges, user: str, whole: Rendered) -> Rendered:
        """The prompt after fewer turns than ``whole``: it mostly ends as that one does."""
        text = self._render(history.messages(user=user))
        end = whole.from_cut(whole.cut_of_ending(text))
        begin = text.head(len(text) - len(end.text))
        return self._grown(Rendered(), begin).joined(end)

    def _earlier_turns(self, history: Exchanges, whole: PromptText) -> Rendered:
        """Encode what ``whole``, the prompt of the last turn, has of the turns before it.

        A template mostly ends what the user says in the same way. So one prompt is rendered to
        learn how, and then the ends of the others are found in ``whole``.
        """
        at, ids, cuts = 0, list[int](), list[tuple[int, int]]()  # a beginning of `whole`
        after: str | None = None
        for index in range(history.dropped, len(history.turns) - 1):
            turn = history.turns[index]
            found = -1 if after is None else whole.text.find(turn.user + after, at)
            if after is None or found < 0:
                known = Rendered(whole.head(at), tuple(ids), tuple(cuts))
                prompt = self.prompt(history.messages(index, turn.user), known)
                after = _after(turn.user, prompt.text.text, whole.text)
                within = prompt.cut(prompt.cuts_within(whole))
                at, ids, cuts = len(within.text), list(within.ids), list(within.cuts)
                if at < len(prompt.text):
                    continue
            else:
                end = found + len(turn.user) + len(after)
                del cuts[self._clean_cuts(cuts, whole) :]
                at, n_ids = cuts[-1] if cuts else (0, 0)
                text = whole.head(end).tail(at)
                ids[n_ids:] = self._template.encode(text, continues=len(cuts) > 0)
                at = end
                cuts.append((at, len(ids)))
            if _goes_on(whole, at, turn.answer):
                ids += self._answer_ids(turn.answer, turn.tokens)
                at += len(turn.answer)
                cuts.append((at, len(ids)))
        return Rendered(whole.head(at), tuple(ids), tuple(cuts))


def _after(user: str, prompt: str, whole: str) -> str | None:
    """What the template writes after what the user says, as it ends ``prompt`` and ``whole``."""
    after, end = None, len(prompt)
    if not user:
        return None
    while (end := prompt.rfind(user, 0, end)) >= 0 and whole.endswith(prompt[end + len(user) :]):
        after = prompt[end + len(user) :]
        end += len(user) - 1
    return after


def _goes_on(whole: PromptText, at: int, answer: str) -> bool:
    """Whether ``answer``, which is text, comes next."""
    n = bisect_left(whole.control, (at, at))
    begins_before = n == len(whole.control) or whole.control[n][0] >= at + len(answer)
    return begins_before and whole.text.startswith(answer, at)
