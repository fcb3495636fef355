"""Exact speculative decoding without a draft model, on ordinary CPUs."""

from maglio.chat import Conversation
from maglio.chat.turn import Answer, Turn
from maglio.decode import GenerationStats, SamplingParams
from maglio.draft.past import History
from maglio.draft.source import Draft, DraftSource, Step
from maglio.engine.session import Session
from maglio.errors import (
    ChatTemplateError,
    ContextFullError,
    ConversationFileError,
    InvalidArgumentError,
    InvalidLogitsError,
    MaglioError,
    ModelFileError,
    OutOfMemoryError,
)
from maglio.generation import Generation, Stream, TextToken
from maglio.loading import load
from maglio.model import Model
from maglio.speculation import Speculation
from maglio.version import __version__

__all__ = [
    "Answer",
    "ChatTemplateError",
    "ContextFullError",
    "Conversation",
    "ConversationFileError",
    "Draft",
    "DraftSource",
    "Generation",
    "GenerationStats",
    "History",
    "InvalidArgumentError",
    "InvalidLogitsError",
    "MaglioError",
    "Model",
    "ModelFileError",
    "OutOfMemoryError",
    "SamplingParams",
    "Session",
    "Speculation",
    "Step",
    "Stream",
    "TextToken",
    "Turn",
    "__version__",
    "load",
]
