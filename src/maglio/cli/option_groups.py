"""Options in groups: a dataclass whose fields are options, usable by several commands.

Boundary: signatures only. A group is a frozen dataclass whose fields are annotated as options of
typer are: ``name: Annotated[type, typer.Option(...)] = default``. Adding an option to every command
that has the group is adding a field.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import typer


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Show typer the fields of a command's option groups as options, and collect them again.

    A parameter whose annotation is a dataclass is a group. Typer reads the signature of the
    function that is returned, in which the fields stand in the group's place; the command gets the
    groups made of what typer passes.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            groups[parameter.name] = annotation
            parameters += _fields(annotation)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**values: Any) -> None:  # noqa: ANN401
        for name, group in groups.items():
            names = [field.name for field in dataclasses.fields(group)]
            values[name] = group(**{field: values.pop(field) for field in names})
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def given(context: typer.Context) -> frozenset[str]:
    """The names of the parameters that this run was asked for, as opposed to defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    asked = ("COMMANDLINE", "ENVIRONMENT")
    return frozenset(name for name, source in sources.items() if source and source.name in asked)


def _fields(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(group)
    ]
