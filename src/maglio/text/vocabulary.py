"""A model file's vocabulary: tokens, their kinds, and the special ids. Encodes nothing.

The rules that give tokens a role by their name are those of llama.cpp (``llama_vocab::load``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from maglio.errors import ModelFileError
from maglio.text.metadata import Metadata
from maglio.text.stripping import stripping


class TokenKind(IntEnum):
    """What a token is for, as numbered in GGUF files."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a tokenizer model assumes where the metadata says nothing."""

    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    add_bos: bool


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id, scores float32 ``(n,)``, kinds int32 ``(n,)``, and the special ids.

    ``strips_left`` and ``strips_right`` are special tokens to which white space before or after
    them belongs.
    """

    tokens: list[str]
    ids: dict[str, int]
    scores: npt.NDArray[np.float32]
    kinds: npt.NDArray[np.int32]
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    pad_id: int | None
    eog_ids: frozenset[int]
    add_bos: bool
    add_eos: bool
    strips_left: frozenset[int]
    strips_right: frozenset[int]

    @classmethod
    def from_metadata(cls, metadata: Metadata, defaults: Defaults) -> Vocabulary:
        """Read and check a vocabulary; raises :class:`ModelFileError`."""
        tokens = [
            text or f"[EMPTY_{i}]" for i, text in enumerate(metadata.texts("tokenizer.ggml.tokens"))
        ]
        ids = {text: i for i, text in enumerate(tokens)}
        if not tokens or len(ids) != len(tokens):
            raise ModelFileError(
                f"model file vocabulary has {len(tokens)} tokens, {len(ids)} of them different: "
                "it must not be empty and no token may occur twice"
            )
        scores = metadata.array("tokenizer.ggml.scores", np.float32, len(tokens), 0)
        if np.isnan(scores).any():
            raise ModelFileError("model file metadata tokenizer.ggml.scores has a NaN")
        kinds = metadata.array(
            "tokenizer.ggml.token_type", np.int32, len(tokens), TokenKind.NORMAL
        ).copy()
        special = _SpecialIds(metadata, defaults, ids)
        eog_ids = special.eog_ids()
        special.override_kinds(kinds)
        strips_left, strips_right = stripping(metadata, ids)
        vocabulary = cls(
            tokens=tokens,
            ids=ids,
            scores=scores,
            kinds=kinds,
            bos_id=special.bos_id,
            eos_id=special.eos_id,
            unk_id=special.unk_id,
            pad_id=special.pad_id,
            eog_ids=eog_ids,
            add_bos=metadata.flag("tokenizer.ggml.add_bos_token", defaults.add_bos),
            add_eos=metadata.flag("tokenizer.ggml.add_eos_token", False),
            strips_left=strips_left,
            strips_right=strips_right,
        )
        vocabulary._check()
        return vocabulary

    def _check(self) -> None:
        for name, wanted, token in (
            ("bos", self.add_bos, self.bos_id),
            ("eos", self.add_eos, self.eos_id),
        ):
            if wanted and token is None:
                raise ModelFileError(
                    f"model file wants its {name} token added but names none: "
                    f"set tokenizer.ggml.{name}_token_id"
                )
        for i in np.flatnonzero(self.kinds == TokenKind.BYTE):
            self.byte_of(int(i))

    def byte_of(self, token: int) -> int:
        """Return the byte that a token of kind BYTE stands for."""
        text = self.tokens[token]
        try:
            if text[:3] == "<0x" and text[5:] == ">":
                return int(text[3:5], 16)
        except ValueError:
            pass
        raise ModelFileError(f"model file byte token {token} is {text!r}, not of the form <0x41>")


# Names that end a generation (llama.cpp keeps this list by name as well).
_END_NAMES = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<｜end▁of▁sentence｜>", "[e~[",  # noqa: RUF001 (the name has these characters)
)  # fmt: skip

# Fill-in-the-middle roles: metadata keys (the last one that is set counts), then names.
_FIM_ROLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "prefix": (
        ("fim_pre_token_id", "prefix_token_id"),
        (
            "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>",  # noqa: RUF001
            "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>",
        ),
    ),
    "suffix": (
        ("fim_suf_token_id", "suffix_token_id"),
        (
            "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>",  # noqa: RUF001
            "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>",
        ),
    ),
    "middle": (
        ("fim_mid_token_id", "middle_token_id"),
        (
            "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",  # noqa: RUF001
            "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>",
        ),
    ),
    "pad": (
        ("fim_pad_token_id",),
        ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    ),
    "repository": (
        ("fim_rep_token_id",),
        ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    ),
    "file": (("fim_sep_token_id",), ("<|file_sep|>",)),
}  # fmt: skip

_NO_ID = 0xFFFFFFFF  # -1 as written by some converters; llama.cpp reads it as no id

_ALWAYS_SHOWN = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


class _SpecialIds:
    """Which ids have a role, by metadata or by name, and what that does to their kinds."""

    def __init__(self, metadata: Metadata, defaults: Defaults, ids: Mapping[str, int]) -> None:
        self._metadata = metadata
        self._ids = ids
        self.bos_id = self._id("bos_token_id", default=defaults.bos_id)
        self.eos_id = self._id("eos_token_id", default=defaults.eos_id)
        self.unk_id = self._id("unknown_token_id", default=defaults.unk_id)
        # Only templates read it, and there are files in which it is -1: that is none.
        pad = metadata.integer("tokenizer.ggml.padding_token_id")
        self.pad_id = pad if pad is not None and 0 <= pad < len(ids) else None
        self._named_ends = {ids[name] for name in _END_NAMES if name in ids}
        self._not_ends = self._find_not_ends()
        self._fim: dict[str, int] = {}
        self._fim_by_name: set[int] = set()
        for role, (keys, names) in _FIM_ROLES.items():
            found = [token for key in keys if (token := self._id(key)) is not None]
            if found:
                self._fim[role] = found[-1]
            elif named := [ids[name] for name in names if name in ids]:
                self._fim[role] = named[0]
                self._fim_by_name.add(named[0])

    def _id(self, name: str, default: int | None = None) -> int | None:
        key = f"tokenizer.ggml.{name}"
        token = self._metadata.integer(key)
        if token is None or token == _NO_ID:
            return default if default is not None and default < len(self._ids) else None
        if not 0 <= token < len(self._ids):
            raise ModelFileError(
                f"model file metadata {key} is {token}, but the vocabulary has ids 0 to "
                f"{len(self._ids) - 1}"
            )
        return token

    def _find_not_ends(self) -> dict[int, TokenKind]:
        """Find names that end a generation in other vocabularies but not in this one."""
        ids = self._ids
        found: dict[int, TokenKind] = {}
        calls = "<|call|>" in ids or "<|calls|>" in ids
        if "<|end|>" in ids and calls and ("<|return|>" in ids or "<|flush|>" in ids):
            found[ids["<|end|>"]] = TokenKind.USER_DEFINED
        if "</s>" in ids and "<|tool_response>" in ids:
            found[ids["</s>"]] = TokenKind.NORMAL
        return found

    def eog_ids(self) -> frozenset[int]:
        """Return every id that ends a generation."""
        ends = {self.eos_id, self._id("eot_token_id"), self._id("eom_token_id")}
        ends |= {self._fim.get(role) for role in ("pad", "repository", "file")}
        ends |= self._named_ends
        return frozenset(token for token in ends if token is not None) - self._not_ends.keys()

    def override_kinds(self, kinds: npt.NDArray[np.int32]) -> None:
        """Correct the kinds of tokens whose names give them away."""
        kinds[sorted(self._named_ends | self._fim_by_name)] = TokenKind.CONTROL
        for name in _ALWAYS_SHOWN:
            if name in self._ids:
                kinds[self._ids[name]] = TokenKind.USER_DEFINED
        for token, kind in self._not_ends.items():
            kinds[token] = kind
