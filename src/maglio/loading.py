"""Loading a model by path and engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from maglio.checks import check_choice
from maglio.engine.registry import open_model
from maglio.errors import InvalidArgumentError
from maglio.exact import EXACT, Exact, check_exactness
from maglio.model import Model
from maglio.sources.find import find_model


def load(
    path: str | Path | None = None,
    *,
    engine: str = "auto",
    n_ctx: int = 4096,
    threads: int | None = None,
    kv_cache: str = "f16",
    cache: bool = False,
    exact: Exact = "accept",
    on_load: Callable[[int, int], object] | None = None,
    **options: object,
) -> Model:
    """Load a model.

    Args:
        path: a GGUF file, of a split model its first part; ``hf:OWNER/REPO[:QUANT]`` for a model of
            the hub, which is downloaded once and needs the extra ``hub``; ``ollama:NAME[:TAG]`` for
            one in ollama's store (docs/hub.md); for ``transformers``, the folder of a checkpoint or
            its name on the hub; the installed default model when ``None``.
        engine: ``native``, Maglio's own; ``llama.cpp``, which needs the extra ``llama``;
            ``transformers``, which needs the extra ``hf`` (docs/engines.md); or the name of an
            engine that another package brings. ``auto``: ``transformers`` for a folder with
            ``config.json`` and no GGUF file, else ``native``, or ``llama.cpp`` for files of a kind
            that ``native`` does not run.
        n_ctx: context length of a stream in tokens; at most what the model was trained for.
        threads: number of threads; the machine's physical cores when ``None``.
        kv_cache: precision of the KV cache: ``f16``, or ``q8_0``, which takes about half the memory
            and rounds keys and values to 8 bits.
        cache: keep the weights, as the engine repacks them, in a file in the user's cache folder,
            and map that file the next time. It is about as large as the model. All such files have
            at most 100 GB; those that were not used for the longest time go first.
        exact: how exact it has to be. The native engine's rows are bitwise whatever is said here.
            On any other a quick check compares rows alone with rows computed with others, and
            ``engine.exactness`` says what it found. ``accept``: that is all. ``require``: rows that
            are not bitwise are refused. ``guard``: where the choice of a token is closer than the
            differences found, its row is computed alone (docs/engines.md).
        on_load: is called now and then with bytes done and bytes in all while weights are read,
            and again from the beginning while they are written to the cache. An exception in it
            ends loading. Some engines never call it.
        options: more options of the engine.

    Raises:
        ModelFileError: the file is missing, damaged, of an unsupported kind, was written to
            while it was read, or cannot be downloaded.
        MaglioError: an extra is not installed; says which.
        InvalidArgumentError: an argument is out of range, or the engine does not have it.
        ExactnessError: ``exact`` is ``require``, and rows are not bitwise; says by how much.
        OutOfMemoryError: the model and a short KV cache do not fit in memory.

    Warns:
        RuntimeWarning: the file in the cache cannot be used, or not be written; the hub cannot be
            reached, and what was downloaded before is used; ``auto`` is ``llama.cpp``.
    """
    if not isinstance(path, (str, os.PathLike, type(None))):
        raise InvalidArgumentError(f"path is {path!r:.80}, must be a path or None")
    check_choice("exact", exact, EXACT)
    given = {"n_ctx": n_ctx, "threads": threads, "kv_cache": kv_cache, **options}
    if cache:  # engines of other packages need not know it
        given["cache"] = cache
    offers: dict[str, object] = {"exact": exact}
    if on_load is not None:
        offers["on_load"] = on_load
    opened = open_model(engine, find_model(path), given, offers=offers)
    return Model(
        opened.engine,
        opened.tokenizer,
        chat_template=opened.chat_template,
        path=opened.path,
        checked=check_exactness(opened, exact),
        guard=exact == "guard",
    )
