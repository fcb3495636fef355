"""A model that llama.cpp has loaded.

Boundary: loads weights, and says what they are. Computes nothing.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import llama_cpp

from maglio.checks import check_choice, check_int, check_real
from maglio.engine.llama_cpp import library
from maglio.errors import InvalidArgumentError, ModelFileError

_MOST_LAYERS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """What runs on GPUs. Every option is one of llama.cpp's own.

    Attributes:
        n_gpu_layers: layers whose weights are there; -1 for all, ``None`` for its default.
        main_gpu: the GPU in use, for ``split_mode="none"``.
        split_mode: how several GPUs share a model: ``none``, ``layer``, ``row`` or ``tensor``.
        tensor_split: the share of each GPU; as llama.cpp thinks best when empty.
        offload_kqv: the KV cache is on the GPU too.

    Raises:
        InvalidArgumentError: an option is out of range, or this build uses no GPU.
    """

    n_gpu_layers: int | None = None
    main_gpu: int = 0
    split_mode: str = "layer"
    tensor_split: Sequence[float] = ()
    offload_kqv: bool = True

    def __post_init__(self) -> None:
        devices = int(llama_cpp.llama_max_devices())
        check_int("main_gpu", self.main_gpu, 0, devices - 1)
        check_choice("split_mode", self.split_mode, tuple(library.SPLIT_MODES))
        check_choice("offload_kqv", self.offload_kqv, (True, False))
        for index, share in enumerate(self.tensor_split):
            check_real(f"tensor_split[{index}]", share, 0.0, 1e6)
        if len(self.tensor_split) > devices or (self.tensor_split and not any(self.tensor_split)):
            raise InvalidArgumentError(
                f"tensor_split is {list(self.tensor_split)!r:.80}, must have from 1 to {devices} "
                "shares, not all of them 0"
            )
        if self.n_gpu_layers is not None:
            check_int("n_gpu_layers", self.n_gpu_layers, -1, _MOST_LAYERS)
            if self.n_gpu_layers != 0 and not llama_cpp.llama_supports_gpu_offload():
                raise InvalidArgumentError(
                    f"n_gpu_layers is {self.n_gpu_layers}, and the installed llama-cpp-python uses "
                    "no GPU; install one that was built for it, or leave the option out"
                )

    @property
    def is_cpu(self) -> bool:
        """Whether everything is on the CPU."""
        return self.n_gpu_layers == 0 or not llama_cpp.llama_supports_gpu_offload()


class LlamaModel:
    """Weights, and what llama.cpp knows about them.

    Args:
        path: a GGUF file that Maglio's own reader found sound; of a split model its first part.
        offload: what runs on GPUs.
        repacked: arrange weights anew for the processor.
        on_load: is called now and then with the fraction done. An exception in it ends loading.

    Attributes:
        pointer: of the library.
        path: the file.

    Raises:
        ModelFileError: llama.cpp cannot load it, or it is not a causal language model.
    """

    def __init__(
        self,
        path: Path,
        offload: Offload,
        *,
        repacked: bool,
        on_load: Callable[[float], object] | None = None,
    ) -> None:
        library.start()
        raised: list[BaseException] = []

        def progress(fraction: float, _data: ctypes.c_void_p) -> bool:
            try:
                if on_load is not None:
                    on_load(fraction)
            except BaseException as error:  # it is raised again when the library has returned
                raised.append(error)
            return not raised

        params = llama_cpp.llama_model_default_params()
        callback = llama_cpp.llama_progress_callback(progress)
        params.progress_callback = callback
        params.use_extra_bufts = repacked
        if offload.n_gpu_layers is not None:
            params.n_gpu_layers = offload.n_gpu_layers
        params.main_gpu = offload.main_gpu
        params.split_mode = library.SPLIT_MODES[offload.split_mode]
        shares = (ctypes.c_float * int(llama_cpp.llama_max_devices()))(*offload.tensor_split)
        if offload.tensor_split:
            params.tensor_split = shares
        self.path = path
        self.pointer = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        if raised:
            raise raised[0]
        if not self.pointer:
            raise ModelFileError(f"cannot load {path} with llama.cpp: {library.said()}")
        weakref.finalize(self, llama_cpp.llama_model_free, self.pointer).atexit = False
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.pointer)
        self._check()

    @property
    def n_vocab(self) -> int:
        """Number of token ids."""
        return int(llama_cpp.llama_vocab_n_tokens(self.vocabulary))

    @property
    def n_ctx_train(self) -> int:
        """Positions that it was trained for."""
        return int(llama_cpp.llama_model_n_ctx_train(self.pointer))

    @property
    def has_states(self) -> bool:
        """Whether some of its layers are recurrent: a state takes position after position."""
        return bool(
            llama_cpp.llama_model_is_recurrent(self.pointer)
            or llama_cpp.llama_model_is_hybrid(self.pointer)
        )

    @property
    def position_values(self) -> int:
        """About how many numbers a position has in the cache, or more; 0 with states alone."""
        if llama_cpp.llama_model_is_recurrent(self.pointer):
            return 0
        heads = int(llama_cpp.llama_model_n_head(self.pointer))
        widths = int(llama_cpp.llama_model_n_embd(self.pointer)) // max(1, heads)
        n_kv = int(llama_cpp.llama_model_n_head_kv(self.pointer))
        return 2 * int(llama_cpp.llama_model_n_layer(self.pointer)) * n_kv * widths

    def _check(self) -> None:
        pointer = self.pointer
        wrong = ""
        if llama_cpp.llama_model_has_encoder(pointer):
            wrong = "it has an encoder"
        elif not llama_cpp.llama_model_has_decoder(pointer):
            wrong = "it has no decoder"
        elif llama_cpp.llama_model_is_diffusion(pointer):
            wrong = "it generates by diffusion"
        if wrong:
            raise ModelFileError(
                f"cannot load {self.path}: {wrong}; only models that go on with a text (causal "
                "language models) can be used"
            )
