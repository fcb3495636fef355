"""Cost curves to judge under: the built-in ones by name, or a measured one from a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maglio.economics.cost import COST_CURVES, CostCurve
from maglio.errors import DataFileError, InvalidArgumentError

MAX_CURVE_BYTES = 1 << 20


def find_curves(names: Sequence[str]) -> dict[str, CostCurve]:
    """The curves of these names, all built-in ones if there are none.

    A name is a built-in curve or a JSON file: what ``maglio probe --json`` prints, or
    ``[[rows, plain steps], ...]``.

    Raises:
        InvalidArgumentError: a name is neither, or a curve is impossible.
        DataFileError: a file cannot be read or holds something else.
    """
    curves: dict[str, CostCurve] = {}
    for name in names or COST_CURVES:
        if name in COST_CURVES:
            curves[name] = COST_CURVES[name]
        elif name.endswith(".json"):
            curves[Path(name).stem] = _read_curve(Path(name))
        else:
            known = ", ".join(COST_CURVES)
            raise InvalidArgumentError(
                f"there is no cost curve {name!r}; give {known}, or a .json file"
            )
    return curves


def _read_curve(path: Path) -> CostCurve:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CURVE_BYTES)
        value = json.loads(data)
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"{path} is not valid JSON: {error}") from error
    points = _probed(value) if isinstance(value, dict) else value
    if not isinstance(points, list) or not all(map(_is_point, points)):
        raise DataFileError(
            f"{path} holds neither the output of 'maglio probe --json' nor a list of "
            "[rows, plain steps] pairs"
        )
    return CostCurve((rows, float(cost)) for rows, cost in points)


def _probed(document: dict[str, Any]) -> object:
    """The points that a probe measured; a verify is never cheaper than a plain step."""
    entries = document.get("costs")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    points: list[Any] = [[entry.get("draft"), entry.get("cost")] for entry in entries]
    if not all(map(_is_point, points)):
        return None
    return [[1, 1.0], *([1 + draft, max(1.0, cost)] for draft, cost in points)]


def _is_point(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    rows, cost = value
    return type(rows) is int and type(cost) in (int, float)
