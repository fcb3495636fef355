"""What a model file says about text: its tokenizer and its chat template.

Boundary: joins the reader of model files and :mod:`maglio.text`, which know nothing of each other.
"""

from __future__ import annotations

from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from maglio.text import Tokenizer, from_metadata


def read_tokenizer(file: ModelFile) -> Tokenizer:
    """The tokenizer of a model file.

    Raises:
        ModelFileError: the file has none, or not a valid one; the message names the file.
    """
    try:
        return from_metadata(file.metadata)
    except ModelFileError as error:
        raise file.error(str(error)) from error


def read_chat_template(file: ModelFile) -> str | None:
    """The source of the chat template in a model file, if it has one."""
    source = file.metadata.get("tokenizer.chat_template")
    return source if isinstance(source, str) else None
