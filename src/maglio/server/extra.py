"""Whether the packages of the extra ``maglio[server]`` are there.

Boundary: imports them; needs none of them itself.
"""

from __future__ import annotations

from maglio.errors import MaglioError

_EXTRA = frozenset({"starlette", "uvicorn", "uvloop", "pydantic", "prometheus_client", "anyio"})


def check_extra(what: str) -> None:
    """See that ``what`` can run.

    Raises:
        MaglioError: a package is missing; says how to install it.
    """
    try:
        import maglio.server.app
        import maglio.server.serving  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise MaglioError(
            f"{what} needs the package {error.name}, which is not installed: "
            'pip install "maglio[server]"'
        ) from None
