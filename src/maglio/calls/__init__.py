"""Calls of tools and thoughts in the text of an answer: formats, readers and grammars.

Text and values only: nothing here runs a model. :func:`format_of` finds the format of a model, and
the format gives a reader for what the model writes and a grammar for what it may write.
"""

from maglio.calls.delta import CallArguments, CallBegan, ContentText, Delta, ReasoningText
from maglio.calls.format import CallFormat
from maglio.calls.messages import normalised
from maglio.calls.reader import AnswerReader
from maglio.calls.recognition import format_of
from maglio.calls.rows import ROWS

__all__ = [
    "ROWS",
    "AnswerReader",
    "CallArguments",
    "CallBegan",
    "CallFormat",
    "ContentText",
    "Delta",
    "ReasoningText",
    "format_of",
    "normalised",
]
