"""Reference documents as people have them: text, files, folders, index files.

Joins the tokenizer and the index of :mod:`maglio.draft`; knows no model and no generation.
"""

from __future__ import annotations

import codecs
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from maglio._core import FrozenAutomaton
from maglio.draft.reference import frozen
from maglio.errors import InvalidArgumentError, OutOfMemoryError
from maglio.files import read_regular
from maglio.machine import available_memory
from maglio.text import Tokenizer
from maglio.text.utf8 import to_bytes

Reference = str | Path | Sequence[int] | npt.NDArray[np.integer] | FrozenAutomaton
"""Text, encoded with the model's tokenizer; the path of a text file, a folder of them, or an index
file; ids of that tokenizer; or an index of such ids."""

INDEX_SUFFIX = ".maglio"
"""Files named so are index files; others are text."""

MAX_FILES = 10_000
MAX_BYTES = 1 << 28
_BYTES_PER_TOKEN = 160  # while an index is built
_PIECE = 1 << 18  # bytes encoded at a time
_BYTES_PER_ENCODED = 256  # what a tokenizer needs for a byte of them
# Where to cut a text, best first.
_PLACES = tuple(
    map(re.compile, (rb"[!-~]\n(?=[A-Za-z])", rb"[!-~](?= [A-Za-z])", rb"\n(?=\S)", rb"\s(?=\S)"))
)
_INDEX_MAGIC = b"MAGLIOIX"
_PROBE = 8192  # bytes looked at to tell text from other data

Progress = Callable[[int, int, Path], None]
"""Called with (files done, files in all, the next file)."""


