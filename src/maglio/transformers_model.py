"""A checkpoint opened with the transformers library: its model, tokenizer and chat templates.

Boundary: joins the engine, the library's loaders and :mod:`maglio.text`, which know nothing of each
other. Importing it imports nothing of the extra ``hf``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maglio.checks import check_choice, check_int
from maglio.engine.registry import MOST_CONTEXT, Opened
from maglio.errors import InvalidArgumentError, MaglioError, ModelFileError, OutOfMemoryError
from maglio.text.fast_tokenizer import FastTokenizer, SpecialIds

DTYPES = ("auto", "float32", "float16", "bfloat16", "float64")
_MAX_THREADS = 256
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_PACKAGES = frozenset({"torch", "transformers", "huggingface_hub", "accelerate"})


def check_extra() -> None:
    """See that the packages of the extra ``maglio[hf]`` are there.

    Raises:
        MaglioError: one is missing; says how to install it.
    """
    try:
        import maglio.engine.transformers  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise MaglioError(
            f"the engine 'transformers' needs the package {error.name}, which is not installed: "
            'pip install "maglio[hf]"'
        ) from None


def open_transformers(
    path: Path,
    /,
    *,
    n_ctx: int = 4096,
    threads: int | None = None,
    kv_cache: str = "f16",
    device: str = "auto",
    dtype: str = "auto",
    on_load: Callable[[int, int], object] | None = None,
) -> Opened:
    """Open a checkpoint. Code that comes with one is never run.

    Args:
        path: a folder with ``config.json``, or a name on the hub, such as ``Qwen/Qwen3-0.6B``.
        n_ctx: context length of a stream in tokens; at most what the model was trained for.
        threads: threads of torch on the CPU, in this whole process; as it is when ``None``.
        kv_cache: nothing but ``f16``, the default of all engines, which here means the data type
            of the model.
        device: ``cpu``, ``cuda``, ``cuda:1`` or another device of torch; the first GPU, if there
            is one, when ``auto``.
        dtype: data type of the model: as it was saved when ``auto``.
        on_load: is called with bytes done and bytes in all, before and after loading.

    Raises:
        MaglioError: the extra ``hf`` is not installed.
        ModelFileError: the checkpoint is missing, damaged, or not a causal language model.
        InvalidArgumentError: an option is out of range.
        OutOfMemoryError: the model does not fit in memory.
    """
    check_extra()
    import torch

    from maglio.engine.transformers import TransformersEngine

    check_int("n_ctx", n_ctx, 1, MOST_CONTEXT)
    check_choice("dtype", dtype, DTYPES)
    if kv_cache != "f16":
        raise InvalidArgumentError(
            f"kv_cache is {kv_cache!r}, must be 'f16': the engine 'transformers' keeps its cache "
            "in the data type of the model"
        )
    if threads is not None:
        check_int("threads", threads, 1, _MAX_THREADS)
        torch.set_num_threads(threads)
    folder = _folder(path)
    total = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if on_load is not None:
        on_load(0, total)
    where = _device(device)
    with _faults(folder), _quietly():
        model = _model(folder, where, dtype)
        tokenizer = _tokenizer(folder)
    longest = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    engine = TransformersEngine(model, n_ctx=min(n_ctx, longest or n_ctx))
    if on_load is not None:
        on_load(total, total)
    try:
        ours = read_tokenizer(tokenizer, model.generation_config, n_vocab=engine.n_vocab)
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    return Opened(engine, ours, read_chat_template(tokenizer), folder)


def read_tokenizer(tokenizer: Any, generation_config: Any, *, n_vocab: int) -> FastTokenizer:  # noqa: ANN401
    """The tokenizer of a checkpoint, with the tokens that end a generation of its model.

    Args:
        tokenizer: a fast tokenizer of the transformers library.
        generation_config: the model's; where it names no end, the tokenizer's counts.
        n_vocab: ids that the model has a logit for.

    Raises:
        ModelFileError: it is not a fast tokenizer, or of a kind that is not supported.
    """
    if not tokenizer.is_fast:
        raise ModelFileError(
            f"{type(tokenizer).__name__} is not a fast tokenizer; the checkpoint must have a "
            "tokenizer.json"
        )
    ends = getattr(generation_config, "eos_token_id", None)
    if ends is None:
        ends = tokenizer.eos_token_id
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    special = SpecialIds(
        bos=_below(tokenizer.bos_token_id, n_vocab),
        eos=_below(tokenizer.eos_token_id, n_vocab),
        unk=_below(tokenizer.unk_token_id, n_vocab),
        pad=_below(tokenizer.pad_token_id, n_vocab),
        ends=frozenset(token for token in ends if 0 <= token < n_vocab),
    )
    return FastTokenizer(tokenizer.backend_tokenizer, special, n_vocab=n_vocab)


def read_chat_template(tokenizer: Any) -> Mapping[str, str]:  # noqa: ANN401 (of the library)
    """The sources of its chat templates by name; empty if it has none."""
    source = tokenizer.chat_template
    if source is None:
        return {}
    return {"default": source} if isinstance(source, str) else dict(source)


def _below(token: int | None, n_vocab: int) -> int | None:
    return token if token is not None and 0 <= token < n_vocab else None


def _folder(path: Path) -> Path:
    """The folder of a checkpoint; that of the hub's cache, for a name on the hub."""
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelFileError(f"{path}: the folder has no config.json; it is not a checkpoint")
        return path
    if path.exists() or not _HUB_NAME.fullmatch(path.as_posix()):
        raise ModelFileError(
            f"{path}: the engine 'transformers' opens a folder with config.json, or a name on the "
            "hub such as Qwen/Qwen3-0.6B"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(path.as_posix(), allow_patterns=_FILES))
    except Exception as error:  # of the network, the hub, or its cache
        raise ModelFileError(
            f"{path}: there is no such folder, and it cannot be fetched from the hub: {error}"
        ) from error


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for a device
        raise InvalidArgumentError(f"device is {name!r}, which torch cannot use: {error}") from None
    return name


def _model(folder: Path, device: str, dtype: str) -> Any:  # noqa: ANN401 (a class per architecture)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, local_files_only=True, trust_remote_code=False
    )
    return model.to(device).eval()


def _tokenizer(folder: Path) -> Any:  # noqa: ANN401 (a class per kind)
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


@contextmanager
def _faults(folder: Path) -> Iterator[None]:
    """Whatever the library raises about a checkpoint, as one of our errors."""
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemoryError(f"{folder}: the model does not fit in memory: {error}") from error
    except Exception as error:  # the library has no error of its own for a damaged checkpoint
        raise ModelFileError(f"{folder}: cannot be opened: {error}") from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the library's own progress bars: whoever loads has one."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
