"""vLLM itself, with a way to draft, on a CPU: engines for tests and benchmarks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maglio.integrations.vllm import Proposer

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

from vllm import LLM, SamplingParams

PROPOSER = "maglio.integrations.vllm.Proposer"


class Drafts(NamedTuple):
    """What was drafted since an engine began."""

    drafted: int
    accepted: int

    def since(self, earlier: Drafts) -> Drafts:
        return Drafts(self.drafted - earlier.drafted, self.accepted - earlier.accepted)


class Engine:
    """An engine of vLLM.

    ``drafting`` is its ``speculative_config``; ``maglio`` are our own options.
    """

    def __init__(
        self,
        folder: Path,
        drafting: dict[str, Any] | None = None,
        *,
        maglio: dict[str, Any] | None = None,
        context: int = 256,
        requests: int = 8,
        **options: Any,
    ) -> None:
        self.llm = LLM(
            str(folder),
            speculative_config=drafting,
            additional_config={} if maglio is None else {"maglio": maglio},
            max_model_len=context,
            max_num_seqs=requests,
            enable_prefix_caching=False,
            disable_log_stats=False,
            **{"dtype": "float32", "enforce_eager": True, **options},
        )

    def generate(
        self, prompts: Iterable[Sequence[int]], n: int, **sampling: Any
    ) -> list[list[int]]:
        """The tokens that are generated after each prompt, all at a time."""
        outputs = self.llm.generate(
            [{"prompt_token_ids": [*prompt]} for prompt in prompts],
            SamplingParams(max_tokens=n, **{"temperature": 0.0, **sampling}),
            use_tqdm=False,
        )
        return [[*output.outputs[0].token_ids] for output in outputs]

    @property
    def drafts(self) -> Drafts:
        """What was drafted so far, as vLLM counts it.

        Its public counts are those of the engine that was made last in a process.
        """
        loggers = self.llm.llm_engine.logger_manager.stat_loggers
        [counts] = [x.spec_decoding_prom for x in loggers if hasattr(x, "spec_decoding_prom")]
        return Drafts(
            *(
                sum(int(counter._value.get()) for counter in getattr(counts, name, {}).values())
                for name in (
                    "counter_spec_decode_num_draft_tokens",
                    "counter_spec_decode_num_accepted_tokens",
                )
            )
        )

    def close(self) -> None:
        """End its processes."""
        self.llm.llm_engine.engine_core.shutdown()


def ours(n_drafts: int = 8, proposer: str = PROPOSER) -> dict[str, Any]:
    """The speculative configuration for drafts of ours."""
    return {"method": "custom_class", "model": proposer, "num_speculative_tokens": n_drafts}


class Crashing(Proposer):
    """Breaks, wherever an error can come from, after a few calls."""

    def _propose(self, *args: Any) -> None:
        self._calls = getattr(self, "_calls", 0) + 1
        if self._calls > 4:
            raise RuntimeError("broken on purpose")
        super()._propose(*args)


class Telling(Proposer):
    """Writes what it knows of requests into the file that ``MAGLIO_TEST_TELLING`` names."""

    def propose(self, *args: Any, **options: Any) -> list[list[int]]:
        drafts = super().propose(*args, **options)
        ids = [] if self._ids is None else [*self._ids()]
        with open(os.environ["MAGLIO_TEST_TELLING"], "a") as file:
            print(len(drafts), len(self._ledger), len(ids), file=file)
        return drafts
