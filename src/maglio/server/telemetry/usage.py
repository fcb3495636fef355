"""What an answer took: counts of tokens, and times.

Boundary: values, and the two forms in which OpenAI's and llama.cpp's clients read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from maglio.decode import GenerationStats
from maglio.draft.prediction import NAME as PREDICTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Of one answer, or of several.

    Attributes:
        prompt_tokens: tokens of the prompt.
        cached_tokens: how many of them were computed before this request.
        completion_tokens: tokens generated, those that end the answer included.
        reasoning_tokens: how many of them are thinking.
        accepted_prediction_tokens: how many the request's ``prediction`` foretold,
        rejected_prediction_tokens: and how many of it were tried in vain.
        drafted: draft tokens verified, from all sources,
        accepted: and accepted.
        read_tokens: tokens of the prompt that were read,
        read_s: and the seconds in that.
        decode_s: seconds in generating.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    read_tokens: int = 0
    read_s: float = 0.0
    decode_s: float = 0.0

    @classmethod
    def of(
        cls, stats: GenerationStats, *, prompt: int, cached: int, tokens: int, reasoning: int = 0
    ) -> Usage:
        """Of one generation: after ``prompt`` tokens, ``cached`` of them known, ``tokens`` new."""
        predicted = stats.sources.get(PREDICTION)
        accepted = 0 if predicted is None else predicted.accepted
        return cls(
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=tokens,
            reasoning_tokens=reasoning,
            accepted_prediction_tokens=accepted,
            rejected_prediction_tokens=0 if predicted is None else predicted.drafted - accepted,
            drafted=stats.drafted,
            accepted=stats.accepted,
            read_tokens=stats.prompt_tokens,
            read_s=stats.prefill_s,
            decode_s=stats.decode_s,
        )

    @classmethod
    def total(cls, parts: Sequence[Usage]) -> Usage:
        """Of several answers to prompts of their own."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: sum(getattr(part, name) for part in parts) for name in names})

    @classmethod
    def of_one_prompt(cls, parts: Sequence[Usage]) -> Usage:
        """Of several answers to the same prompt, which counts once."""
        if not parts:
            return cls()
        whole = cls.total(parts)
        first = parts[0]
        return replace(whole, prompt_tokens=first.prompt_tokens, cached_tokens=first.cached_tokens)

    @property
    def document(self) -> dict[str, Any]:
        """``usage`` as OpenAI's clients read it, and the one field more that aider does."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
            "completion_tokens_details": {
                "reasoning_tokens": self.reasoning_tokens,
                "accepted_prediction_tokens": self.accepted_prediction_tokens,
                "rejected_prediction_tokens": self.rejected_prediction_tokens,
            },
            "prompt_cache_hit_tokens": self.cached_tokens,
        }

    @property
    def timings(self) -> dict[str, Any]:
        """``timings`` as llama.cpp's clients read it. Times are in milliseconds."""
        return {
            "cache_n": self.cached_tokens,
            "prompt_n": self.read_tokens,
            "prompt_ms": round(1e3 * self.read_s, 3),
            "prompt_per_second": _rate(self.read_tokens, self.read_s),
            "predicted_n": self.completion_tokens,
            "predicted_ms": round(1e3 * self.decode_s, 3),
            "predicted_per_second": _rate(self.completion_tokens, self.decode_s),
            "draft_n": self.drafted,
            "draft_n_accepted": self.accepted,
        }


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 3) if seconds > 0 else 0.0
