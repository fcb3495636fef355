"""Checks of numbers that callers give. One message form: the name, the value, what is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from maglio.errors import InvalidArgumentError

MAX_TOKEN_ID = 2**31 - 1
MAX_SEED = 2**64 - 1


def is_int(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer (numpy's count) and not a truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raise InvalidArgumentError unless ``value`` is an integer from ``low`` to ``high``."""
    if not is_int(value) or not low <= value <= high:
        raise InvalidArgumentError(f"{name} is {value!r}, must be an integer from {low} to {high}")


def check_real(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> None:
    """Raise InvalidArgumentError unless ``value`` is a finite number from ``low`` to ``high``."""
    valid = (is_int(value) or isinstance(value, (float, np.floating))) and math.isfinite(value)
    if not valid or not low <= value <= high:  # type: ignore[operator]
        span = "" if math.isinf(low) else f" from {low:g} to {high:g}"
        raise InvalidArgumentError(f"{name} is {value!r}, must be a finite number{span}")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise InvalidArgumentError unless ``value`` is one of ``choices``."""
    if value not in choices:
        *most, last = map(str, choices)
        allowed = f"{', '.join(most)} or {last}" if most else last
        raise InvalidArgumentError(f"{name} is {value!r}, must be {allowed}")
