"""The steps of sampling and the orders in which they can apply. Names alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from maglio.errors import InvalidArgumentError

ROW_STEPS = ("logit_bias", "penalties", "dry")
"""Steps that change logits of the whole row. They come before all others."""

LIST_STEPS = ("temperature", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc")
"""Steps on the candidates that are left."""

_FILTERS = ("top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc")

ORDERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "default": ("penalties", "dry", "logit_bias", "temperature", *_FILTERS),
        "llama.cpp": ("logit_bias", "penalties", "dry", *_FILTERS, "temperature"),
    }
)
"""Orders with a name."""


def steps_of(order: str | Sequence[str]) -> tuple[str, ...]:
    """Return the steps of an order: a name of :data:`ORDERS`, or the steps themselves.

    ``logit_bias`` comes first where it is not named.

    Raises:
        InvalidArgumentError: it is no order.
    """
    if isinstance(order, str):
        if order not in ORDERS:
            raise InvalidArgumentError(
                f"order is {order!r:.80}, must be {' or '.join(ORDERS)}, or a list of steps"
            )
        return ORDERS[order]
    if not isinstance(order, Sequence) or isinstance(order, bytes):
        raise InvalidArgumentError(
            f"order is {order!r:.80}, must be {' or '.join(ORDERS)}, or a list of steps"
        )
    known = (*ROW_STEPS, *LIST_STEPS)
    for step in order:
        if step not in known:
            raise InvalidArgumentError(
                f"order names the step {step!r:.80}, must be one of {', '.join(known)}"
            )
    steps = tuple(order)
    if "logit_bias" not in steps:
        steps = ("logit_bias", *steps)
    if len(set(steps)) < len(steps):
        raise InvalidArgumentError(f"order is {steps}, must name each step once")
    on_row = [step in ROW_STEPS for step in steps]
    if on_row != sorted(on_row, reverse=True):
        raise InvalidArgumentError(
            f"order is {steps}, must begin with {', '.join(ROW_STEPS)} as far as it names them: "
            "they change the whole row"
        )
    return steps
