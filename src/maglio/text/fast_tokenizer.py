"""A tokenizer of the ``tokenizers`` library, as ``tokenizer.json`` describes it.

Boundary: encodes with that library, and gives each id its bytes. Reads no file and no model.

Ids are those of the library. Only one thing is added: a control token that is spelled in plain text
stays text unless the caller wants it read.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from tokenizers import Tokenizer

from maglio.errors import InvalidArgumentError, ModelFileError
from maglio.text.base import SPACE, SPACES, utf8_of
from maglio.text.bpe import BYTE_OF
from maglio.text.detokenizer import Detokenizer
from maglio.text.utf8 import to_bytes

_Json: TypeAlias = Any  # a description that the library itself has checked

# What may stand before the model and loses no text, so that `fewest_tokens` has a bound.
_SAFE_PRETOKENIZERS = frozenset({"Sequence", "ByteLevel", "Split", "Digits", "Metaspace"})
_SAFE_NORMALIZERS = frozenset({"Sequence", "Prepend", "Replace", "NFC"})
_NFC_SHRINKS = 4
"""Bytes that NFC may make one of; three happens."""


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids with a role; ``None`` where there is no such token.

    Attributes:
        bos: begins a text.
        eos: ends a text.
        unk: stands for what the vocabulary cannot spell.
        pad: fills rows in training.
        ends: every token that ends a generation.
    """

    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    pad: int | None = None
    ends: frozenset[int] = frozenset()


