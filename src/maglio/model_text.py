"""What a model file says about text: its tokenizer and its chat template.

Boundary: joins the reader of model files and :mod:`maglio.text`, which know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def read_chat_template(file: ModelFile) -> Mapping[str, str]:
    """The sources of the chat templates in a model file, by name; empty if it has none.

    ``default`` is the one that is not named, ``tool_use`` the one to use where there are tools.
    """
    key = "tokenizer.chat_template"
    default = file.metadata.get(key)
    sources = {"default": default} if isinstance(default, str) else {}
    return sources | {
        name.removeprefix(f"{key}."): source
        for name, source in file.metadata.items()
        if name.startswith(f"{key}.") and isinstance(source, str)
    }
