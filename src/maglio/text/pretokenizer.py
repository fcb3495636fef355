"""How BPE models cut text into words before merging: by patterns, which have names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from maglio.errors import UnsupportedModelError
from maglio.text import word_patterns as words


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


_LLAMA3 = (words.llama3(words.THREE_NUMBERS),)
_QWEN2 = (words.llama3(words.N),)
_DEEPSEEK3 = (words.THREE_NUMBERS, words.CJK, words.DEEPSEEK3_WORDS)

_NAMES = {
    Pretokenizer((words.PUNCTUATION, words.GPT2, rf"{words.N}+", words.THREE_DIGITS)): "default",
    Pretokenizer((words.GPT2,)): (
        "gpt-2 phi-2 exaone4 mpt olmo jais trillion granite-docling gigachat a.x-4.0 mellum "
        "modern-bert jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe"
    ),
    Pretokenizer((words.N, words.GPT2)): (
        "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2"
    ),
    Pretokenizer((words.PUNCTUATION_AND_TICKS, words.GPT2, words.THREE_DIGITS)): "falcon",
    Pretokenizer(_QWEN2): (
        "qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez grok-2 solar-open kormo f2llmv2"
    ),
    Pretokenizer((words.LINES, *_QWEN2)): "laguna",
    Pretokenizer((words.UFAKZEKA,)): "ufakzeka",
    Pretokenizer((words.QWEN35,)): "qwen35",
    Pretokenizer((words.KIMI_K2,)): "kimi-k2",
    Pretokenizer((words.EXAONE_MOE,)): "exaone-moe",
    Pretokenizer((words.SEED_CODER,)): "seed-coder",
    Pretokenizer((words.BAILING,)): "bailingmoe bailingmoe2 llada-moe",
    Pretokenizer(_LLAMA3, ignore_merges=True, add_bos=True): (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"
    ),
    Pretokenizer(_LLAMA3): "dbrx smaug-bpe",
    Pretokenizer(_LLAMA3, bos_id=None): "chatglm-bpe",
    Pretokenizer(_LLAMA3, ignore_merges=True, bos_id=None): "glm4 glm5",
    Pretokenizer((words.JAIS2,)): "jais-2",
    Pretokenizer((words.THREE_NUMBERS, words.llama3(rf"{words.N}+")), ignore_merges=True): (
        "minicpm5"
    ),
    Pretokenizer((words.TEKKEN,), ignore_merges=True, add_bos=True): "tekken",
    Pretokenizer((words.GPT4O,)): "gpt-4o llama4 kanana2 talkie minimax-m2",
    Pretokenizer((words.GRANITE_EMBEDDING,), ignore_merges=True): "granite-embed-multi-97m",
    Pretokenizer((words.THREE_NUMBERS_FROM_THE_END, words.TINY_AYA)): "tiny_aya cohere2moe",
    Pretokenizer(words.YOUTU, ignore_merges=True): "youtu",
    Pretokenizer(words.DEEPSEEK_LLM): "deepseek-llm",
    Pretokenizer(words.DEEPSEEK_CODER): "deepseek-coder",
    Pretokenizer(_DEEPSEEK3): "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
    Pretokenizer((*_DEEPSEEK3[:2], words.SPARK_WORDS, words.N)): "spark2_5",
    Pretokenizer(
        (words.THREE_NUMBERS_FROM_THE_END, words.AFMOE_SCRIPTS, words.DEEPSEEK3_WORDS)
    ): "afmoe",
    Pretokenizer((words.BLOOM,)): "bloom poro-chat gpt3-finnish",
    Pretokenizer((words.BLOOM, words.N)): "viking",
    Pretokenizer(words.CHAMELEON, add_bos=True): "chameleon",
    Pretokenizer((rf"{words.N}+", words.THREE_DIGITS_FROM_THE_END)): "superbpe",
}


@dataclass(frozen=True, slots=True)
class CharacterRules:
    """How text is cut where characters merge and not bytes.

    Attributes:
        words: a regular expression of Python's ``re``; what it does not match is left out.
        dropped: the characters that it does not match.
        escapes_spaces: spaces are U+2581.
        whole_newlines: newlines that are a token together are not merged.
        always_bos: a text begins with the BOS token whatever the file says.
    """

    words: str
    dropped: str = ""
    escapes_spaces: bool = False
    whole_newlines: bool = False
    always_bos: bool = False


_GEMMA4 = CharacterRules(words.LINES, escapes_spaces=True, whole_newlines=True, always_bos=True)
_CHARACTER_RULES = {
    "gemma4": _GEMMA4,
    "granite-embed-multi-311m": _GEMMA4,
    "sarvam-moe": CharacterRules(words.LINES, escapes_spaces=True),
    "whitespace": CharacterRules(f"[^{words.WHITE_SPACE}]+", dropped=words.WHITE_SPACE),
}

_BY_NAME = {name: pre for pre, names in _NAMES.items() for name in names.split()}


def pretokenizer_of(name: str) -> Pretokenizer:
    """Return the pre-tokenizer of that name in ``tokenizer.ggml.pre`` ("": ``default``)."""
    try:
        return _BY_NAME[name or "default"]
    except KeyError:
        raise _unknown(name) from None


def character_rules_of(name: str) -> CharacterRules:
    """Return the rules of that name where characters merge."""
    try:
        return _CHARACTER_RULES[name]
    except KeyError:
        raise _unknown(name) from None


def merges_characters(name: str) -> bool:
    """Whether a name in ``tokenizer.ggml.pre`` stands for merging characters and not bytes."""
    return name in _CHARACTER_RULES


def pretokenizer_names() -> tuple[str, ...]:
    """Every name there is a pre-tokenizer for."""
    return (*_BY_NAME, *_CHARACTER_RULES)


def _unknown(name: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"model file has the pre-tokenizer {name[:60]!r}; supported are "
        f"{', '.join(pretokenizer_names())}"
    )
