"""Measurements in a process of their own, so that the memory of one is not that of another.

Boundary: processes and pipes; knows nothing of what is measured.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection

from maglio.bench.field.line import GrowthPoint
from maglio.errors import MaglioError


def in_own_process(measure: Callable[[], Iterator[GrowthPoint]]) -> Iterator[GrowthPoint]:
    """The points that ``measure`` gives in a process of its own, as they come.

    Args:
        measure: a function of a module, or a :func:`functools.partial` of one.

    Raises:
        MaglioError: the measurement failed, or its process ended early.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=partial(_send, sender, measure), daemon=True)
    process.start()
    sender.close()
    try:
        while True:
            try:
                said = receiver.recv()
            except EOFError:
                process.join()
                raise MaglioError(
                    f"the process that measured ended with status {process.exitcode}; it may have "
                    "had too little memory"
                ) from None
            if isinstance(said, str):
                raise MaglioError(f"a measurement failed: {said}")
            if said is None:
                return
            yield said
    finally:
        receiver.close()
        process.terminate()
        process.join()


def _send(sender: Connection, measure: Callable[[], Iterator[GrowthPoint]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asked, and ends us
    try:
        for point in measure():
            sender.send(point)
        sender.send(None)
    except (MaglioError, MemoryError) as error:
        sender.send(str(error) or type(error).__name__)
