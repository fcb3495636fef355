"""llama.cpp as an oracle: logits of a GGUF file, set up to round as little as it can.

No weight repacking, no flash attention, float32 KV cache. Drives the low-level interface of
llama-cpp-python, which also takes files without a vocabulary.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

os.environ.setdefault("GGML_CPU_TILED_MM", "0")  # read once, when the library loads

import llama_cpp
import numpy as np
import numpy.typing as npt


class LlamaOracle:
    """A loaded model with one sequence. Use it as a context manager.

    Without flash attention each value is computed by one thread, so ``n_threads`` changes only
    the time; llama.cpp's threads spin, and more of them than free cores are very slow.
    """

    def __init__(self, path: Path | str, *, n_ctx: int = 1024, n_threads: int = 1) -> None:
        llama_cpp.llama_backend_init()
        llama_cpp.llama_log_set(_QUIET, ctypes.c_void_p(0))
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        model_params.use_extra_bufts = False
        self._model = llama_cpp.llama_model_load_from_file(os.fsencode(path), model_params)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = n_ctx
        params.n_threads = params.n_threads_batch = n_threads
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"llama.cpp cannot make a context for {path}")
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.n_vocab: int = llama_cpp.llama_vocab_n_tokens(self._vocab)

    def __enter__(self) -> LlamaOracle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def tokenize(self, text: str) -> list[int]:
        """Token ids of ``text``, with the special tokens that the file asks for."""
        raw = text.encode()
        ids = (llama_cpp.llama_token * (len(raw) + 8))()
        count = llama_cpp.llama_tokenize(self._vocab, raw, len(raw), ids, len(ids), True, False)
        if count < 0:
            raise RuntimeError("llama.cpp cannot tokenize the text")
        return list(ids[:count])

    def step(self, token: int, position: int) -> npt.NDArray[np.float32]:
        """Put ``token`` at ``position``, forget later positions, and return its logits."""
        return self.forward([token], position)[0]

    def forward(self, tokens: Sequence[int], position: int = 0) -> npt.NDArray[np.float32]:
        """Put ``tokens`` from ``position`` on, in one batch, and return ``(n, vocab)`` logits."""
        memory = llama_cpp.llama_get_memory(self._context)
        if not llama_cpp.llama_memory_seq_rm(memory, 0, position, -1):
            raise RuntimeError(f"llama.cpp cannot rewind to {position}")
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n_tokens = len(tokens)
            for i, token in enumerate(tokens):
                batch.token[i] = token
                batch.pos[i] = position + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = 0
                batch.logits[i] = 1
            code = llama_cpp.llama_decode(self._context, batch)
        finally:
            llama_cpp.llama_batch_free(batch)
        if code:
            raise RuntimeError(f"llama_decode returned {code} at position {position}")
        rows = [llama_cpp.llama_get_logits_ith(self._context, i) for i in range(len(tokens))]
        return np.stack([np.ctypeslib.as_array(row, shape=(self.n_vocab,)) for row in rows])


@llama_cpp.llama_log_callback
def _QUIET(_level: int, text: bytes, _data: ctypes.c_void_p) -> None:  # noqa: N802
    """Drop llama.cpp's log."""
