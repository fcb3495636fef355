"""``maglio serve``: an OpenAI-compatible server over a model.

The extra ``server`` is imported when the command runs, and not before.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated

import typer

import maglio
from maglio.cli.drafting_options import DraftingOptions
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import (
    DRAFTING,
    ChatTemplateOption,
    MaxTokensOption,
    TemplateVariablesOption,
    template_variables,
    token_limit,
)
from maglio.cli.sampling_options import RANDOM_SEED
from maglio.cli.serving_options import (
    AccessOptions,
    ServedModel,
    ServedSampling,
    ServingOptions,
)
from maglio.cli.streams import note
from maglio.errors import MaglioError
from maglio.machine import available_memory
from maglio.references import index_reference

if TYPE_CHECKING:
    import socket

    from maglio.prefix_cache import PrefixCache
    from maglio.server.settings import Settings

_EXTRA = frozenset({"starlette", "uvicorn", "pydantic", "prometheus_client", "anyio"})


@with_option_groups
def serve(
    *,
    loading: ServedModel,
    serving: ServingOptions,
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
    _check_extra()
    from maglio.server.app import create_app
    from maglio.server.auth import Keys
    from maglio.server.origin import Origins
    from maglio.server.request_log import RequestLog
    from maglio.server.service import Service
    from maglio.server.serving import Server, is_private, open_socket
    from maglio.server.serving import serve as run
    from maglio.server.settings import Settings

    keys = Keys(access.keys())
    bound = open_socket(serving.host, serving.port)
    hosts = [serving.host, *(access.allow_host or ())] if is_private(bound) else None
    origins = Origins(access.cors or (), hosts)
    model = loading.load()
    if chat_template is not None:
        model.chat_template.check_name(chat_template)
    settings = Settings(
        names=(model.name.removesuffix(".gguf"), *(serving.alias or ())),
        sampling=sampling.params(model.tokenizer),
        seed=None if sampling.seed == RANDOM_SEED else sampling.seed,
        speculation=drafting.speculation(history),
        references=tuple(
            index_reference(path, model.tokenizer) for path in drafting.reference or ()
        ),
        chat_template=chat_template,
        template_variables=template_variables(variables),
        max_tokens=token_limit(max_tokens),
        keys=keys,
        origins=origins,
    )
    service = Service(
        model,
        parallel=serving.parallel,
        queue=serving.queue,
        prefixes=_prefixes(model, serving),
    )
    app = create_app(service, settings, RequestLog(serving.log_format))
    server = Server(app, service, grace=serving.grace, on_stop=lambda: _say_stop(serving.grace))
    _say_start(bound, settings, is_private=is_private(bound))
    if run(server, bound) == signal.SIGINT:
        raise typer.Exit(130)


def _check_extra() -> None:
    try:
        import maglio.server.app
        import maglio.server.serving  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise MaglioError(
            f"maglio serve needs the package {error.name}, which is not installed: "
            'pip install "maglio[server]"'
        ) from None


def _prefixes(model: maglio.Model, serving: ServingOptions) -> PrefixCache | None:
    from maglio.prefix_cache import PrefixCache

    size = serving.prefix_bytes(available_memory())
    if size == 0:
        return None
    return PrefixCache(model.engine, max_bytes=size, shared=serving.share_prefixes)


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


def _say_stop(grace: float) -> None:
    note(f"maglio: answers under way get {grace:g} seconds; a second signal ends at once")
