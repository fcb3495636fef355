"""Where a server listens, who may use it, and how much it does at a time: options.

Boundary: options and their values; imports nothing of the extra ``server``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

import maglio
from maglio.cli.model_options import ModelOptions
from maglio.cli.options import SAMPLING
from maglio.cli.sampling_options import SamplingOptions
from maglio.cli.text_options import read_bytes
from maglio.errors import InvalidArgumentError
from maglio.prefix_cache import PrefixCache, default_prefix_bytes

LISTENING = "Server"
ACCESS = "Access"
STREAMS = "Many at a time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel(ModelOptions):
    """The model; its context is whole where nothing is said, since memory is taken as needed."""

    n_ctx: Annotated[
        int,
        typer.Option(
            "--ctx-size",
            "-c",
            "--n-ctx",
            help="Longest conversation in tokens; 0: all that the model was trained for.",
            min=0,
        ),
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSampling(SamplingOptions):
    """What requests leave out: as OpenAI has it, where nothing is said."""

    temperature: Annotated[
        float,
        typer.Option(
            "--temp",
            "--temperature",
            help="Of requests that do not say; 0 is greedy.",
            rich_help_panel=SAMPLING,
        ),
    ] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsOptions:
    """Many answers at a time."""

    parallel: Annotated[
        int,
        typer.Option(
            "--parallel",
            "-np",
            help="Most answers at a time; they share forwards.",
            min=1,
            max=1024,
            rich_help_panel=STREAMS,
        ),
    ] = 16
    prefix_cache: Annotated[
        int | None,
        typer.Option(
            "--prefix-cache",
            "--cache-ram",
            "-cram",
            metavar="MIB",
            help="Memory for beginnings of prompts that were read before, which are then not read "
            "again; 0: none. Default: a quarter of what is available.",
            min=0,
            rich_help_panel=STREAMS,
            show_default=False,
        ),
    ] = None

    def prefixes(self, model: maglio.Model, *, shared: bool = False) -> PrefixCache | None:
        """The prefix cache, if there is to be one."""
        size = self.prefix_cache
        n_bytes = default_prefix_bytes() if size is None else size << 20
        return PrefixCache(model.engine, max_bytes=n_bytes, shared=shared) if n_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """Where to listen, and for whom."""

    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="Address to listen on; 0.0.0.0: that of every network.",
            rich_help_panel=LISTENING,
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        typer.Option(
            "--port",
            help="Port to listen on; 0: a free one.",
            min=0,
            max=65535,
            rich_help_panel=LISTENING,
        ),
    ] = 8080
    alias: Annotated[
        list[str] | None,
        typer.Option(
            "--alias",
            "-a",
            metavar="NAME",
            help="Another name of the model; 'claude-*' stands for all that begin so. Repeatable.",
            rich_help_panel=LISTENING,
            show_default=False,
        ),
    ] = None
    queue: Annotated[
        int,
        typer.Option(
            "--queue",
            help="Most requests that wait for a place; more get status 503.",
            min=0,
            max=65536,
            rich_help_panel=LISTENING,
        ),
    ] = 256
    cache_dir: Annotated[
        Path | None,
        typer.Option(
            "--cache-dir",
            metavar="FOLDER",
            help="Keep the prefix cache here when the server ends, and begin with it the next "
            "time. Prompts can be read out of it; only you can read it.",
            rich_help_panel=LISTENING,
            show_default=False,
        ),
    ] = None
    share_prefixes: Annotated[
        bool,
        typer.Option(
            "--share-prefixes",
            help="Let all API keys use the same beginnings. By how fast an answer comes, one can "
            "then tell what another has sent.",
            rich_help_panel=LISTENING,
        ),
    ] = False
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            help="How long answers may go on after Ctrl-C or SIGTERM.",
            min=0.0,
            max=3600.0,
            rich_help_panel=LISTENING,
        ),
    ] = 10.0
    log_format: Annotated[
        Literal["text", "json", "off"],
        typer.Option(
            "--log-format",
            help="A line on stderr for each request, without its text.",
            rich_help_panel=LISTENING,
        ),
    ] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Who may use the server."""

    api_key: Annotated[
        list[str] | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            envvar="MAGLIO_API_KEY",
            help="Answer only to those who send this key. Repeatable.",
            rich_help_panel=ACCESS,
            show_default=False,
            show_envvar=True,
        ),
    ] = None
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            "--api-key-file",
            help="The same, with a key in each line of a file.",
            rich_help_panel=ACCESS,
            show_default=False,
        ),
    ] = None
    cors: Annotated[
        list[str] | None,
        typer.Option(
            "--cors",
            metavar="ORIGIN",
            help="Web pages that may use the server, such as https://example.com; *: all. "
            "Repeatable.",
            rich_help_panel=ACCESS,
            show_default=False,
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Another name that a server on this machine alone may be called by. Repeatable.",
            rich_help_panel=ACCESS,
            show_default=False,
        ),
    ] = None

    def keys(self) -> list[str]:
        """All keys.

        Raises:
            InvalidArgumentError: the file cannot be read, or has no key.
        """
        keys = list(self.api_key or ())
        if self.api_key_file is None:
            return keys
        lines = read_bytes(self.api_key_file).decode("utf-8", "replace").splitlines()
        found = [line.strip() for line in lines if line.strip()]
        if not found:
            raise InvalidArgumentError(f"{self.api_key_file} has no API key in it")
        return keys + found
