"""Write a GGUF file of the Llama family as a checkpoint of the transformers library.

    python scripts/gguf_to_checkpoint.py FILE FOLDER

Without FILE, as ``- FOLDER``, it is the default model. The weights are dequantized to float32.
Needs the packages gguf and safetensors.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from maglio.default_model import default_model_path
from support.gguf_checkpoint import write_checkpoint


def main() -> None:
    source, folder = sys.argv[1:]
    path = default_model_path() if source == "-" else Path(source)
    print(write_checkpoint(path, Path(folder)))


if __name__ == "__main__":
    main()
