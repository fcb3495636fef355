"""What results say of the model file and of the machine: the same in all that is measured.

Boundary: reads the file and asks the machine; measures its memory for about a second.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from maglio.bench.field.line import FieldMachine, FieldModel
from maglio.doctor.machine_facts import machine_facts
from maglio.errors import ModelFileError
from maglio.files import open_regular

_PIECE = 1 << 22


def field_model(path: Path) -> FieldModel:
    """The model file, or the first part of a split one.

    Raises:
        ModelFileError: it cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with open_regular(path) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error
    return FieldModel(path.name, size, digest.hexdigest())


def field_machine() -> FieldMachine:
    """This machine, and how fast it reads memory now."""
    machine = machine_facts()
    rate = machine.memory_rate
    return FieldMachine(
        machine.processor,
        machine.cores,
        machine.isa,
        None if rate is None else round(rate / 1e9, 2),
    )
