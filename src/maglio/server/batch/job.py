"""A batch: its requests, its results, and the run that makes one of the other.

Boundary: which lines are run, how many at a time, and what becomes of their answers. It answers
nothing itself, and shows nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import BinaryIO

import anyio
from anyio.from_thread import start_blocking_portal
from starlette.types import ASGIApp

from maglio.errors import BatchFileError
from maglio.server.app import create_app
from maglio.server.batch.local import Answer, post
from maglio.server.batch.progress import BatchProgress
from maglio.server.batch.requests import BatchRequest, RequestFile
from maglio.server.batch.results import ResultFile, Results, ResultStream
from maglio.server.errors import ApiError
from maglio.server.fingerprint import system_fingerprint
from maglio.server.http.event_stream import compact
from maglio.server.settings import Settings
from maglio.server.streams.service import Service, ServiceStats
from maglio.server.telemetry.record import Record
from maglio.server.telemetry.request_log import RequestLog

_TICK_S = 0.5
_OK, _UNAVAILABLE = 200, 503


class Batch:
    """A batch. A context manager; leaving it closes the files.

    Args:
        requests: the file of requests, or a binary stream of them.
        results: the file of results, or a binary stream for them.
        retry_failed: remove results that are errors, so that their requests run again.

    Raises:
        BatchFileError: a line is not a request, or the results are not of these requests.
    """

    def __init__(
        self,
        requests: Path | BinaryIO,
        results: Path | BinaryIO,
        *,
        retry_failed: bool = False,
    ) -> None:
        if isinstance(requests, Path) and isinstance(results, Path):
            _check_differ(requests, results)
        self._requests = RequestFile(requests)
        try:
            self._ids = self._requests.check()
            self._results = self._opened(results, retry_failed=retry_failed)
        except BaseException:
            self._requests.close()
            raise
        earlier = len(self._results.done)
        self._begun = BatchProgress(
            requests=len(self._ids), done=earlier, failed=self._results.failed, earlier=earlier
        )

    def _opened(self, results: Path | BinaryIO, *, retry_failed: bool) -> Results:
        if isinstance(results, Path):
            name = self._requests.name
            return ResultFile(results, self._ids, name, retry_failed=retry_failed)
        return ResultStream(results)

    @property
    def progress(self) -> BatchProgress:
        """How far it is, as files go."""
        return replace(self._begun, done=len(self._results.done), failed=self._results.failed)

    def run(
        self,
        service: Service,
        settings: Settings,
        *,
        on_progress: Callable[[BatchProgress], None] | None = None,
    ) -> BatchProgress:
        """Answer every request that has no result yet.

        Args:
            service: generates. Its queue must hold what twice its parallel requests can ask for.
            settings: how requests are answered.
            on_progress: hears how far it is about twice a second, in this thread.

        Raises:
            BatchFileError: the files cannot be read or written any longer.
            KeyboardInterrupt: as it came; what was under way has no result.
        """
        self._warn_of_another(system_fingerprint(service.model))
        began, before = monotonic(), service.stats

        def progress() -> BatchProgress:
            seconds = monotonic() - began
            return _counted(self.progress, before, service.stats, seconds)

        app = create_app(service, settings, RequestLog("off", sys.stderr))
        run = _Run(app, self._requests, self._ids, self._results, 2 * service.parallel)
        with start_blocking_portal("asyncio", {"use_uvloop": True}) as portal:
            future = portal.start_task_soon(run.all)
            try:
                while not future.done():
                    wait([future], timeout=_TICK_S)
                    self._results.sync()
                    if on_progress is not None:
                        on_progress(progress())
                future.result()
            finally:
                future.cancel()
        return progress()

    def close(self) -> None:
        """Close the files."""
        try:
            self._results.close()
        finally:
            self._requests.close()

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _warn_of_another(self, fingerprint: str) -> None:
        earlier = self._results.fingerprint
        if earlier is not None and earlier != fingerprint:
            warnings.warn(
                "the results so far are of another model, version, instruction set or KV cache "
                f"({earlier:.40}); those to come are of {fingerprint}",
                stacklevel=3,
            )


class _Run:
    """One run: several lines are asked at a time, so that every place is always taken.

    Args:
        app: answers.
        requests: all lines.
        ids: what they were when they were checked.
        results: takes the answers.
        width: how many lines are asked at a time.
    """

    def __init__(
        self,
        app: ASGIApp,
        requests: RequestFile,
        ids: dict[str, str],
        results: Results,
        width: int,
    ) -> None:
        self._app = app
        self._requests = requests
        self._ids = ids
        self._results = results
        self._width = width
        self._postponed: list[BatchRequest] = []
        self._error: Exception | None = None

    async def all(self) -> None:
        """Answer all that have no result."""
        pending = self._pending()
        async with anyio.create_task_group() as group:
            for _ in range(self._width):
                group.start_soon(self._work, pending, group.cancel_scope)
        if self._error is not None:
            raise self._error
        for request in self._postponed:
            again = self._checked(self._requests.again(request))
            self._write(again, await self._answer(again))

    def _pending(self) -> Iterator[BatchRequest]:
        for request in self._requests:
            if self._checked(request).custom_id not in self._results.done:
                yield request

    async def _work(self, pending: Iterator[BatchRequest], scope: anyio.CancelScope) -> None:
        try:
            for request in pending:
                answer = await self._answer(request)
                if answer.status == _UNAVAILABLE:  # memory is short: alone it may have enough
                    self._postponed.append(replace(request, body=None))
                else:
                    self._write(request, answer)
        except Exception as error:
            self._error = self._error or error
            scope.cancel()

    async def _answer(self, request: BatchRequest) -> Answer:
        if request.body is None:
            return await post(self._app, request.url, b"", size=request.size)
        if isinstance(request.body, dict) and request.body.get("stream"):
            return _refused(request)
        return await post(self._app, request.url, compact(request.body).encode())

    def _write(self, request: BatchRequest, answer: Answer) -> None:
        names = compact({"id": request.id, "custom_id": request.custom_id})[:-1]
        head = compact({"status_code": answer.status, "request_id": answer.request_id})[:-1]
        line = f'{names},"response":{head},"body":'.encode() + answer.body + b'},"error":null}\n'
        self._results.write(request.custom_id, line, failed=answer.status != _OK)

    def _checked(self, request: BatchRequest) -> BatchRequest:
        if self._ids.get(request.custom_id) != request.id:
            raise BatchFileError(
                f"{self._requests.name} was changed while it was read (line {request.number})"
            )
        return request


def _check_differ(requests: Path, results: Path) -> None:
    with suppress(OSError):  # what is not there is another file
        if results.samefile(requests):
            raise BatchFileError(
                f"{results} is the file of requests; write the results to another file"
            )


def _refused(request: BatchRequest) -> Answer:
    error = ApiError(
        "stream is not supported in a batch: a result is whole; leave it out",
        param="stream",
        code="unsupported_parameter",
    )
    return Answer(error.status, Record("POST", request.url).id, compact(error.document).encode())


def _counted(
    files: BatchProgress, before: ServiceStats, now: ServiceStats, seconds: float
) -> BatchProgress:
    return replace(
        files,
        running=now.running,
        prompt_tokens=now.prompt_tokens - before.prompt_tokens,
        cached_tokens=now.cached_tokens - before.cached_tokens,
        tokens=now.tokens - before.tokens,
        drafted=now.drafted - before.drafted,
        accepted=now.accepted - before.accepted,
        seconds=seconds,
    )
