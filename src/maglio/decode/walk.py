"""The walk along the rows of a forward: a token is committed for each, as long as that is right."""

from __future__ import annotations

from typing import NamedTuple

from maglio.decode.guard import MarginGuard
from maglio.decode.picker import Chooser
from maglio.decode.plan import Sent
from maglio.decode.turn import Turn
from maglio.engine.base import Logits
from maglio.errors import GrammarError, InvalidLogitsError


class Walked(NamedTuple):
    """How far it went.

    Attributes:
        accepted: draft tokens that were accepted,
        judged: and those that were judged.
        is_close: whether it ended before a choice that is too close to be taken from its row.
    """

    accepted: int
    judged: int
    is_close: bool = False


def walk(
    turn: Turn, sent: Sent, rows: Logits, picker: Chooser, guard: MarginGuard | None, n_ctx: int
) -> Walked:
    """Commit a token per row as long as it is the one that the next row was computed for.

    Args:
        turn: where tokens are committed.
        sent: what the rows were computed for.
        rows: float32 ``(n, n_vocab)``, at least one.
        picker: chooses the tokens.
        guard: says which choices stand; all do when ``None``.
        n_ctx: most positions of the context.

    Raises:
        InvalidLogitsError, GrammarError: nothing can be chosen from the first row.
    """
    draft = () if sent.draft is None else sent.draft.tokens
    for index, row in enumerate(rows):
        position = turn.drawn + len(turn.tokens) - turn.start
        try:
            mask = turn.mask
            token = picker.pick(row, position, mask)
            if guard is not None and not guard.stands(token, row, position, mask):
                return Walked(index, index, is_close=True)
            turn.commit(token, row, n_ctx)
        except (InvalidLogitsError, GrammarError) as error:
            if index == 0:
                raise
            turn.failure = error  # what was committed before it is delivered first
            return Walked(index, index)
        picker.extend((token,))
        if index == len(draft) or token != draft[index]:
            return Walked(index, len(draft))
        if turn.end is not None:
            return Walked(index + 1, index + 1)
    raise AssertionError("a verify step has a row more than draft tokens")
