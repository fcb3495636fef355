"""A context of llama.cpp: caches of sequences, and forwards over them.

Boundary: the only place that calls the library to compute. Sequences are numbers here, and what a
caller may not ask is written at each method: the library ends the process where it is asked.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

from maglio.engine.llama_cpp import library
from maglio.engine.llama_cpp.model import LlamaModel, Offload
from maglio.engine.llama_cpp.settings import WIDEST, Settings
from maglio.errors import EngineError, ModelFileError, OutOfMemoryError

MAX_OUTPUTS = 32
"""Most rows of logits of a forward. The library's buffer for them has this size from the start, or
from the first such forward on, and does not move."""

PAD = 256
"""Lengths of caches are multiples of this."""

_NO_SLOT, _OUT_OF_MEMORY, _BAD_BATCH = 1, -2, -1


class Context:
    """Memory for sequences, and what computes on it. For one thread at a time.

    Args:
        model: the weights.
        settings: how to compute.
        offload: what runs on GPUs.
        n_cells: positions of all sequences; without shared cells those of each, ``n_sequences``
            times. A multiple of :data:`PAD`.
        n_sequences: most sequences; at most :data:`MAX_OUTPUTS`.
        threads: threads on the CPU.

    Attributes:
        n_batch: most tokens of a forward.
        lock: is held by who computes; without it nothing may be called.

    Raises:
        ModelFileError: the model does not work with these settings, or is not causal.
        OutOfMemoryError: there is no memory for the caches.
    """

    def __init__(
        self,
        model: LlamaModel,
        settings: Settings,
        offload: Offload,
        *,
        n_cells: int,
        n_sequences: int,
        threads: int,
    ) -> None:
        library.start()
        self.model = model  # lives as long
        self.settings = settings
        self.offload = offload
        self.lock = threading.RLock()
        self.n_sequences = n_sequences
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_cells if settings.shared_cells else n_cells * n_sequences
        params.n_batch = min(WIDEST, n_cells)
        params.n_ubatch = min(settings.rows, params.n_batch)
        params.n_seq_max = n_sequences
        params.n_outputs_max = MAX_OUTPUTS  # fewer than there are sequences would be the end
        params.n_threads = params.n_threads_batch = threads  # rows must not know which it was
        params.flash_attn_type = library.FLASH_ATTENTION[settings.flash_attention]
        params.type_k = params.type_v = library.CACHE_TYPES[settings.kv_cache]
        params.offload_kqv = offload.offload_kqv
        params.swa_full = True  # in a smaller cache, going back loses keys without a word
        params.kv_unified = settings.shared_cells
        self._pointer = llama_cpp.llama_init_from_model(model.pointer, params)
        if not self._pointer:
            raise _not_made(model, settings)
        # The model goes after its contexts. At exit a thread may still be computing.
        weakref.finalize(self, _free, self._pointer, self.lock, model).atexit = False
        self._memory = llama_cpp.llama_get_memory(self._pointer)
        if not self._memory or not llama_cpp.llama_get_causal_attn(self._pointer):
            raise ModelFileError(
                f"cannot load {model.path}: its tokens see later ones too; only models that go on "
                "with a text (causal language models) can be used"
            )
        self.n_batch = int(llama_cpp.llama_n_batch(self._pointer))
        self._batch = _Batch(self.n_batch)

    def decode(
        self,
        tokens: npt.NDArray[np.int32],
        positions: npt.NDArray[np.int32],
        sequences: npt.NDArray[np.int32],
        wanted: npt.NDArray[np.bool_],
    ) -> None:
        """Append tokens to sequences.

        There must be from 1 to ``n_batch`` of them, at most :data:`MAX_OUTPUTS` wanted, ids in the
        vocabulary, sequences below ``n_sequences``, and the positions of a sequence those that
        follow what it holds.

        Raises:
            OutOfMemoryError: there are not as many cells, or there is no memory to compute.
            EngineError: the library failed. What the sequences hold is not known.
        """
        library.forget()
        code = int(
            llama_cpp.llama_decode(
                self._pointer, self._batch.filled(tokens, positions, sequences, wanted)
            )
        )
        if code == 0:
            return
        if code == _NO_SLOT:
            raise OutOfMemoryError(
                f"{len(tokens)} more positions do not fit the cache of all streams; end some, or "
                "load the model with more cache_tokens"
            )
        if code == _OUT_OF_MEMORY:
            raise OutOfMemoryError(f"llama.cpp has no memory for a forward: {library.said()}")
        what = "refused a batch" if code == _BAD_BATCH else "failed to compute"
        raise EngineError(f"llama.cpp {what} (status {code}): {library.said()}")

    def logits(self) -> int:
        """The address of the rows of the last forward, in the order of its batch, contiguous.

        Raises:
            EngineError: there are none.
        """
        address = ctypes.cast(llama_cpp.llama_get_logits(self._pointer), ctypes.c_void_p).value
        if not address:
            raise EngineError(f"llama.cpp has computed no logits: {library.said()}")
        return address

    def held(self, sequence: int) -> int:
        """Positions that a sequence holds."""
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def truncate(self, sequence: int, length: int) -> bool:
        """Keep the first positions of a sequence. Whether it could be done; 0 always can."""
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, sequence, length, -1))

    def copy(self, source: int, target: int) -> None:
        """Have a sequence that is empty hold what another one does."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)


class _Batch:
    """The arrays that the library reads a batch from, made once."""

    def __init__(self, size: int) -> None:
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._wanted = np.zeros(size, np.int8)
        self._ones = np.ones(size, np.int32)
        self._ids = np.arange(MAX_OUTPUTS, dtype=np.int32)
        offsets = np.arange(0, self._ids.nbytes, self._ids.itemsize, dtype=np.uint64)
        self._pointer_of = np.uint64(self._ids.ctypes.data) + offsets
        self._id_pointers = np.zeros(size, np.uint64)
        fields = dict(llama_cpp.llama_batch._fields_)
        self._struct = llama_cpp.llama_batch()
        for name, array in (
            ("token", self._tokens),
            ("pos", self._positions),
            ("n_seq_id", self._ones),
            ("seq_id", self._id_pointers),
            ("logits", self._wanted),
        ):
            setattr(self._struct, name, ctypes.cast(array.ctypes.data, fields[name]))

    def filled(
        self,
        tokens: npt.NDArray[np.int32],
        positions: npt.NDArray[np.int32],
        sequences: npt.NDArray[np.int32],
        wanted: npt.NDArray[np.bool_],
    ) -> Any:  # noqa: ANN401 (a structure of ctypes)
        n = len(tokens)
        self._tokens[:n] = tokens
        self._positions[:n] = positions
        self._wanted[:n] = wanted
        self._id_pointers[:n] = self._pointer_of[sequences]
        self._struct.n_tokens = n
        return self._struct


def _not_made(model: LlamaModel, settings: Settings) -> Exception:
    words = library.said()
    if "alloc" in words:
        return OutOfMemoryError(
            f"no memory for the caches of {model.path}; load it with a smaller n_ctx or fewer "
            f"cache_tokens: {words}"
        )
    return ModelFileError(f"llama.cpp cannot run {model.path} with {settings}: {words}")


def _free(pointer: int, lock: threading.RLock, model: LlamaModel) -> None:
    """Free it, unless another thread computes with it; ``model`` is only held until then."""
    del model
    if lock.acquire(blocking=False):
        try:
            llama_cpp.llama_free(pointer)
        finally:
            lock.release()
