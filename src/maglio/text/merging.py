"""Byte-pair merging as llama.cpp does it, through ``tokenizers``.

llama.cpp merges texts by the ranks of pairs of texts, and looks for tokens only once nothing more
merges; ``tokenizers`` merges tokens. So each text that is no token and may yet occur on the way
gets an id past the vocabulary's, and is spelled in tokens, or dropped, when merging is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tokenizers.models import BPE

from maglio.errors import ModelFileError
from maglio.text.base import utf8_of
from maglio.text.vocabulary import Vocabulary

Pair = tuple[str, str]


class MergingModel:
    """Merges the characters of a word, and returns tokens.

    Args:
        vocabulary: the tokens.
        merges: pairs of texts, each as one string with a space between, the first rank first.
        alphabet: the characters of words that are symbols even where they are no tokens.
        byte_token: the token that stands for a byte of a text that is none.
        ignore_merges: a word that is a token is taken whole.
        byte_fallback: characters without a token are spelled in byte tokens.

    Raises:
        ModelFileError: a merge is not two texts, or a text is not valid.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: Sequence[str],
        *,
        alphabet: Iterable[str] = (),
        byte_token: Callable[[int], str],
        ignore_merges: bool = False,
        byte_fallback: bool = False,
    ) -> None:
        self._ids = vocabulary.ids
        self._ignore_merges = ignore_merges
        pairs = _pairs(merges)
        extras = self._unknown = _unknown_texts(vocabulary.ids, pairs, alphabet)
        self._spellings = {
            len(vocabulary.ids) + i: self._spelled(text, byte_token)
            for i, text in enumerate(extras)
        }
        known = vocabulary.ids
        if extras:
            known = known | {text: len(known) + i for i, text in enumerate(extras)}
        try:
            self.bpe = BPE(
                known,
                pairs,
                ignore_merges=ignore_merges and not extras,
                byte_fallback=byte_fallback,
            )
        except Exception as error:  # all that `tokenizers` raises
            raise ModelFileError(f"model file merges do not fit its vocabulary: {error}") from error

    @property
    def needs_words(self) -> bool:
        """Whether words have to come through :meth:`tokenize`: ``bpe`` alone would take them for
        tokens that they are not.
        """
        return self._ignore_merges and bool(self._spellings)

    @property
    def unknown(self) -> Collection[str]:
        """The texts that merging meets and that are no tokens; not all of their bytes need be."""
        return self._unknown

    def tokenize(self, word: str) -> list[int]:
        """Return the tokens of a word."""
        if self._ignore_merges and word in self._ids:
            return [self._ids[word]]
        return self.settled([token.id for token in self.bpe.tokenize(word)])

    def settled(self, ids: list[int]) -> list[int]:
        """Return what ``bpe`` made of a text, with what is no token spelled in tokens."""
        if not self._spellings:
            return ids
        n_vocab = len(self._ids)
        settled: list[int] = []
        for token in ids:
            if token < n_vocab:
                settled.append(token)
            else:
                settled += self._spellings[token]
        return settled

    def _spelled(self, text: str, byte_token: Callable[[int], str]) -> list[int]:
        names = map(byte_token, text.encode("utf-8", "surrogatepass"))
        return [self._ids[name] for name in names if name in self._ids]


def _pairs(merges: Sequence[str]) -> list[Pair]:
    pairs: dict[Pair, None] = {}  # the first of equal merges counts
    for i, merge in enumerate(merges):
        cut = merge.find(" ", 1)
        if cut < 0:
            raise ModelFileError(f"model file merge {i} is {merge!r}: it should be two tokens")
        if cut + 1 < len(merge):
            pairs[merge[:cut], merge[cut + 1 :]] = None
        else:  # nothing merges with an empty text, and `tokenizers` will not see this one
            utf8_of(merge)
    return list(pairs)


def _unknown_texts(
    ids: dict[str, int], pairs: Iterable[Pair], alphabet: Iterable[str]
) -> list[str]:
    unknown = dict.fromkeys(character for character in alphabet if character not in ids)
    for left, right in pairs:
        for text in (left, right, left + right):
            if text not in ids:
                unknown[text] = None
    return list(unknown)
