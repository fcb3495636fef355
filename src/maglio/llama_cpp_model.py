"""A GGUF file opened for llama.cpp: its engine, tokenizer and chat templates.

Boundary: joins the engine, the reader of model files and :mod:`maglio.text`, which know nothing of
each other. Importing it imports nothing of the extra ``llama``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from maglio import machine
from maglio.checks import check_choice, check_int
from maglio.engine.registry import MOST_CONTEXT, Opened
from maglio.errors import (
    InvalidArgumentError,
    MaglioError,
    OutOfMemoryError,
    UnsupportedModelError,
)
from maglio.gguf import ModelFile
from maglio.native_model import read_chat_template, read_tokenizer
from maglio.text import Tokenizer

KV_CACHES = ("f16", "bf16", "q8_0")
_MAX_THREADS = 256
_MOST_CELLS = 1 << 30


def check_extra() -> None:
    """See that the package of the extra ``maglio[llama]`` is there, and can be loaded.

    Raises:
        MaglioError: it is missing or broken; says what to do.
    """
    try:
        import llama_cpp
    except ModuleNotFoundError as error:
        raise MaglioError(
            f"the engine 'llama.cpp' needs the package {error.name}, which is not installed: "
            'pip install "maglio[llama]"'
        ) from None
    except (OSError, RuntimeError) as error:  # of its loader
        raise MaglioError(
            f"llama-cpp-python cannot load its library; install it again: {error}"
        ) from error
    if not hasattr(llama_cpp, "llama_model_is_diffusion"):
        raise MaglioError(
            f"llama-cpp-python {llama_cpp.__version__} is too old for the engine 'llama.cpp': "
            'pip install --upgrade "maglio[llama]"'
        )


def open_llama_cpp(
    path: Path,
    /,
    *,
    n_ctx: int = 4096,
    threads: int | None = None,
    kv_cache: str = "f16",
    exact: str = "accept",
    cache_tokens: int | None = None,
    n_gpu_layers: int | None = None,
    main_gpu: int = 0,
    split_mode: str = "layer",
    tensor_split: str | Sequence[float] = (),
    offload_kqv: bool = True,
    on_load: Callable[[int, int], object] | None = None,
) -> Opened:
    """Open a GGUF file on llama.cpp. Maglio's own reader checks it first.

    Args:
        path: a GGUF file, of a split model its first part.
        n_ctx: context length of a stream in tokens; at most what the model was trained for.
        threads: threads on the CPU, the same for one row and for many; physical cores when
            ``None``.
        kv_cache: data type of keys and values: ``f16``, ``bf16`` or ``q8_0``. Exact settings may
            replace ``f16`` by ``bf16``.
        exact: ``accept`` and ``guard``: as llama.cpp computes by default, which promises a
            distribution. ``require``: settings are tried until rows are the same to the bit.
        cache_tokens: positions of all streams together; when ``None``, four times ``n_ctx``, or
            what a quarter of the memory holds if that is less.
        n_gpu_layers: layers whose weights are on GPUs; -1 for all, llama.cpp's default if ``None``.
        main_gpu: the GPU in use, for ``split_mode="none"``.
        split_mode: how several GPUs share the model: ``none``, ``layer``, ``row`` or ``tensor``.
        tensor_split: the share of each GPU, as numbers or as a text such as ``3,1``; as llama.cpp
            thinks best when empty.
        offload_kqv: the KV cache is on the GPU too.
        on_load: is called with bytes done and bytes in all while weights are read; again from the
            beginning for settings that need them arranged otherwise.

    Raises:
        MaglioError: the extra ``llama`` is not installed.
        ModelFileError: the file is missing, damaged, or not a model that llama.cpp can run.
        InvalidArgumentError: an option is out of range.
        OutOfMemoryError: the model and its caches do not fit in memory.
    """
    check_extra()
    from maglio.engine.llama_cpp.ladder import Plan, open_exact, open_fast
    from maglio.engine.llama_cpp.model import Offload
    from maglio.llama_cpp_tokenizer import LlamaCppTokenizer

    threads = machine.physical_cores() if threads is None else threads
    check_int("n_ctx", n_ctx, 1, MOST_CONTEXT)
    check_int("threads", threads, 1, _MAX_THREADS)
    check_choice("kv_cache", kv_cache, KV_CACHES)
    check_choice("exact", exact, ("accept", "guard", "require"))
    if cache_tokens is not None:
        check_int("cache_tokens", cache_tokens, 1, _MOST_CELLS)
    offload = Offload(
        n_gpu_layers=n_gpu_layers,
        main_gpu=main_gpu,
        split_mode=split_mode,
        tensor_split=_shares(tensor_split),
        offload_kqv=offload_kqv,
    )
    file = ModelFile(path)
    tokenizer = _known_tokenizer(file)
    if offload.is_cpu:
        _check_memory(file)
    plan = Plan(
        path=file.path,
        n_ctx=n_ctx,
        cache_tokens=cache_tokens,
        threads=threads,
        offload=offload,
        on_load=None if on_load is None else _in_bytes(on_load, file.size),
    )
    engine = (open_exact if exact == "require" else open_fast)(plan, kv_cache)
    if tokenizer is None:
        tokenizer = LlamaCppTokenizer(engine.context.model, file.metadata)
    return Opened(engine, tokenizer, read_chat_template(file), file.path)


def _known_tokenizer(file: ModelFile) -> Tokenizer | None:
    """Maglio's own tokenizer, where it knows the vocabulary.

    llama.cpp ends the process where two tokens are the same. It reads one up to a NUL, and names
    one that is empty.
    """
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list):
        read = {str(t).split("\0")[0] or f"[EMPTY_{i}]" for i, t in enumerate(tokens)}
        if len(read) != len(tokens) or not tokens:
            raise file.error("its vocabulary is empty, or has a token twice")
    try:
        return read_tokenizer(file)
    except UnsupportedModelError:
        if not isinstance(tokens, list):
            raise file.error("it has no vocabulary") from None
        return None


def _shares(split: str | Sequence[float]) -> tuple[float, ...]:
    try:
        return tuple(map(float, split.split(",") if isinstance(split, str) else split))
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"tensor_split is {split!r:.80}, must be numbers, such as 3,1"
        ) from None


def _check_memory(file: ModelFile) -> None:
    available = machine.available_memory()
    if available is not None and file.size > available:
        raise OutOfMemoryError(
            f"{file.path} has {file.size / 1e6:,.0f} MB, and {available / 1e6:,.0f} MB are "
            "available; end other programs, or use a smaller or more strongly quantized model"
        )


def _in_bytes(on_load: Callable[[int, int], object], size: int) -> Callable[[float], object]:
    return lambda fraction: on_load(int(fraction * size), size)
