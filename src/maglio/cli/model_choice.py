"""Which model: the options of all commands that read one, and what they name.

Boundary: options and a path. What is done with the model is said elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from maglio.errors import InvalidArgumentError
from maglio.sources.find import find_model
from maglio.sources.reference import HUB_PREFIX, parse_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The model that is meant."""

    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="GGUF file; hf:OWNER/REPO[:QUANT] of the hub; ollama:NAME[:TAG]. Default: "
            "SmolLM2-135M-Instruct, if installed.",
            show_default=False,
        ),
    ] = None
    hf_repo: Annotated[
        str | None,
        typer.Option(
            "--hf-repo",
            "-hf",
            "-hfr",
            metavar="OWNER/REPO[:QUANT]",
            help="Model of the hub, downloaded once. QUANT is Q4_K_M if there is one, or else the "
            "first.",
            show_default=False,
        ),
    ] = None
    hf_file: Annotated[
        str | None,
        typer.Option(
            "--hf-file",
            "-hff",
            metavar="FILE",
            help="Which file of --hf-repo; QUANT does not count then.",
            show_default=False,
        ),
    ] = None
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Do not ask the hub; use what was downloaded before."),
    ] = False

    def find(self, argument: Path | None = None) -> Path:
        """Where the model is, downloaded if need be.

        Args:
            argument: the model where a command takes it as an argument too.

        Raises:
            InvalidArgumentError: several are named, or what is named cannot be one.
            ModelFileError: there is no such model, or it cannot be downloaded.
            MaglioError: an extra is not installed; says which.
        """
        given = [model for model in (argument, self.model, self._of_hub()) if model is not None]
        if len(given) > 1:
            raise InvalidArgumentError(
                "give the model once: as an argument, with --model, or with --hf-repo"
            )
        return find_model(given[0] if given else None, offline=self.offline)

    def names(self) -> tuple[str, ...]:
        """What the model is called by those who named it so; nothing for a file."""
        given = self._of_hub() or self.model
        wanted = None if given is None else parse_reference(str(given))
        if wanted is None:
            return ()
        name = str(wanted).partition(":")[2]
        return (name, name.removesuffix(":latest")) if name.endswith(":latest") else (name,)

    def _of_hub(self) -> str | None:
        if self.hf_repo is None:
            if self.hf_file is not None:
                raise InvalidArgumentError(
                    "--hf-file needs --hf-repo, which says where the file is"
                )
            return None
        repo = self.hf_repo.removeprefix(HUB_PREFIX)
        if self.hf_file is None:
            return HUB_PREFIX + repo
        return f"{HUB_PREFIX}{repo.partition(':')[0]}/{self.hf_file}"
