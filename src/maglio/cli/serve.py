"""``maglio serve``: an OpenAI-compatible server over a model.

The extra ``server`` is imported when the command runs, and not before.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maglio.cli.drafting_options import DraftingOptions
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import (
    DRAFTING,
    ChatTemplateOption,
    MaxTokensOption,
    TemplateVariablesOption,
)
from maglio.cli.served_settings import served_settings
from maglio.cli.serving_options import (
    AccessOptions,
    ServedModel,
    ServedSampling,
    ServingOptions,
    StreamsOptions,
)
from maglio.cli.streams import note
from maglio.errors import InvalidArgumentError
from maglio.prefix_cache import PrefixCache
from maglio.server.extra import check_extra

if TYPE_CHECKING:
    import socket

    from maglio.server.settings import Settings

_LAST_LINES_S = 1.0
"""How long the end waits for a standard error that takes nothing."""


@with_option_groups
def serve(
    *,
    loading: ServedModel,
    serving: ServingOptions,
    streams: StreamsOptions,
    access: AccessOptions,
    max_tokens: MaxTokensOption = -1,
    chat_template: ChatTemplateOption = None,
    variables: TemplateVariablesOption = None,
    sampling: ServedSampling,
    drafting: DraftingOptions,
    history: Annotated[
        bool,
        typer.Option(
            "--history/--no-history",
            help="Draft from earlier answers to the same API key too.",
            rich_help_panel=DRAFTING,
        ),
    ] = True,
) -> None:
    """Serve a model to clients of OpenAI's API."""
    check_extra("maglio serve")
    from maglio.server.access.auth import Keys
    from maglio.server.access.origin import Origins
    from maglio.server.allocator import return_large_blocks
    from maglio.server.app import create_app
    from maglio.server.serving import Server, is_private, open_socket
    from maglio.server.serving import serve as run
    from maglio.server.streams.service import Service
    from maglio.server.telemetry.log_writer import LogWriter, catching
    from maglio.server.telemetry.request_log import RequestLog

    if serving.cache_dir is not None and streams.prefix_cache == 0:
        raise InvalidArgumentError(
            "give either --cache-dir or --prefix-cache 0, which keeps nothing"
        )
    return_large_blocks()
    keys = Keys(access.keys())
    with open_socket(serving.host, serving.port) as bound:
        private = is_private(bound)
        names = [serving.host, *(access.allow_host or ())]
        origins = Origins(access.cors or (), names if private else None)
        model = loading.load()
        settings = served_settings(
            model,
            names=serving.alias or (),
            called=loading.names(),
            max_tokens=max_tokens,
            chat_template=chat_template,
            variables=variables,
            sampling=sampling,
            speculation=drafting.speculation(history),
            references=drafting.reference or (),
            keys=keys,
            origins=origins,
        )
        prefixes = streams.prefixes(model, shared=serving.share_prefixes)
        service = Service(model, parallel=streams.parallel, queue=serving.queue, prefixes=prefixes)
        log = LogWriter()
        app = create_app(service, settings, RequestLog(serving.log_format, log))
        server = Server(
            app,
            service,
            grace=serving.grace,
            on_start=lambda: _say_start(bound, settings, is_private=private),
            on_stop=lambda: log.write(_stopping(serving.grace)),
        )
        with _kept(prefixes, serving.cache_dir):
            with catching(log):
                stopped_by = run(server, bound)
            log.close(within=_LAST_LINES_S)
    if stopped_by == signal.SIGINT:
        raise typer.Exit(130)


@contextmanager
def _kept(prefixes: PrefixCache | None, folder: Path | None) -> Iterator[None]:
    """Begin with the prefix cache in a folder, and leave it there in the end."""
    if folder is None or prefixes is None:
        yield
        return
    prefixes.load(folder)
    yield
    if not prefixes.save(folder):
        note("maglio: warning: caches of this engine cannot be kept in --cache-dir")


def _say_start(bound: socket.socket, settings: Settings, *, is_private: bool) -> None:
    from maglio.server.serving import url_of

    url = url_of(bound)
    key = ' -H "Authorization: Bearer $MAGLIO_API_KEY"' if settings.keys else ""
    note(f"maglio: {settings.names[0]} is served at {url}/v1; Ctrl-C ends it. Try:")
    note(
        f"  curl {url}/v1/chat/completions{key} -H 'Content-Type: application/json' "
        '-d \'{"messages": [{"role": "user", "content": "Hello"}]}\''
    )
    if not is_private and not settings.keys:
        note(
            "maglio: warning: everybody who can reach this machine may use it; --api-key asks "
            "for a key"
        )


def _stopping(grace: float) -> str:
    return f"maglio: answers under way get {grace:g} seconds; a second signal ends at once\n"
