"""Text and token ids: tokenizers from a model file's own metadata. No weights, no drafting."""

from maglio.text.detokenizer import Detokenizer
from maglio.text.stop import StopMatcher
from maglio.text.template import ChatTemplate
from maglio.text.tokenizer import Tokenizer, from_metadata
from maglio.text.transcript import Transcript

__all__ = ["ChatTemplate", "Detokenizer", "StopMatcher", "Tokenizer", "Transcript", "from_metadata"]
