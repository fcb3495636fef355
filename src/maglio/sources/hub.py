"""Files of the hub, through huggingface_hub: its cache folder, its token, its ways to go on.

Boundary: network and the cache folder. Which file is :mod:`maglio.sources.choice`'s question.
Everything here needs the extra ``hub``; :mod:`maglio.sources.find` imports it when it is needed.
What the hub answers is not trusted: names of files are checked, and each downloaded file is
compared with the SHA-256 that the hub gave for it before it is used.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from huggingface_hub import HfApi, constants, hf_hub_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from maglio.errors import ModelFileError
from maglio.sources.choice import USUAL, Candidate, choose, named
from maglio.sources.reference import HubReference

_TIMEOUT_S = 10.0
_MOST_FILES = 100_000
_LONGEST_NAME = 1024
_BRANCH = "main"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CHUNK = 1 << 22

# Whichever library does HTTP for huggingface_hub, this is the base of its errors.
[_HttpError] = [base for base in HfHubHTTPError.__bases__ if base is not OSError]
_AWAY = (_HttpError, LocalEntryNotFoundError, ConnectionError, TimeoutError)


class _AwayError(Exception):
    """The hub cannot be reached, or has no answer now."""


def download(wanted: HubReference, *, offline: bool) -> Path:
    """The file of a model, downloaded if it is not in the cache folder yet; all parts of it.

    Args:
        offline: take what is in the cache folder, and do not ask the hub.

    Raises:
        ModelFileError: there is no such repository or file, it may not be read, the download
            failed, or is not what the hub announced.

    Warns:
        RuntimeWarning: the hub cannot be reached, and what is in the cache folder is used; or
            there is no file of the usual quantisation.
    """
    if offline or constants.HF_HUB_OFFLINE:
        return _cached(wanted, "the hub is not asked, as --offline or HF_HUB_OFFLINE says")
    try:
        model = _chosen(_listed(wanted.repo), wanted)
        return _fetched(wanted.repo, model)
    except _AwayError as error:
        path = _cached(wanted, str(error))
        warnings.warn(f"{error}; {path.name} of the cache folder is used", RuntimeWarning, 2)
        return path


def _chosen(names: Sequence[str], wanted: HubReference) -> Candidate:
    if wanted.file is not None:
        return named(names, wanted.file, wanted.repo)
    model = choose(names, wanted.quantisation, wanted.repo)
    if wanted.quantisation is None and model.quantisation != USUAL:
        warnings.warn(f"{wanted.repo} has no {USUAL}; {model.files[0]} is used", RuntimeWarning, 2)
    return model


def _listed(repo: str) -> list[str]:
    """The files of a repository whose names can be used."""
    try:
        info = HfApi().model_info(repo, revision=_BRANCH, timeout=_TIMEOUT_S)
    except Exception as error:  # also those of the library that does HTTP, which is not always one
        raise _explained(error, repo) from error
    names = [sibling.rfilename for sibling in (info.siblings or ())[:_MOST_FILES]]
    return [name for name in names if isinstance(name, str) and _is_inside(name)]


def _is_inside(name: str) -> bool:
    """Whether a name cannot lead out of the folder that it is in."""
    path = PurePosixPath(name)
    sound = not path.is_absolute() and ".." not in path.parts and name.isprintable()
    return sound and "\\" not in name and len(name) <= _LONGEST_NAME


def _fetched(repo: str, model: Candidate) -> Path:
    """Download all parts, of one commit."""
    first = _fetch(repo, model.files[0], _BRANCH)
    commit = first.parents[model.files[0].count("/")].name
    for name in model.files[1:]:
        _fetch(repo, name, commit)
    return first


def _fetch(repo: str, name: str, revision: str) -> Path:
    known = {str(path) for path in _blobs(repo)}
    try:
        path = Path(hf_hub_download(repo, name, revision=revision))
    except Exception as error:
        raise _explained(error, f"{name} of {repo}") from error
    blob = path.resolve()
    if str(blob) not in known:
        _check(blob, path, f"{name} of {repo}")
    return path


def _blobs(repo: str) -> Sequence[Path]:
    return list((_folder(repo).resolve() / "blobs").glob("*"))


def _check(blob: Path, path: Path, what: str) -> None:
    """Compare what was downloaded with its name, which is the SHA-256 that the hub gave.

    huggingface_hub compares sizes alone. Small files have another sum; models are not small.
    """
    if _SHA256.fullmatch(blob.name) is None:
        return
    digest = hashlib.sha256()
    with blob.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() == blob.name:
        return
    for damaged in (path, blob):
        with suppress(FileNotFoundError):
            damaged.unlink()
    raise ModelFileError(
        f"cannot download {what}: what came has the SHA-256 {digest.hexdigest()}, and the hub "
        f"announced {blob.name}; it was removed, try again"
    )


def _explained(error: Exception, what: str) -> Exception:
    """What the user is told of an error of huggingface_hub."""
    if isinstance(error, GatedRepoError):
        return ModelFileError(
            f"cannot download {what}: it is gated; agree to its terms on its page, and set "
            "HF_TOKEN to a token that may read it"
        )
    if isinstance(error, RepositoryNotFoundError):
        return ModelFileError(
            f"cannot download {what}: the hub has no such repository, or it is private; check the "
            "name, and set HF_TOKEN to a token that may read it"
        )
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status < 500 and status not in (408, 429):
            return ModelFileError(f"cannot download {what}: {reason}")
        return _AwayError(f"the hub has no answer now (status {status})")
    if isinstance(error, _AWAY):
        return _AwayError(f"the hub cannot be reached ({reason})")
    return ModelFileError(f"cannot download {what}: {getattr(error, 'strerror', None) or reason}")


def _cached(wanted: HubReference, why: str) -> Path:
    """What the cache folder has of a model.

    Raises:
        ModelFileError: it has nothing, or not what is wanted.
    """
    folder = _snapshot(wanted.repo)
    names = [] if folder is None else _files(folder)
    if folder is None or not names:
        raise ModelFileError(
            f"{wanted} is not in the cache folder {constants.HF_HUB_CACHE}, and {why}"
        )
    try:
        model = _chosen(names, wanted)
    except ModelFileError as error:
        raise ModelFileError(f"of what is in the cache folder, {error}; and {why}") from error
    return folder / model.files[0]


def _folder(repo: str) -> Path:
    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def _snapshot(repo: str) -> Path | None:
    """The files of the commit that was asked for last."""
    try:
        commit = (_folder(repo) / "refs" / _BRANCH).read_text().strip()
    except (OSError, UnicodeError):
        return None
    return _folder(repo) / "snapshots" / commit if _COMMIT.fullmatch(commit) else None


def _files(folder: Path) -> list[str]:
    """Those that are there as a whole."""
    paths = folder.rglob("*.gguf")
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
