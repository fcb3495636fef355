"""Maglio's native core: index structures, sampling, and the CPU engine."""

import os
from typing import Annotated

import numpy
from numpy.typing import NDArray


class SuffixAutomaton:
    """A live index of a token stream."""

    def __init__(self, *, token_cap: int = 4194304) -> None:
        """
        A full index restarts from the last quarter of its ``token_cap`` tokens.
        """

    def append(self, token: int) -> None:
        """Add one token. ``ValueError`` if negative; ``MemoryError`` poisons."""

    def extend(self, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Add an int32 array of tokens."""

    @property
    def match_length(self) -> int:
        """Tokens in the longest suffix that also occurs earlier."""

    def draft(self, limit: int) -> list[int]:
        """At most ``limit`` tokens that followed the latest earlier occurrence."""

    def freeze(self) -> FrozenAutomaton:
        """A compact, immutable index of the tokens indexed now."""

    def check(self) -> str:
        """What is wrong with the structure; empty if nothing."""

    @property
    def poisoned(self) -> bool:
        """Whether an append failed; the index then answers 0 for ever."""

    @property
    def total_tokens(self) -> int:
        """Tokens ever added."""

    @property
    def indexed_tokens(self) -> int:
        """Tokens that matches can reach."""

    @property
    def states(self) -> int: ...

    @property
    def transitions(self) -> int: ...

    @property
    def memory_bytes(self) -> int:
        """Bytes reserved."""

class FrozenAutomaton:
    """An immutable index of a document."""

    def __init__(self, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Index an int32 array of tokens."""

    @staticmethod
    def open(path: str | os.PathLike[str], fingerprint: str | None = None) -> FrozenAutomaton:
        """
        Map an index file. ``IndexFileError`` if it is damaged, foreign, or has another fingerprint than the one given.
        """

    def save(self, path: str | os.PathLike[str], *, fingerprint: str) -> None:
        """Write an index file atomically; ``fingerprint`` names the tokenizer."""

    def cursor(self) -> FrozenCursor:
        """A new cursor, which keeps the index alive."""

    def check(self) -> str:
        """What is wrong with the structure; empty if nothing."""

    def __len__(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """The opened file's; empty if built in memory."""

    @property
    def states(self) -> int: ...

    @property
    def transitions(self) -> int: ...

    @property
    def memory_bytes(self) -> int:
        """Bytes of the index, or of its share of the file."""

class FrozenCursor:
    """Where one stream stands in a document."""

    def advance(self, token: int) -> None:
        """Take note of the stream's next token."""

    def advance_many(self, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Take note of an int32 array of tokens."""

    @property
    def match_length(self) -> int:
        """Tokens in the longest suffix that the document continues."""

    def draft(self, limit: int) -> list[int]:
        """At most ``limit`` tokens that follow the match in the document."""
