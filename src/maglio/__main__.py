"""Where the command line begins: ``python -m maglio``, and the script ``maglio``.

Boundary: what an interrupt does while there is nothing to tidy up. Importing takes half a second,
most of it in other packages, where an exception could come anywhere. So Ctrl-C ends the process at
once, until :mod:`maglio.cli` has its own way.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from maglio.cli import main as run

    run()


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
