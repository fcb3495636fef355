"""What one generation is asked for, as a value.

Boundary: checked as far as no model is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maglio.checks import check_int
from maglio.decode import SamplingParams
from maglio.decode.logprob import MAX_ALTERNATIVES
from maglio.draft.prediction import PredictedText
from maglio.errors import InvalidArgumentError
from maglio.generation import Ending
from maglio.grammar import Grammar
from maglio.prompt import Prompt
from maglio.references import Reference
from maglio.speculation import Speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation.

    Attributes:
        prompt: text or token ids. Text is plain: what looks like a control token is not one.
        max_tokens: most tokens to generate; the context's end may come first.
        sampling: how tokens are chosen; greedily when ``None``.
        speculation: whether, or how, to draft. The tokens are the same either way.
        references: documents that the model may quote, to draft from: texts; files, folders or
            index files given as :class:`~pathlib.Path`; token ids of this model's tokenizer; or
            indexes of such ids. Unused without speculation.
        stop: the generation ends before the first of these texts.
        stop_tokens: ids that end the generation, besides the model's own.
        prediction: what the answer is expected to be, or to be an edited copy of, as text or token
            ids, or prepared from ids, to draft from. It need not be right. Unused without
            speculation.
        grammar: what the answer must be.
        logprobs: keep the log-probability of each token, and so many of the most probable
            alternatives; neither when ``None``.
        show_control: whether control tokens are shown in the text, but for those that end it.

    Raises:
        InvalidArgumentError: a field has a value that can never work.
    """

    prompt: Prompt
    max_tokens: int = 128
    sampling: SamplingParams | None = None
    speculation: bool | Speculation = True
    references: Sequence[Reference] = ()
    stop: Sequence[str] = ()
    stop_tokens: Sequence[int] = ()
    prediction: Prompt | PredictedText | None = None
    grammar: Grammar | None = None
    logprobs: int | None = None
    show_control: bool = False

    def __post_init__(self) -> None:
        Ending(max_tokens=self.max_tokens, stop=self.stop, stop_ids=self.stop_tokens)
        if self.logprobs is not None:
            check_int("logprobs", self.logprobs, 0, MAX_ALTERNATIVES)
        if self.grammar is not None and not isinstance(self.grammar, Grammar):
            raise InvalidArgumentError(
                f"grammar is {self.grammar!r:.80}, must be a maglio.Grammar or None"
            )
        if not isinstance(self.show_control, bool):
            raise InvalidArgumentError(
                f"show_control is {self.show_control!r:.80}, must be True or False"
            )

    @property
    def ending(self) -> Ending:
        """Where it ends."""
        return Ending(max_tokens=self.max_tokens, stop=self.stop, stop_ids=self.stop_tokens)
