"""Exact speculative decoding without a draft model, on ordinary CPUs.

The names are imported when they are first asked for: all of them together take half a second, and
the command line has to see to interrupts before that.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from maglio.version import __version__

if TYPE_CHECKING:
    from maglio.chat import Conversation
    from maglio.chat.turn import Answer, Turn
    from maglio.decode import GenerationStats, SamplingParams, TokenLogprob
    from maglio.draft.past import History
    from maglio.draft.source import Draft, DraftSource, Step
    from maglio.engine.session import Session
    from maglio.errors import (
        BatchFileError,
        ChatTemplateError,
        ContextFullError,
        ConversationFileError,
        ExactnessError,
        GrammarError,
        InvalidArgumentError,
        InvalidLogitsError,
        MaglioError,
        ModelFileError,
        OutOfMemoryError,
    )
    from maglio.generation import Generation, Stream, TextToken
    from maglio.grammar import Grammar
    from maglio.loading import load
    from maglio.model import Model
    from maglio.request import Request
    from maglio.server.batch.progress import BatchProgress
    from maglio.server.batch.run import run_batch
    from maglio.speculation import Speculation
else:
    _MODULES = {
        "maglio.chat": "Conversation",
        "maglio.chat.turn": "Answer Turn",
        "maglio.decode": "GenerationStats SamplingParams TokenLogprob",
        "maglio.draft.past": "History",
        "maglio.draft.source": "Draft DraftSource Step",
        "maglio.engine.session": "Session",
        "maglio.errors": (
            "BatchFileError ChatTemplateError ContextFullError ConversationFileError "
            "ExactnessError GrammarError InvalidArgumentError InvalidLogitsError MaglioError "
            "ModelFileError OutOfMemoryError"
        ),
        "maglio.generation": "Generation Stream TextToken",
        "maglio.grammar": "Grammar",
        "maglio.loading": "load",
        "maglio.model": "Model",
        "maglio.request": "Request",
        "maglio.server.batch.progress": "BatchProgress",
        "maglio.server.batch.run": "run_batch",
        "maglio.speculation": "Speculation",
    }
    _MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

    def __getattr__(name):  # noqa: ANN001, ANN202  # type checkers see the imports instead
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def __dir__():  # noqa: ANN202
        return sorted({*globals(), *__all__})


__all__ = [
    "Answer",
    "BatchFileError",
    "BatchProgress",
    "ChatTemplateError",
    "ContextFullError",
    "Conversation",
    "ConversationFileError",
    "Draft",
    "DraftSource",
    "ExactnessError",
    "Generation",
    "GenerationStats",
    "Grammar",
    "GrammarError",
    "History",
    "InvalidArgumentError",
    "InvalidLogitsError",
    "MaglioError",
    "Model",
    "ModelFileError",
    "OutOfMemoryError",
    "Request",
    "SamplingParams",
    "Session",
    "Speculation",
    "Step",
    "Stream",
    "TextToken",
    "TokenLogprob",
    "Turn",
    "__version__",
    "load",
    "run_batch",
]
