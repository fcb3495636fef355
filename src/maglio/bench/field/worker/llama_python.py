"""llama.cpp driven from Python by ``llama-cpp-python``, plainly or with its prompt lookup."""

from __future__ import annotations

import json
import time

from llama_cpp import Llama, LlamaGrammar
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from .message import Answer, Request, Setup, counted


def open_contestant(setup: Setup) -> LlamaPython:
    """Load the model."""
    return LlamaPython(setup)


class LlamaPython:
    """A ``Llama``. The settings are those of ``LlamaPromptLookupDecoding``."""

    def __init__(self, setup: Setup) -> None:
        drafts = None if setup.method == "plain" else LlamaPromptLookupDecoding(**setup.settings)
        self._llama = Llama(
            setup.model,
            n_ctx=setup.n_ctx,
            n_threads=setup.threads,
            n_threads_batch=setup.threads,
            draft_model=drafts,
            verbose=False,
        )

    def answer(self, request: Request) -> Answer:
        """Answer one prompt, which is computed anew each time."""
        grammar = None
        if request.schema is not None:
            grammar = LlamaGrammar.from_json_schema(json.dumps(request.schema), verbose=False)
        llama = self._llama
        widths: list[int] = []
        tokens: list[int] = []
        llama.reset()
        llama.set_seed(request.seed)
        evaluate = llama.eval

        def eval_and_count(rows: list[int]) -> None:
            widths.append(len(rows))
            evaluate(rows)

        llama.eval = eval_and_count
        try:
            begin = first = last = time.perf_counter()
            stream = llama.generate(
                list(request.prompt),
                temp=request.temperature,
                top_k=0,
                top_p=1.0,
                min_p=0.0,
                typical_p=1.0,
                repeat_penalty=1.0,
                grammar=grammar,
            )
            for token in stream:
                last = time.perf_counter()
                if not tokens:
                    first = last
                tokens.append(int(token))
                if token in request.ends or len(tokens) >= request.max_tokens:
                    break
        finally:
            llama.eval = evaluate
        return Answer(
            tokens=tokens,
            first_token_s=first - begin,
            decode_s=last - first,
            **counted(tokens, widths, len(request.prompt)),
        )
