"""A GGUF file opened for the native engine: its weights, its tokenizer, its chat templates.

Boundary: joins the engine, the reader of model files and :mod:`maglio.text`, which know nothing of
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from maglio.engine.native import NativeEngine
from maglio.engine.registry import Opened
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from maglio.text import Tokenizer, from_metadata


def open_native(
    path: Path,
    /,
    *,
    n_ctx: int = 4096,
    threads: int | None = None,
    kv_cache: str = "f16",
    cache: bool = False,
    on_load: Callable[[int, int], object] | None = None,
) -> Opened:
    """Open a GGUF file; see :func:`maglio.load` for the options."""
    file = ModelFile(path)
    tokenizer = read_tokenizer(file)
    engine = NativeEngine(
        file,
        n_ctx=n_ctx,
        threads=threads,
        kv_cache=kv_cache,
        keep_weights=cache,
        on_load=on_load,
    )
    if tokenizer.n_vocab not in (0, engine.n_vocab):
        raise file.error(
            f"its vocabulary has {tokenizer.n_vocab} tokens and its embedding "
            f"{engine.n_vocab}; the file contradicts itself"
        )
    return Opened(engine, tokenizer, read_chat_template(file), file.path)


def read_tokenizer(file: ModelFile) -> Tokenizer:
    """The tokenizer of a model file.

    Raises:
        ModelFileError: the file has none, or not a valid one; the message names the file.
    """
    try:
        return from_metadata(file.metadata)
    except ModelFileError as error:
        raise file.error(str(error), type(error)) from error


def read_chat_template(file: ModelFile) -> Mapping[str, str]:
    """The sources of the chat templates in a model file, by name; empty if it has none.

    ``default`` is the one that is not named, ``tool_use`` the one to use where there are tools.
    """
    key = "tokenizer.chat_template"
    default = file.metadata.get(key)
    sources = {"default": default} if isinstance(default, str) else {}
    return sources | {
        name.removeprefix(f"{key}."): source
        for name, source in file.metadata.items()
        if name.startswith(f"{key}.") and isinstance(source, str)
    }
