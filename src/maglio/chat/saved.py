"""Conversations on disk: one JSON document, versioned, whole at any moment, checked when read.

Boundary: what a document holds and whether it can be trusted. Applying it is the conversation's
business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from maglio.chat.limits import Limits
from maglio.chat.turn import Turn
from maglio.checks import MAX_SEED, check_int
from maglio.decode import SamplingParams
from maglio.errors import ConversationFileError, InvalidArgumentError
from maglio.files import read_regular, write_atomic
from maglio.text import Tokenizer
from maglio.tokens import ANY_VOCABULARY, checked_tokens

FORMAT = "maglio-conversation"
VERSION = 1
MAX_BYTES = 1 << 28

_TURN_ENDS = ("stop", "length", "interrupted")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedChat:
    """A conversation as saved.

    Attributes:
        fingerprint: of the tokenizer that the token ids belong to.
        system: the system prompt.
        turns: without their statistics.
        dropped: how many of them the model did not see any more.
        references: paths, texts or token ids.
        sampling: how tokens were chosen.
        position: where the random stream stood.
        limits: where answers end; ``None`` in older files.
    """

    fingerprint: str
    system: str | None
    turns: tuple[Turn, ...]
    dropped: int
    references: tuple[Path | str | tuple[int, ...], ...]
    sampling: SamplingParams
    position: int
    limits: Limits | None = None

    def turns_for(self, tokenizer: Tokenizer) -> tuple[Turn, ...]:
        """The turns in ids of ``tokenizer``; answers in those of another are encoded anew."""
        if self.fingerprint == tokenizer.fingerprint:
            return self.turns
        return tuple(
            replace(turn, tokens=tuple(tokenizer.encode(turn.answer, add_special=False)))
            for turn in self.turns
        )


def write(path: Path, chat: SavedChat) -> None:
    """Save; an earlier file is replaced in one step, readable by its owner only.

    Raises:
        ConversationFileError: the file cannot be written.
    """
    document = {
        "format": FORMAT,
        "version": VERSION,
        "tokenizer": chat.fingerprint,
        "system": chat.system,
        "turns": [
            {
                "user": turn.user,
                "answer": turn.answer,
                "tokens": list(turn.tokens),
                "finish_reason": turn.finish_reason,
            }
            for turn in chat.turns
        ],
        "dropped": chat.dropped,
        "references": [_reference_out(reference) for reference in chat.references],
        "sampling": asdict(chat.sampling),
        "position": chat.position,
        "limits": None if chat.limits is None else asdict(chat.limits),
    }
    text = json.dumps(document, ensure_ascii=True, indent=1)
    try:
        write_atomic(path, text.encode())
    except OSError as error:
        raise ConversationFileError(f"cannot save {path}: {error.strerror or error}") from error


def read(path: Path, fingerprint: str, n_vocab: int) -> SavedChat:
    """Read and check a saved conversation.

    Its ids must be below ``n_vocab`` if the tokenizer of this ``fingerprint`` made them: the
    vocabulary of another one may be larger. Those of its logit bias always must: nothing encodes
    them anew.

    Raises:
        ConversationFileError: the file cannot be read, or is not a sound conversation.
    """
    try:
        document = json.loads(read_regular(path, MAX_BYTES))
    except OSError as error:
        raise ConversationFileError(f"cannot load {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConversationFileError(
            f"cannot load {path}: it is not valid JSON ({error})"
        ) from error
    try:
        return _checked(document, fingerprint, n_vocab)
    except (_WrongError, InvalidArgumentError) as error:
        raise ConversationFileError(
            f"cannot load {path}: {error}; save the conversation again or start a new one"
        ) from error


class _WrongError(Exception):
    pass


def _checked(document: object, fingerprint: str, n_vocab: int) -> SavedChat:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _WrongError("it is not a saved conversation")
    if document.get("version") != VERSION:
        raise _WrongError(
            f"it has version {document.get('version')!r} and this program reads version {VERSION}"
        )
    made_by = _get(document, "tokenizer", str)
    bound = n_vocab if made_by == fingerprint else ANY_VOCABULARY
    turns = tuple(_turn(turn, bound) for turn in _get(document, "turns", list))
    dropped, position = _get(document, "dropped", int), _get(document, "position", int)
    check_int("dropped", dropped, 0, len(turns))
    check_int("position", position, 0, MAX_SEED)
    system = document.get("system")
    if system is not None and not isinstance(system, str):
        raise _WrongError("its system prompt is not text")
    return SavedChat(
        fingerprint=made_by,
        system=system,
        turns=turns,
        dropped=dropped,
        references=tuple(_reference_in(r, bound) for r in _get(document, "references", list)),
        sampling=_sampling(_get(document, "sampling", dict), n_vocab),
        position=position,
        limits=_limits(document.get("limits")),
    )


def _limits(values: object) -> Limits | None:
    if values is None:
        return None
    if not isinstance(values, dict) or values.keys() != {f.name for f in fields(Limits)}:
        raise _WrongError("its limits are not max_tokens, stop and on_full")
    return Limits(**values)


def _turn(value: object, n_vocab: int) -> Turn:
    if not isinstance(value, dict):
        raise _WrongError("a turn is not an object")
    reason = value.get("finish_reason")
    if reason not in _TURN_ENDS:
        raise _WrongError(f"a turn has the finish_reason {reason!r}")
    tokens = tuple(checked_tokens("tokens", _get(value, "tokens", list), n_vocab))
    return Turn(_get(value, "user", str), _get(value, "answer", str), tokens, reason)


def _sampling(values: dict[str, Any], n_vocab: int) -> SamplingParams:
    unknown = values.keys() - {field.name for field in fields(SamplingParams)}
    if unknown:
        raise _WrongError(f"its sampling has the unknown fields {sorted(unknown)}")
    bias = values.get("logit_bias", [])
    if not isinstance(bias, list) or not all(isinstance(pair, list) for pair in bias):
        raise _WrongError("its logit_bias is not a list of pairs")
    params = SamplingParams(**{**values, "logit_bias": tuple(map(tuple, bias))})
    checked_tokens("logit_bias", [token for token, _ in params.bias_pairs], n_vocab)
    return params


def _reference_out(reference: Path | str | tuple[int, ...]) -> dict[str, object]:
    if isinstance(reference, Path):
        return {"path": str(reference)}
    if isinstance(reference, str):
        return {"text": reference}
    return {"tokens": list(reference)}


def _reference_in(value: object, n_vocab: int) -> Path | str | tuple[int, ...]:
    if isinstance(value, dict) and len(value) == 1:
        if "path" in value:
            return Path(_get(value, "path", str))
        if "text" in value:
            return str(_get(value, "text", str))
        if "tokens" in value:
            return tuple(checked_tokens("tokens", _get(value, "tokens", list), n_vocab))
    raise _WrongError("a reference is neither a path nor a text nor tokens")


def _get(mapping: Mapping[str, Any], key: str, kind: type[Any]) -> Any:  # noqa: ANN401
    value = mapping.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _WrongError(f"its {key!r} is missing or not of type {kind.__name__}")
    return value