class Encoder(Protocol):
    """What documents need of a tokenizer."""

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text, if there is one."""
        ...

    def encode(self, text: str | bytes, *, add_special: bool = True) -> list[int]:
        """The token ids of ``text``; bytes need not be valid UTF-8."""
        ...


def each(references: Sequence[Reference] | str | Path) -> Sequence[Reference]:
    """The references; a text or a path alone is one.

    Raises:
        InvalidArgumentError: it is neither that nor a sequence.
    """
    if isinstance(references, (str, Path)):
        return (references,)
    if not isinstance(references, Sequence):
        raise InvalidArgumentError(
            f"references is {references!r:.80}, must be a sequence of references"
        )
    return references


def index_reference(reference: Reference, tokenizer: Tokenizer) -> FrozenAutomaton:
    """Index a reference given in the program; an index is returned as it is.

    Raises:
        InvalidArgumentError: it is empty, too long, cannot be read, or is not a reference at all.
        IndexFileError: an index file is damaged, or another tokenizer made it.
        OutOfMemoryError: the index does not fit in memory.
    """
    if isinstance(reference, FrozenAutomaton):
        return reference
    if isinstance(reference, Path):
        return read_reference(reference, tokenizer)
    if isinstance(reference, bytes) or not isinstance(reference, (str, Sequence, np.ndarray)):
        raise InvalidArgumentError(
            f"a reference is {reference!r:.80}, must be text, a Path, token ids, or a "
            "FrozenAutomaton"
        )
    if isinstance(reference, str):
        return _index(_encoded([to_bytes(reference)], tokenizer, "the reference"), "the reference")
    return _index(reference, "the reference")


def read_reference(path: Path, tokenizer: Tokenizer) -> FrozenAutomaton:
    """Open an index file, or index a text file or all text files of a folder.

    Raises:
        IndexFileError: an index file is damaged, or another tokenizer made it.
        InvalidArgumentError: nothing can be read, or there is no text in it.
        OutOfMemoryError: the index does not fit in memory.
    """
    if path.suffix == INDEX_SUFFIX and os.path.isfile(path):
        return FrozenAutomaton.open(path, tokenizer.fingerprint)
    return index_files([path], tokenizer)


def index_files(
    paths: Iterable[Path], tokenizer: Encoder, *, progress: Progress | None = None
) -> FrozenAutomaton:
    """Index text files, one after the other; folders stand for the text files in them.

    A named file must be text; in folders, other files are passed over, and so is what is hidden.
    The files of a folder come in the order of their paths. Files are joined by the token that ends
    a text, if the tokenizer has one.

    Raises:
        InvalidArgumentError: a path cannot be read, is not text, or there are no or too many files.
        OutOfMemoryError: the index does not fit in memory.
    """
    files = _text_files(paths)
    what = str(files[0]) if len(files) == 1 else f"{len(files)} files"

    def texts() -> Iterator[bytes]:
        for number, file in enumerate(files):
            if progress is not None:
                progress(number, len(files), file)
            _check_memory(_size(file), what)
            yield _read(file)

    return _index(_encoded(texts(), tokenizer, what), what)


def _encoded(texts: Iterable[bytes], tokenizer: Encoder, what: str) -> npt.NDArray[np.int32]:
    """The ids of texts, joined by the token that ends a text, if there is one.

    A tokenizer needs some hundred bytes for each byte that it encodes at a time, so long texts are
    encoded in pieces, and these are what the ids of a reference mean. Pieces end where a line does,
    between a character that is no space and a letter, or else before the space of a word; there the
    byte-level tokenizers cut anyway, so theirs are the ids of the whole text. Where there is no
    such place, and with other tokenizers, some ids around a cut may be others. That costs the
    drafts of a few tokens, and nothing else.
    """
    ids = array("i")
    for number, text in enumerate(texts):
        if number > 0 and tokenizer.eos_id is not None:
            ids.append(tokenizer.eos_id)
        for piece in _pieces(text):
            _check_memory(len(ids) * _BYTES_PER_TOKEN + len(piece) * _BYTES_PER_ENCODED, what)
            ids.extend(tokenizer.encode(piece, add_special=False))
    return np.asarray(ids, dtype=np.int32)


def _pieces(text: bytes) -> Iterator[bytes]:
    begin = 0
    while len(text) - begin > _PIECE:
        end = _cut(text, begin + _PIECE // 2, begin + _PIECE)
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _cut(text: bytes, first: int, last: int) -> int:
    """The best place for a cut from ``first`` up to ``last``: the last of the best kind."""
    window = text[first - 1 : last + 1]
    for place in _PLACES:
        ends = [found.end() for found in place.finditer(window)]
        if ends and ends[-1] > 1:
            return first + ends[-1] - 1
    while last > first and text[last] & 0xC0 == 0x80:  # not within a character
        last -= 1
    return last


def _check_memory(needed: int, what: str) -> None:
    available = available_memory()
    if available is not None and needed > available:
        raise OutOfMemoryError(
            f"indexing {what} needs more than {needed / 1e6:,.0f} MB, and "
            f"{available / 1e6:,.0f} MB are available; use less text"
        )


def _index(tokens: Sequence[int] | npt.NDArray[np.integer], what: str) -> FrozenAutomaton:
    if len(tokens) == 0:
        raise InvalidArgumentError(f"{what} has no tokens, so there is nothing to draft from")
    needed, available = len(tokens) * _BYTES_PER_TOKEN, available_memory()
    if available is not None and needed > available:
        raise OutOfMemoryError(
            f"indexing {what} of {len(tokens):,} tokens needs about {needed / 1e6:,.0f} MB, and "
            f"{available / 1e6:,.0f} MB are available; use less text"
        )
    return frozen(tokens)


def _text_files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    size = 0
    for path in paths:
        found = [f for f in _walk(path) if _is_text(f)] if os.path.isdir(path) else [path]
        if not found:
            raise InvalidArgumentError(f"{path} has no text files in it")
        files += found
        size += sum(_size(file) for file in found)
        if len(files) > MAX_FILES or size > MAX_BYTES:
            raise InvalidArgumentError(
                f"{path} makes {len(files):,} files of {size / 1e6:,.0f} MB in all; at most "
                f"{MAX_FILES:,} files and {MAX_BYTES / 1e6:,.0f} MB can be one reference"
            )
    if not files:
        raise InvalidArgumentError("no files were given to index")
    return files


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        visible = sorted(name for name in names if not name.startswith("."))
        yield from (file for name in visible if (file := Path(parent, name)).is_file())


def _is_text(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            start = opened.read(_PROBE)
    except OSError:
        return False
    return len(start) > 0 and b"\0" not in start


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except (OSError, ValueError) as error:  # the latter for a NUL character
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgumentError(f"cannot read {str(file)!r:.200}: {reason}") from error


def _read(file: Path) -> bytes:
    try:
        data = read_regular(file, MAX_BYTES)
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {file}: {error.strerror}") from error
    data = data.removeprefix(codecs.BOM_UTF8)
    if b"\0" in data[:_PROBE]:
        hint = f"; an index file must be named *{INDEX_SUFFIX}" if data[:8] == _INDEX_MAGIC else ""
        raise InvalidArgumentError(
            f"{file} is not a text file: it contains NUL bytes, as binary files do{hint}"
        )
    return data
