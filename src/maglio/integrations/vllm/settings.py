"""What the user can say: ``--additional-config '{"maglio": {...}}'``. vLLM takes no other options.

Boundary: checks values. Opens no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from maglio.checks import check_int
from maglio.draft.past import DEFAULT_HISTORY_TOKENS
from maglio.economics.cost import CostCurve
from maglio.errors import InvalidArgumentError

KEY = "maglio"
_DEFAULT_MEMORY_TOKENS = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How requests are drafted for.

    Attributes:
        references: documents that all requests may quote: text files, folders of them, index files.
        history_tokens: how much of the text of earlier requests is drafted from; 0: none.
        memory_tokens: requests are not drafted for while the indexes of others hold so many tokens;
            about 100 bytes each.
        cost: what a step costs by its rows, in steps of one row; a built-in table for the device
            when ``None``.
        timings: whether the times of steps correct the costs. Without it, the drafts are a function
            of the tokens alone.

    Raises:
        InvalidArgumentError: a value is out of range.
    """

    references: tuple[Path, ...] = ()
    history_tokens: int = DEFAULT_HISTORY_TOKENS
    memory_tokens: int = _DEFAULT_MEMORY_TOKENS
    cost: CostCurve | None = None
    timings: bool = True

    def __post_init__(self) -> None:
        check_int("history_tokens", self.history_tokens, 0, 1 << 30)
        check_int("memory_tokens", self.memory_tokens, 0, 1 << 40)
        if not isinstance(self.timings, bool):
            raise InvalidArgumentError(f"timings is {self.timings!r:.80}, must be true or false")

    @classmethod
    def of(cls, additional_config: object) -> Settings:
        """Read them from vLLM's ``additional_config``.

        Raises:
            InvalidArgumentError: a name is unknown, or a value is not what it should be.
        """
        given = additional_config.get(KEY) if isinstance(additional_config, Mapping) else None
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(f"{KEY} is {given!r:.80}, must be an object with options")
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                raise InvalidArgumentError(
                    f"{KEY} has the option {name!r:.80}; there are {', '.join(names)}"
                )
        values = dict(given)
        if "references" in values:
            values["references"] = _paths(values["references"])
        if values.get("cost") is not None:
            values["cost"] = _curve(values["cost"])
        return cls(**values)


def _paths(given: object) -> tuple[Path, ...]:
    if isinstance(given, str):
        return (Path(given),)
    if isinstance(given, Iterable):
        paths = [*given]
        if all(isinstance(path, (str, Path)) for path in paths):
            return tuple(map(Path, paths))
    raise InvalidArgumentError(f"references is {given!r:.80}, must be a list of paths")


def _curve(given: object) -> CostCurve:
    try:
        points = [(rows, cost) for rows, cost in given]  # type: ignore[attr-defined]
        valid = all(type(rows) is int and type(cost) in (int, float) for rows, cost in points)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise InvalidArgumentError(
            f"cost is {given!r:.80}, must be a list of [rows, cost in steps of one row]"
        )
    return CostCurve(points)
