"""What the bodies of all endpoints that generate have in common.

Boundary: fields and their combinations; see :mod:`maglio.server.schema.wire` for names that are
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, JsonValue

from maglio.checks import MAX_TOKEN_ID
from maglio.server import limits
from maglio.server.schema.drafting import Prediction, References, SpeculativeField
from maglio.server.schema.sampling import SamplingBody
from maglio.server.schema.texts import StopTexts
from maglio.server.schema.wire import Wire

MaxTokens = Annotated[int, Field(ge=-1, le=MAX_TOKEN_ID)]
"""-1: until the context ends."""

_NO_DYNAMIC = "temperatures are not changed on the way"
_NO_MIROSTAT = "this way of sampling is not offered"


class StreamOptions(Wire):
    """What a stream tells besides text."""

    include_usage: bool = False
    include_obfuscation: bool | None = None


class GeneratingBody(SamplingBody):
    """Fields of ``/v1/chat/completions`` and ``/v1/completions``."""

    without_effect: ClassVar[frozenset[str]] = frozenset(
        {
            # OpenAI's accounting, and hints to its caches; here every prompt is looked up.
            "user",
            "metadata",
            "store",
            "service_tier",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_retention",
            # llama.cpp's, where what they ask for is the case, or is about its slots.
            "cache_prompt",
            "id_slot",
            "timings_per_token",
            "return_progress",
            "n_cache_reuse",
        }
    )
    refused: ClassVar[Mapping[str, tuple[str, tuple[object, ...]]]] = {
        "mirostat": (_NO_MIROSTAT, (0,)),
        "mirostat_tau": (_NO_MIROSTAT, (5,)),
        "mirostat_eta": (_NO_MIROSTAT, (0.1,)),
        "dynatemp_range": (_NO_DYNAMIC, (0,)),
        "dynatemp_exponent": (_NO_DYNAMIC, (1,)),
        "n_keep": ("the context is not shifted", (0, -1)),
        "lora": ("adapters are not loaded", ([],)),
        "t_max_predict_ms": ("an answer ends by its tokens; close the connection", (0, -1)),
        "verbosity": ("it has no meaning to the models that run here", ("medium",)),
    }

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=limits.CHOICES)] = 1
    stop: StopTexts | None = None
    max_tokens: MaxTokens | None = None
    n_predict: MaxTokens | None = None
    grammar: Annotated[str, Field(max_length=limits.SCHEMA_BYTES)] | None = None
    json_schema: dict[str, JsonValue] | bool | None = None
    prediction: Prediction | None = None
    speculative: SpeculativeField | None = None
    references: References | None = None
    token_sources: bool = False

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk about usage."""
        return self.stream_options is not None and self.stream_options.include_usage
