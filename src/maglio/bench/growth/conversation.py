"""Time to the first token of a conversation's next turn, as the conversation grows.

Boundary: runs a model as its users do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

from maglio.bench.field.line import GrowthPoint
from maglio.bench.growth.quantity import Quantity, Wanted
from maglio.bench.growth.scale import Scale
from maglio.chat import Conversation
from maglio.engine.session import Session
from maglio.errors import ContextFullError
from maglio.model import Model

KEPT, ANEW = "in the conversation", "read anew"
CONVERSATION = Quantity(
    curve="first token of the next turn",
    x_name="tokens of the conversation",
    unit="ms",
    expected={KEPT: "O(1)", ANEW: "O(n)"},
)
ANSWER_TOKENS = 24
_MESSAGE = (
    "Note {}: the reading room is open on weekdays, and the key to locker {} is at the desk. Say "
    "in a few words what I should remember."
)
_QUESTION = "What was the last note about?"


def conversation_points(
    model: Model, scale: Scale, wanted: Wanted, *, clock: Callable[[], float] = perf_counter
) -> Iterator[GrowthPoint]:
    """Ask the same at several lengths of a conversation, which goes on as if nothing was asked.

    Beside it the whole conversation is read anew, as without a cache of it. Ends where the context
    is full.
    """
    lengths = [n for n in scale.conversations if CONVERSATION.is_wanted(n, wanted)]
    chat = model.chat(max_tokens=ANSWER_TOKENS, speculation=False)
    turn = 0
    try:
        for length in lengths:
            while len(chat.tokens) < length:
                turn += 1
                for _ in chat.send(_MESSAGE.format(turn, 17 * turn % 100)):
                    pass
            kept, anew = [], []
            for _ in range(1 + scale.rounds):
                kept.append(1e3 * _next_turn(chat, clock))
                anew.append(1e3 * _read(model, chat, clock))
            yield CONVERSATION.point(length, kept[1:], series=KEPT)
            yield CONVERSATION.point(length, anew[1:], series=ANEW)
    except ContextFullError:
        return


def _next_turn(chat: Conversation, clock: Callable[[], float]) -> float:
    """Seconds to the first token of an answer."""
    branch = chat.fork()
    begin = clock()
    next(branch.send(_QUESTION), None)
    return clock() - begin


def _read(model: Model, chat: Conversation, clock: Callable[[], float]) -> float:
    """Seconds to read all of a conversation."""
    session = Session(model.engine)
    begin = clock()
    session.prefill(chat.tokens)
    return clock() - begin
