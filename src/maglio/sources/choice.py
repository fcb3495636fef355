"""Which file of a repository: by quantisation, as llama.cpp chooses.

Boundary: names of files only. The rules are in docs/hub.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from maglio.errors import ModelFileError

USUAL = "Q4_K_M"
"""The quantisation where none is asked for."""

MOST_LISTED = 40

_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_NOT_MODELS = ("mmproj", "imatrix")
# A quantisation in a name stands between other characters: Qwen3-4B-UD-Q4_K_XL, model.q8_0, BF16/.
_QUANTISATION = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d(?:_\d)*|MXFP4(?:_[A-Z]+)*|NVFP4|BF16|F16|FP16|F32|FP32)"
    r"(?![A-Za-z0-9_])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model in a repository.

    Attributes:
        files: its files, the first part first.
        quantisation: by its name, in capitals; empty if the name does not say.
    """

    files: tuple[str, ...]
    quantisation: str


def candidates(names: Sequence[str]) -> list[Candidate]:
    """The models among the files of a repository, in the order of their names.

    Projectors of images (``mmproj``) and matrices of importance are left out, and so is a split
    model of which a part is missing.
    """
    files = sorted(name for name in names if _is_model(name))
    present = frozenset(files)
    found = (_parts(name) for name in files)
    return [
        Candidate(parts, _quantisation(parts[0]))
        for parts in found
        if parts and present.issuperset(parts)
    ]


def choose(names: Sequence[str], quantisation: str | None, repo: str) -> Candidate:
    """The model of a quantisation; without one, the usual one, or else the first.

    Raises:
        ModelFileError: there is none, or more than one; says what there is.
    """
    models = candidates(names)
    if not models:
        raise ModelFileError(
            f"{repo} has no GGUF file of a model; look for a repository of the model whose name "
            "ends in GGUF"
        )
    wanted = (quantisation or USUAL).upper()
    fitting = [model for model in models if model.quantisation == wanted]
    if not fitting and quantisation is not None:  # a part of a name that we cannot read, as it is
        exact = re.compile(rf"(?<![A-Za-z0-9]){re.escape(wanted)}(?![A-Za-z0-9])", re.IGNORECASE)
        fitting = [model for model in models if exact.search(model.files[0])]
    if len(fitting) > 1:
        raise ModelFileError(
            f"{repo} has more than one file of {wanted}: {_listed([m.files[0] for m in fitting])}; "
            f"name one: hf:{repo}/{fitting[0].files[0]}"
        )
    if fitting:
        return fitting[0]
    if quantisation is None:
        return models[0]
    known = sorted({model.quantisation or model.files[0] for model in models})
    raise ModelFileError(f"{repo} has no {quantisation}; it has {_listed(known)}")


def named(names: Sequence[str], file: str, repo: str) -> Candidate:
    """The model that a file is, or is the first part of.

    Raises:
        ModelFileError: there is no such file; says what there is.
    """
    for model in candidates(names):
        if model.files[0] == file:
            return model
    if file in names:
        raise ModelFileError(
            f"{file} of {repo} is not a model, or not the first part of a whole one"
        )
    known = [model.files[0] for model in candidates(names)]
    raise ModelFileError(
        f"{repo} has no file {file}; it has {_listed(known) or 'no GGUF file of a model'}"
    )


def _is_model(name: str) -> bool:
    file = name.rpartition("/")[2].lower()
    return file.endswith(".gguf") and not any(word in file for word in _NOT_MODELS)


def _parts(name: str) -> tuple[str, ...]:
    """All files of a model by its first; nothing for a further part."""
    found = _PART.fullmatch(name)
    if found is None:
        return (name,)
    count = int(found["count"])
    if int(found["number"]) != 1 or count < 1:
        return ()
    suffix = name[len(found["stem"]) + len("-00001-of-00001") :]
    return tuple(f"{found['stem']}-{n:05}-of-{count:05}{suffix}" for n in range(1, count + 1))


def _quantisation(name: str) -> str:
    """The last one in the name of the file, or in those of its folders."""
    folder, _, file = name.rpartition("/")
    found = _QUANTISATION.findall(file) or _QUANTISATION.findall(folder)
    return found[-1].upper().replace("FP16", "F16").replace("FP32", "F32") if found else ""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
