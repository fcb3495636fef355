"""llama.cpp's tokenizer for the same file, where llama-cpp-python is installed: the oracle."""

from __future__ import annotations

import ctypes
import importlib
import os
from pathlib import Path
from types import ModuleType

from maglio.errors import InvalidArgumentError


def llama_ids(path: Path, text: bytes, *, add_special: bool, parse_special: bool) -> list[int]:
    """Return the ids that llama.cpp gives ``text``.

    Raises:
        InvalidArgumentError: llama-cpp-python is not installed, or cannot use the file.
    """
    llama = _import()
    llama.llama_backend_init()
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    params = llama.llama_model_default_params()
    params.vocab_only = True
    model = llama.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise InvalidArgumentError(f"llama.cpp cannot load {path}")
    try:
        vocabulary = llama.llama_model_get_vocab(model)
        ids = (llama.llama_token * (len(text) + 8))()
        count = llama.llama_tokenize(
            vocabulary, text, len(text), ids, len(ids), add_special, parse_special
        )
    finally:
        llama.llama_model_free(model)
        # The callback must not outlive this function.
        llama.llama_log_set(llama.llama_log_callback(), ctypes.c_void_p(0))
    if count < 0:
        raise InvalidArgumentError("llama.cpp cannot tokenize this text")
    return list(ids[:count])


def _import() -> ModuleType:
    try:
        return importlib.import_module("llama_cpp")
    except ImportError as error:
        raise InvalidArgumentError(
            f"--against llama.cpp needs the package llama-cpp-python ({error}); install it"
        ) from None
