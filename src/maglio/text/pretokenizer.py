"""How byte-level BPE models cut text into words before merging. Patterns and their names.

The patterns are those llama.cpp uses for the same names (``llm_tokenizer_bpe``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from maglio.errors import ModelFileError

# llama.cpp classifies by Unicode 15.1, `tokenizers` by whatever its regex engine was built with.
# These are the ranges unassigned in 15.1 that hold letters, marks, digits, or signs since then.
_NEWER = (
    r"\x{892}-\x{897}\x{1B4D}-\x{1B4F}\x{1B7F}\x{1C89}-\x{1C8F}\x{2427}-\x{243F}"
    r"\x{31E4}-\x{31EE}\x{A7CB}-\x{A7CF}\x{A7DA}-\x{A7F1}\x{105BD}-\x{105FF}\x{10D3A}-\x{10E5F}"
    r"\x{10EB2}-\x{10EFC}\x{11375}-\x{113FF}\x{116CA}-\x{116FF}\x{11B0A}-\x{11BFF}"
    r"\x{11F5A}-\x{11FAF}\x{13456}-\x{143FF}\x{14647}-\x{167FF}\x{16B90}-\x{16E3F}"
    r"\x{18CD6}-\x{18CFF}\x{1BCA4}-\x{1CEFF}\x{1E4FA}-\x{1E7DF}\x{1F8B2}-\x{1F8FF}"
    r"\x{1FA89}-\x{1FA8F}\x{1FABE}\x{1FAC6}-\x{1FACD}\x{1FADC}-\x{1FADF}\x{1FAE9}-\x{1FAEF}"
    r"\x{1FBCB}-\x{1FBEF}"
)


def _known(category: str) -> str:
    return rf"[\p{{{category}}}&&[^{_NEWER}]]"


_L, _M, _N, _P = (_known(category) for category in "LMNP")
_SHORT_FORMS = "'s|'t|'re|'ve|'m|'ll|'d"
_SHORT_FORMS_ANY_CASE = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_GPT2 = rf"{_SHORT_FORMS}| ?{_L}+| ?{_N}+| ?[^\s{_L}{_N}]+|\s+(?!\S)|\s+"


def _qwen2(numbers: str) -> str:
    words = rf"{_SHORT_FORMS_ANY_CASE}|[^\r\n{_L}{_N}]?{_L}+"
    return rf"{words}|{numbers}| ?[^\s{_L}{_N}]+[\r\n]*|{_SPACES}"


_QWEN35 = (
    rf"{_SHORT_FORMS_ANY_CASE}|[^\r\n{_L}{_N}]?[{_L}{_M}]+|{_N}"
    rf"| ?[^\s{_L}{_M}{_N}]+[\r\n]*|{_SPACES}"
)


@dataclass(frozen=True, slots=True)
class Pretokenizer:
    """Patterns applied one after the other, each isolating its matches."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False  # a word that is a token is taken whole
    add_bos: bool = False
    bos_id: int | None = 11  # where the file names none

    def splits(self) -> Iterator[Split]:
        """Yield one ``tokenizers`` pre-tokenizer per pattern."""
        for pattern in self.patterns:
            yield Split(Regex(pattern), "isolated")


_LLAMA3 = (_qwen2(f"{_N}{{1,3}}"),)

_NAMES = {
    Pretokenizer((rf"[{_P}$+<=>^~|]+", _GPT2, rf"{_N}+", "[0-9]{3}")): "default",
    Pretokenizer((_GPT2,)): (
        "gpt-2 phi-2 exaone4 mpt olmo jais trillion granite-docling gigachat a.x-4.0 mellum "
        "modern-bert jina-es jina-de jina-v1-en roberta-bpe"
    ),
    Pretokenizer((_N, _GPT2)): (
        "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2"
    ),
    Pretokenizer((_qwen2(_N),)): (
        "qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez grok-2 solar-open kormo f2llmv2"
    ),
    Pretokenizer((_QWEN35,)): "qwen35",
    Pretokenizer(_LLAMA3, ignore_merges=True, add_bos=True): (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"
    ),
    Pretokenizer(_LLAMA3): "dbrx smaug-bpe",
    Pretokenizer(_LLAMA3, bos_id=None): "chatglm-bpe",
    Pretokenizer(_LLAMA3, ignore_merges=True, bos_id=None): "glm4 glm5",
}
# jina-v2-de, -es and -code are not here: spaces before their <mask> belong to it.

_BY_NAME = {name: pre for pre, names in _NAMES.items() for name in names.split()}


def pretokenizer_of(name: str) -> Pretokenizer:
    """Return the pre-tokenizer of that name in ``tokenizer.ggml.pre`` ("": ``default``)."""
    try:
        return _BY_NAME[name or "default"]
    except KeyError:
        raise ModelFileError(
            f"model file has the pre-tokenizer {name[:60]!r}; supported are {', '.join(_BY_NAME)}"
        ) from None


def pretokenizer_names() -> tuple[str, ...]:
    """Every name there is a pre-tokenizer for."""
    return tuple(_BY_NAME)