class FastTokenizer:
    """See :class:`maglio.text.Tokenizer`.

    Args:
        tokenizer: the library's.
        special: ids with a role.
        n_vocab: ids that the model has a logit for. Ids above the tokenizer's own have no text;
            tokens above the model's are left out.

    Raises:
        ModelFileError: it is of a kind whose tokens have no bytes of their own, or a token that is
            not an added one is above the model's.
    """

    def __init__(self, tokenizer: Tokenizer, special: SpecialIds, *, n_vocab: int) -> None:
        self._description = _trimmed(json.loads(tokenizer.to_str()), n_vocab)
        self._special = special
        self._n_vocab = n_vocab
        self._is_byte_level, self._space = _spelling(self._description)
        self._has_byte_tokens = bool(self._description["model"].get("byte_fallback"))
        self._added = {token["id"]: token for token in self._description["added_tokens"]}
        self._plain = _built(self._description, parse_special=False)
        self._tokens = [""] * n_vocab
        for text, token in self._plain.get_vocab(with_added_tokens=True).items():
            self._tokens[token] = text
        self._control = frozenset(i for i, token in self._added.items() if token["special"])
        first = self._plain.encode("", add_special_tokens=True).ids[:1]
        self._add_bos = special.bos is not None and first == [special.bos]
        start = b"".join(
            map(self.token_bytes, self._plain.encode("a", add_special_tokens=False).ids)
        )
        self._adds_space_prefix = start.startswith(b" ")
        self._only_first = any(
            part.get("prepend_scheme") == "first" for part in _parts(self._description)
        )

    @property
    def n_vocab(self) -> int:
        """Number of token ids."""
        return self._n_vocab

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text, if there is one."""
        return self._special.bos

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text, if there is one."""
        return self._special.eos

    @property
    def unk_id(self) -> int | None:
        """The token for what the vocabulary cannot spell, if there is one."""
        return self._special.unk

    @property
    def pad_id(self) -> int | None:
        """The token that fills rows of unequal length in training, if there is one."""
        return self._special.pad

    @property
    def eog_ids(self) -> frozenset[int]:
        """Every token that ends a generation."""
        return self._special.ends

    @cached_property
    def control_tokens(self) -> Mapping[str, int]:
        """Ids of the tokens that steer the model, by the text that spells them."""
        return {self._added[token]["content"]: token for token in sorted(self._control)}

    @property
    def add_bos(self) -> bool:
        """Whether ``add_special`` puts the BOS token first."""
        return self._add_bos

    @property
    def adds_space_prefix(self) -> bool:
        """Whether ``encode`` puts a space before the text, which decoding takes off again."""
        return self._adds_space_prefix

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides which ids a text gets."""
        text = json.dumps(self._description, sort_keys=True)
        special = self._special
        roles = (special.bos, special.eos, special.unk, self._n_vocab)
        return hashlib.sha256(f"{text} {roles}".encode("utf-8", "surrogatepass")).hexdigest()

    def encode(
        self,
        text: str | bytes,
        *,
        add_special: bool = True,
        parse_special: bool = False,
        continues: bool = False,
    ) -> list[int]:
        """Return the token ids of ``text``; see :meth:`maglio.text.Tokenizer.encode`.

        Bytes that are not valid UTF-8 become U+FFFD: the library reads text.

        Raises:
            InvalidArgumentError: the text has a lone surrogate, or over 1 GiB.
        """
        readable = to_bytes(text).decode("utf-8", "replace")
        # Where only the beginning of a text gets a space, a part of one gets none.
        goes_on = continues or (self._only_first and not add_special)
        if self._adds_space_prefix and goes_on:
            encoder = self._parsing_part if parse_special else self._plain_part
        else:
            encoder = self._parsing if parse_special else self._plain
        ids: list[int] = encoder.encode(readable, add_special_tokens=add_special).ids
        return ids

    def fewest_tokens(self, text: str) -> int:
        """Return a lower bound of the number of tokens in ``text``, without encoding it.

        It is 0 where the library may drop text or join what the vocabulary cannot spell.
        """
        if self._most_bytes == 0:
            return 0
        data = text.encode("utf-8", "ignore").translate(None, self._droppable)
        return -(-len(data) // self._most_bytes)

    def decode(
        self, ids: Iterable[int], *, show_control: bool = False, continues: bool = False
    ) -> str:
        """Return the text of ``ids``; see :class:`~maglio.text.Detokenizer` for the options.

        Raises:
            InvalidArgumentError: an id is outside the vocabulary.
        """
        return Detokenizer(self, show_control=show_control, continues=continues).whole(ids)

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes a token stands for; of a control token, its name.

        Raises:
            InvalidArgumentError: the id is outside the vocabulary.
        """
        self._check(token)
        if token in self._added:
            return utf8_of(self._added[token]["content"])
        text = self._tokens[token]
        if self._is_byte_level:
            try:
                return bytes([BYTE_OF[character] for character in text])
            except KeyError:  # a token of plain text among the others
                return utf8_of(text)
        if self._has_byte_tokens and (byte := _byte_of(text)) is not None:
            return bytes([byte])
        return utf8_of(text.replace(self._space, " "))

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model and is not text.

        Raises:
            InvalidArgumentError: the id is outside the vocabulary.
        """
        self._check(token)
        return token in self._control

    @cached_property
    def _parsing(self) -> Tokenizer:
        return _built(self._description, parse_special=True)

    @cached_property
    def _plain_part(self) -> Tokenizer:
        return _built(_without_prefix(self._description), parse_special=False)

    @cached_property
    def _parsing_part(self) -> Tokenizer:
        return _built(_without_prefix(self._description), parse_special=True)

    @cached_property
    def _most_bytes(self) -> int:
        """Most bytes of a text that one token can stand for; 0 where there is no bound."""
        description = self._description
        if not (self._is_byte_level or self._has_byte_tokens):
            return 0
        for name, safe in (
            ("pre_tokenizer", _SAFE_PRETOKENIZERS),
            ("normalizer", _SAFE_NORMALIZERS),
        ):
            parts = list(_parts(description[name]))
            if any(part["type"] not in safe for part in parts if "type" in part):
                return 0
            if any(part.get("behavior") == "Removed" for part in parts):
                return 0
            if any(part.get("type") == "Replace" and not _grows(part) for part in parts):
                return 0
        composes = any(part.get("type") == "NFC" for part in _parts(description["normalizer"]))
        longest = max(len(self.token_bytes(token)) for token in range(self._n_vocab))
        return longest * (_NFC_SHRINKS if composes else 1)

    @cached_property
    def _droppable(self) -> bytes:
        """White space that an added token may take along."""
        takes = any(token["lstrip"] or token["rstrip"] for token in self._added.values())
        return SPACES if takes else b""

    def _check(self, token: int) -> None:
        if not 0 <= token < self._n_vocab:
            raise InvalidArgumentError(
                f"token id {token} is outside the vocabulary (0 to {self._n_vocab - 1})"
            )


def _built(description: _Json, *, parse_special: bool) -> Tokenizer:
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.encode_special_tokens = not parse_special
    return tokenizer


def _trimmed(description: _Json, n_vocab: int) -> _Json:
    """The description without what only training needs, and without what the model has not."""
    added = [token for token in description["added_tokens"] if token["id"] < n_vocab]
    vocabulary = description["model"].get("vocab", {})
    if isinstance(vocabulary, list):  # pieces with scores, by their ids
        largest = len(vocabulary) - 1
    else:
        largest = max(vocabulary.values(), default=-1)
    if largest >= n_vocab:
        raise ModelFileError(
            f"the tokenizer has the id {largest}, and the model {n_vocab} ids; they do not belong "
            "together"
        )
    return {**description, "added_tokens": added, "truncation": None, "padding": None}


def _spelling(description: _Json) -> tuple[bool, str]:
    """Whether tokens are spelled in bytes, and what stands for a space where they are not."""
    kinds = {part["type"]: part for part in _parts(description["decoder"]) if "type" in part}
    if "ByteLevel" in kinds:
        return True, ""
    if "Metaspace" in kinds:
        return False, kinds["Metaspace"]["replacement"]
    if "Replace" in kinds and kinds["Replace"]["pattern"] == {"String": SPACE}:
        return False, SPACE
    raise ModelFileError(
        f"the tokenizer decodes by {', '.join(kinds) or 'nothing'}, which is not supported: "
        "supported are ByteLevel, and spaces spelled by a character (Metaspace)"
    )


def _parts(description: _Json) -> Iterator[dict[str, _Json]]:
    """A component of a tokenizer and all in it; not its vocabulary."""
    if isinstance(description, dict):
        yield description
        for name, part in description.items():
            if name not in ("vocab", "merges", "added_tokens"):
                yield from _parts(part)
    elif isinstance(description, list):
        for part in description:
            yield from _parts(part)


def _without_prefix(description: _Json) -> _Json:
    """The same tokenizer, but without a space before a text."""
    changed = copy.deepcopy({k: v for k, v in description.items() if k != "model"})
    for part in _parts(changed):
        if "prepend_scheme" in part:
            part["prepend_scheme"] = "never"
        if "add_prefix_space" in part:
            part["add_prefix_space"] = False
        if part.get("type") == "Sequence" and "normalizers" in part:
            part["normalizers"] = [p for p in part["normalizers"] if p["type"] != "Prepend"]
    if (changed["normalizer"] or {}).get("type") == "Prepend":
        changed["normalizer"] = None
    return {**changed, "model": description["model"]}


def _grows(part: Mapping[str, _Json]) -> bool:
    """Whether a replacement makes no text shorter."""
    old = part["pattern"].get("String")
    return old is not None and len(part["content"].encode()) >= len(old.encode())


def _byte_of(text: str) -> int | None:
    """The byte that a token such as ``<0x41>`` stands for."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return int(text[3:5], 16)
        except ValueError:
            return None
    return None
