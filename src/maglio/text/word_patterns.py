"""What byte-level BPE models take for a word, as regular expressions of ``tokenizers``.

They are those llama.cpp uses (``llm_tokenizer_bpe``), with what it makes of them: it knows
categories of characters by one letter only, so that every letter is large and small.
"""

from __future__ import annotations

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


L, M, N, P, S = (_known(category) for category in "LMNPS")
_SHORT_FORMS = "'s|'t|'re|'ve|'m|'ll|'d"
_SHORT_FORMS_ANY_CASE = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_SUFFIX = f"(?:{_SHORT_FORMS_ANY_CASE})?"
_WORDS = rf"[^\r\n{L}{N}]?{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

THREE_NUMBERS = rf"{N}{{1,3}}"
THREE_DIGITS = "[0-9]{3}"
# Text before a number belongs to its first part.
THREE_NUMBERS_FROM_THE_END = rf"[^{N}]*+(?:{N}{{1,2}}(?=(?:{N}{{3}})*(?!{N}))|{N}{{3}}|\z)"
THREE_DIGITS_FROM_THE_END = rf"{N}+?(?=(?:[0-9]{{3}})+(?![0-9]))"
PUNCTUATION = rf"[{P}$+<=>^~|]+"
PUNCTUATION_AND_TICKS = rf"[{P}$+<=>^~|`]+"
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
LINES = r"[^\n]+|\n+"
CJK = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+"
CJK_AND_KOREAN = r"[\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}&&[^\s]]+"
GPT2 = rf"{_SHORT_FORMS}| ?{L}+| ?{N}+| ?[^\s{L}{N}]+|\s+(?!\S)|\s+"


def llama3(numbers: str, *, after_signs: str = r"[\r\n]*", spaces: str = _SPACES) -> str:
    """Short forms, words with one sign before, numbers, signs, spaces."""
    return rf"{_SHORT_FORMS_ANY_CASE}|{_WORDS}|{numbers}| ?[^\s{L}{N}]+{after_signs}|{spaces}"


JAIS2 = llama3(
    THREE_NUMBERS,
    spaces=r"\s*[\r\n]+|"
    + "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))
    + r"|\s{1,2}(?!\S)|\s",
)
SEED_CODER = rf"{_SHORT_FORMS_ANY_CASE}|{_WORDS}|{N}| ?[^\s{L}{N}\r\n]+|{_SPACES}"
BAILING = (
    rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_WORDS}|{N}| ?[^\s{L}{N}]+[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
UFAKZEKA = rf"{_WORDS}|{N}| ?[^\s{L}{N}]+[\r\n]*|{_SPACES}"
QWEN35 = rf"{_SHORT_FORMS_ANY_CASE}|[^\r\n{L}{N}]?[{L}{M}]+|{N}| ?[^\s{L}{M}{N}]+[\r\n]*|{_SPACES}"
EXAONE_MOE = (
    rf"{_SHORT_FORMS_ANY_CASE}|[^\r\n{L}{N}]?(?:{L}{M}*(?: {L}{M}*)*)+|{N}"
    rf"| ?[^\s{L}{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
BLOOM = r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+"


def _cased(letters: str, numbers: str, *, suffix: str) -> str:
    """Words of large letters, then small ones. A letter beyond ASCII is both."""
    large, small = rf"(?:(?=[{letters}])[^a-z])", rf"(?:(?=[{letters}])[^A-Z])"
    before = rf"[^\r\n{L}{N}]?"
    words = rf"{before}{large}*{small}+{suffix}|{before}{large}+{small}*{suffix}"
    return rf"{words}|{numbers}| ?[^\s{L}{N}]+[\r\n/]*|{_SPACES}"


TEKKEN = _cased(L, N, suffix="")
GPT4O = _cased(L, THREE_NUMBERS, suffix=_SUFFIX)
GRANITE_EMBEDDING = _cased(L + M, THREE_NUMBERS, suffix=_SUFFIX)


def _marked(numbers: str) -> str:
    """The same where large and small letters were asked for by category: every letter is both."""
    return rf"[^\r\n{L}{N}]?[{L}{M}]+{_SUFFIX}|{numbers}| ?[^\s{L}{N}]+[\r\n/]*|{_SPACES}"


_HAN = (
    r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2EBEF}"
    r"\x{2F800}-\x{2FA1F}"
)
KIMI_K2 = (
    rf"[{_HAN}]+|[^\r\n{L}{N}]?[{L}&&[^{_HAN}]]+{_SUFFIX}|{THREE_NUMBERS}"
    rf"| ?[^\s{L}{N}]+[\r\n]*|{_SPACES}"
)
TINY_AYA = _marked(THREE_NUMBERS)
YOUTU = (
    r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+"
    r"|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}"
    r"\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|" + CJK,
    _marked(N),
)

_ASCII_SIGN = r"[!-/:-@\[-`{-~]"
_SIGNED_WORDS = rf"{_ASCII_SIGN}[A-Za-z]+|[^\r\n{L}{P}{S}]?[{L}{M}]+| ?[{P}{S}]+"
DEEPSEEK3_WORDS = rf"{_SIGNED_WORDS}[\r\n]*|{_SPACES}"
SPARK_WORDS = rf"{_SIGNED_WORDS}|[\r\n]|\s+(?!\S)|\s+"
AFMOE_SCRIPTS = (
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}"
    r"\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}"
    r"\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+"
)
CHAMELEON = (
    "<sentinel:[0-9]+>",
    "IMGIMG[A-I]{1,4}Z",
    r"[\t\n]|    |  ",
    N,
    rf"[{P}!-/:-@\[-`{{-~]",
    GPT2,
)

_CASED_LETTERS = (
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}"
    r"\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}"
    r"\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}"
    r"\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}"
    r"\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}"
    r"\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}"
    r"\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}"
    r"\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}"
    r"\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}"
    r"\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}"
    r"\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}"
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}"
    r"\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}"
    r"\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}"
    r"\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}"
    r"\x{1E900}-\x{1E943}"
)
DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{_CASED_LETTERS}]+",
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}-\x{3002}]+",
    r"\s+$",
    CJK_AND_KOREAN,
    rf"{N}+",
)
DEEPSEEK_CODER = (r"[\r\n]", rf"\s?{L}+", rf"\s?{P}+", CJK_AND_KOREAN, N)
