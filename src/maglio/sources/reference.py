"""Names of models that are not paths: ``hf:owner/repo[:QUANT]`` and ``ollama:name[:tag]``.

Boundary: text only; what a name stands for is found by :mod:`maglio.sources.find`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from maglio.errors import InvalidArgumentError

HUB_PREFIX = "hf:"
OLLAMA_PREFIX = "ollama:"

_DEFAULT_TAG = "latest"
_OLLAMA_HOST = "registry.ollama.ai"
_OLLAMA_OWNER = "library"
_LONGEST = 512

_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_HUB = re.compile(
    rf"(?P<repo>{_PART}/{_PART})(?:/(?P<file>[^:\0]+\.gguf)|:(?P<quantisation>[A-Za-z0-9._-]+))?"
)
_OLLAMA = re.compile(
    rf"(?:(?:(?P<host>{_PART}(?::\d{{1,5}})?)/)?(?P<owner>{_PART})/)?(?P<name>{_PART})"
    rf"(?::(?P<tag>{_PART}))?"
)


@dataclass(frozen=True, slots=True)
class HubReference:
    """A model of the hub.

    Attributes:
        repo: ``owner/name``.
        quantisation: such as ``Q4_K_M``; the usual one when ``None``.
        file: which file of the repository, or the first part of a split one; chosen by
            ``quantisation`` when ``None``.
    """

    repo: str
    quantisation: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        rest = f"/{self.file}" if self.file else f":{self.quantisation}"
        return HUB_PREFIX + self.repo + (rest if self.file or self.quantisation else "")


@dataclass(frozen=True, slots=True)
class OllamaReference:
    """A model of ollama's: ``parts`` are the host, the owner, the name and the tag."""

    parts: tuple[str, str, str, str]

    def __str__(self) -> str:
        host, owner, name, tag = self.parts
        shown = [host, owner, name]
        if host == _OLLAMA_HOST:
            shown = [name] if owner == _OLLAMA_OWNER else [owner, name]
        return f"{OLLAMA_PREFIX}{'/'.join(shown)}:{tag}"


def parse_reference(text: str) -> HubReference | OllamaReference | None:
    """Read the name of a model; ``None`` for what is a path.

    Raises:
        InvalidArgumentError: it begins as a name does, and is not one.
    """
    if text.startswith(HUB_PREFIX):
        return _hub(text)
    if text.startswith(OLLAMA_PREFIX):
        return _ollama(text)
    return None


def _hub(text: str) -> HubReference:
    found = _HUB.fullmatch(text.removeprefix(HUB_PREFIX))
    file = found["file"] if found else None
    outside = file is not None and any(part in ("", ".", "..") for part in file.split("/"))
    if found is None or outside or len(text) > _LONGEST:
        raise InvalidArgumentError(
            f"{text:.80} is not a model of the hub; write hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M or "
            "hf:OWNER/REPO/FILE.gguf (./ before the name of a file that begins so)"
        )
    tag = found["quantisation"]
    return HubReference(found["repo"], None if tag == _DEFAULT_TAG else tag, file)


def _ollama(text: str) -> OllamaReference:
    found = _OLLAMA.fullmatch(text.removeprefix(OLLAMA_PREFIX))
    if found is None or len(text) > _LONGEST:
        raise InvalidArgumentError(
            f"{text:.80} is not a model of ollama's; write ollama:NAME, ollama:NAME:TAG or "
            "ollama:OWNER/NAME:TAG (./ before the name of a file that begins so)"
        )
    return OllamaReference(
        (
            found["host"] or _OLLAMA_HOST,
            found["owner"] or _OLLAMA_OWNER,
            found["name"],
            found["tag"] or _DEFAULT_TAG,
        )
    )
