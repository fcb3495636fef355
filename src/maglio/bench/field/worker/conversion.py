"""Writes the weights of a GGUF file as a checkpoint of the transformers library, in float32.

The library reads GGUF files too, but slowly, and holds them in memory twice meanwhile. Contestants
that run it would all do so, and their peaks of memory would be that.
"""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from .message import Answer, Request, Setup


def open_contestant(setup: Setup) -> Conversion:
    """Convert ``setup.model`` into the folder ``setup.checkpoint``."""
    return Conversion(setup)


class Conversion:
    """A conversion, which is done when it is made. It answers nothing."""

    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.threads)
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        file = Path(setup.model)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            dtype=torch.float32,
            local_files_only=True,
            quantization_config=transformers.GgufConfig(dequantize=True),
        )
        quantizer = getattr(model, "hf_quantizer", None)
        if (
            quantizer is not None
        ):  # it has nothing to say about numbers any more, but forbids saving
            quantizer.remove_quantization_config(model)
        model.save_pretrained(setup.checkpoint)

    def answer(self, request: Request) -> Answer:
        """Raise :class:`NotImplementedError`."""
        raise NotImplementedError("a conversion answers nothing")
