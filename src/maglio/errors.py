"""The errors Maglio raises on purpose. A message says what happened, where, and what to do."""

from __future__ import annotations


class MaglioError(Exception):
    """Base of every error that Maglio raises for a reason the caller can act on."""


class ModelFileError(MaglioError):
    """A model file is damaged, hostile, or of a kind that is not supported."""


class UnsupportedModelError(ModelFileError):
    """A sound model file is of a kind that the engine does not run; another engine may."""


class IndexFileError(MaglioError):
    """A saved index cannot be written, read or trusted; the message names the file and why."""


class InvalidArgumentError(MaglioError, ValueError):
    """An argument has a value that can never work; the message names it and the valid range."""


class ContextFullError(MaglioError):
    """The tokens do not fit the context window of the session."""


class ExactnessError(MaglioError):
    """Rows of a model depend on what is computed with them, and ``exact="require"`` was asked."""


class OutOfMemoryError(MaglioError, MemoryError):
    """An allocation would exceed the memory of this machine; the message gives both sizes."""


class InvalidLogitsError(MaglioError):
    """The engine produced logits that cannot be sampled (NaN)."""


class DataFileError(MaglioError):
    """A benchmark file or recording cannot be read or trusted; the message says which and why."""


class BatchFileError(MaglioError):
    """A batch's requests or results cannot be read, trusted or written; it says which and why."""


class ChatTemplateError(MaglioError):
    """A model's chat template is broken, hostile, or refuses the messages it was given."""


class CacheFileError(MaglioError):
    """Saved caches cannot be written, read or trusted; the message says why."""


class ConversationFileError(MaglioError):
    """A saved conversation cannot be read or trusted; the message names the file and why."""


class GrammarError(MaglioError):
    """A grammar cannot be compiled or followed; the message says why, in the library's words."""


class EngineError(MaglioError):
    """A library that computes for an engine failed in a forward; the message has its words."""
