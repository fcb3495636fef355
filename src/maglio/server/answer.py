"""One choice of an answer: generated tokens in, neutral deltas out.

Boundary: knows what text belongs to which token; what text is thinking, an answer or a call, the
reader says.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol

from maglio.decode import TokenLogprob
from maglio.generation import Generation, TextToken
from maglio.server.delta import (
    CallArguments,
    CallBegan,
    ChatDelta,
    ContentText,
    Finished,
    ReasoningText,
    Sourced,
)
from maglio.server.reading import Piece, Reader
from maglio.server.usage import Usage
from maglio.text import Tokenizer
