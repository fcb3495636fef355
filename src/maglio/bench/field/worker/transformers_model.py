"""The transformers library's ``generate`` in float32 on the CPU, plainly or with prompt lookup."""

from __future__ import annotations

import time
from typing import Any

import torch
import transformers

from .message import Answer, Request, Setup, counted


def open_contestant(setup: Setup) -> TransformersModel:
    """Load the model."""
    return TransformersModel(setup)


def read_checkpoint(folder: str) -> Any:  # noqa: ANN401  # a class per architecture
    """The model in a folder, its weights as float32 numbers."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True
    ).eval()


class TransformersModel:
    """A model. The settings are arguments of ``generate``."""

    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.threads)
        self._settings = dict(setup.settings)
        self._model = read_checkpoint(setup.checkpoint)

    def answer(self, request: Request) -> Answer:
        """Answer one prompt."""
        if request.schema is not None:
            raise ValueError("the library has no decoding under a schema")
        torch.manual_seed(request.seed)
        how: dict[str, Any] = {"do_sample": False}
        if request.temperature > 0:
            how = {"do_sample": True, "temperature": request.temperature, "top_k": 0, "top_p": 1.0}
        clock = _Clock()
        widths: list[int] = []

        def note(_model: object, _args: object, named: dict[str, Any], _output: object) -> None:
            widths.append(int(named["input_ids"].shape[1]))

        ids = torch.tensor([list(request.prompt)])
        hook = self._model.register_forward_hook(note, with_kwargs=True)
        try:
            found = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.max_tokens,
                eos_token_id=list(request.ends) or None,
                pad_token_id=next(iter(request.ends), 0),
                streamer=clock,
                **how,
                **self._settings,
            )
        finally:
            hook.remove()
        tokens = found[0, ids.shape[1] :].tolist()
        return Answer(
            tokens=tokens,
            first_token_s=clock.times[1] - clock.times[0],
            decode_s=clock.times[-1] - clock.times[1],
            **counted(tokens, widths, len(request.prompt)),
        )


class _Clock:
    """A streamer that keeps the times: when ``generate`` began, then of all tokens it gave."""

    def __init__(self) -> None:
        self.times = [time.perf_counter()]
        self._prompt_seen = False

    def put(self, _tokens: object) -> None:
        """Tokens have come; the first time, those of the prompt."""
        if self._prompt_seen:
            self.times.append(time.perf_counter())
        self._prompt_seen = True

    def end(self) -> None:
        """All have come."""
