"""A worker of vLLM that tells the draft source which request is in which row, and which has ended.

    vllm serve MODEL --worker-cls maglio.integrations.vllm.worker.Worker --speculative-config …

Boundary: passes on what vLLM's own worker knows. Imports vLLM.
"""

from __future__ import annotations

from typing import Any

from maglio.errors import MaglioError
from maglio.integrations.vllm.proposer import Proposer

try:
    from vllm.platforms import current_platform
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "vllm":
        raise
    raise MaglioError(
        "maglio.integrations.vllm.worker needs the package vllm, which is not installed: pip "
        'install "maglio[vllm]"'
    ) from None

if current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as Base
else:
    from vllm.v1.worker.gpu_worker import Worker as Base


class Worker(Base):  # type: ignore[misc]
    """vLLM's worker for the device at hand, with ids for :class:`Proposer`."""

    def init_device(self) -> None:
        """Make the model runner, and tell its draft source where ids are."""
        super().init_device()
        proposer = self._proposer()
        if proposer is not None:
            runner = self.model_runner
            proposer.follow_ids(lambda: runner.input_batch.req_ids)

    def execute_model(self, scheduler_output: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """Run a step; requests that ended before it are forgotten first."""
        proposer = self._proposer()
        if proposer is not None and scheduler_output.finished_req_ids:
            proposer.end(scheduler_output.finished_req_ids)
        return super().execute_model(scheduler_output, *args, **options)

    def _proposer(self) -> Proposer | None:
        """The draft source; only the last stage of a pipeline has one."""
        drafter = getattr(self.model_runner, "drafter", None)
        return drafter if isinstance(drafter, Proposer) else None
