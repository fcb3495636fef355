"""``maglio batch``: a file of requests in, a file of results out.

The extra ``server`` is imported when the command runs, and not before.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from maglio.cli.batch_progress import shown_progress, summary
from maglio.cli.drafting_options import DraftingOptions
from maglio.cli.interrupts import Terminated, terminate_once
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import (
    DRAFTING,
    ChatTemplateOption,
    MaxTokensOption,
    TemplateVariablesOption,
)
from maglio.cli.served_settings import served_settings
from maglio.cli.serving_options import ServedModel, ServedSampling, StreamsOptions
from maglio.cli.streams import note
from maglio.server.extra import check_extra

if TYPE_CHECKING:
    from maglio.server.batch.progress import BatchProgress

_STREAM = Path("-")


@with_option_groups
def batch(
    *,
    requests: Annotated[
        Path,
        typer.Argument(
            help="JSON lines in the form of OpenAI's batches; -: standard input.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Where results go, a line each; -: standard output. Requests that have a result "
            "in this file already are not run again.",
        ),
    ],
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Remove results that are errors, and run their requests again.",
        ),
    ] = False,
    loading: ServedModel,
    streams: StreamsOptions,
    max_tokens: MaxTokensOption = -1,
    chat_template: ChatTemplateOption = None,
    variables: TemplateVariablesOption = None,
    sampling: ServedSampling,
    drafting: DraftingOptions,
    history: Annotated[
        bool,
        typer.Option(
            "--history/--no-history",
            help="Draft from earlier answers too.",
            rich_help_panel=DRAFTING,
        ),
    ] = True,
) -> None:
    """Answer a file of requests, many at a time."""
    check_extra("maglio batch")
    from maglio.server.batch.job import Batch
    from maglio.server.settings import ANY_NAME
    from maglio.server.streams.service import MOST, Service

    to_stdout = output == _STREAM
    source, target = _stream(requests, sys.stdin.buffer), _stream(output, sys.stdout.buffer)
    with Batch(source, target, retry_failed=retry_failed) as job:
        begun = job.progress
        if not begun.left:
            _end(begun)
            return
        if begun.done:
            note(f"maglio: {begun.done} of {begun.requests} requests have a result already")
        model = loading.load()
        settings = served_settings(
            model,
            names=(ANY_NAME,),
            max_tokens=max_tokens,
            chat_template=chat_template,
            variables=variables,
            sampling=sampling,
            speculation=drafting.speculation(history),
            references=drafting.reference or (),
        )
        prefixes = streams.prefixes(model)
        service = Service(model, parallel=streams.parallel, queue=MOST, prefixes=prefixes)
        try:
            with terminate_once(), shown_progress(quiet=to_stdout) as show:
                end = job.run(service, settings, on_progress=show)
        except KeyboardInterrupt as interrupt:
            _say_rest(job.progress, can_go_on=not to_stdout)
            by = signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
            raise typer.Exit(128 + by) from None
        finally:
            service.close()
    _end(end)


def _stream(path: Path, stream: BinaryIO) -> Path | BinaryIO:
    return stream if path == _STREAM else path


def _say_rest(progress: BatchProgress, *, can_go_on: bool) -> None:
    how = "; the same command goes on with the others" if can_go_on else ""
    note(f"maglio: {progress.done} of {progress.requests} requests have a result{how}")


def _end(progress: BatchProgress) -> None:
    note(summary(progress))
    if progress.failed:
        raise typer.Exit(1)
