"""Models in ollama's own store, read in place.

The store has a manifest for each model, ``manifests/HOST/OWNER/NAME/TAG``, a JSON object that lists
layers by digest, and the layers in ``blobs/sha256-...``. One of them is the GGUF file.

Boundary: reads manifests and looks for files; changes nothing. Manifests are not trusted: their
size and everything that is read from them is checked, and a blob is named by its digest alone.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from maglio.errors import ModelFileError
from maglio.files import open_regular, read_regular
from maglio.sources.reference import OllamaReference

_MODEL = "application/vnd.ollama.image.model"
_ADAPTER = "application/vnd.ollama.image.adapter"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)
_MOST_BYTES = 1 << 20
_MOST_LAYERS = 1000
_SERVICE = Path("/usr/share/ollama/.ollama/models")


def stores() -> list[Path]:
    """Where ollama may keep models, the likeliest first."""
    if given := os.environ.get("OLLAMA_MODELS"):
        return [Path(given).expanduser()]
    return [Path.home() / ".ollama" / "models", _SERVICE]


def blob_of(wanted: OllamaReference) -> Path:
    """The GGUF file of a model in the store.

    Raises:
        ModelFileError: it is not there, or its manifest is not sound.
    """
    for store in stores():
        manifest = store.joinpath("manifests", *wanted.parts)
        if manifest.exists():
            return _blob(store, manifest, wanted)
    raise ModelFileError(
        f"{wanted} is not in {' or '.join(str(store) for store in stores())}; run: "
        f"ollama pull {str(wanted).partition(':')[2]} (OLLAMA_MODELS names another folder)"
    )


def _blob(store: Path, manifest: Path, wanted: OllamaReference) -> Path:
    models = []
    for layer in _layers(manifest):
        kind = layer.get("mediaType")
        if kind == _ADAPTER:
            raise ModelFileError(
                f"cannot load {wanted}: it has an adapter, and adapters are not supported; merge "
                "it into the model"
            )
        if kind == _MODEL:
            models.append(layer)
    if len(models) != 1:
        raise _unsound(manifest, f"it lists {len(models)} files of weights instead of one")
    [layer] = models
    digest, size = layer.get("digest"), layer.get("size")
    found = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if found is None:
        raise _unsound(manifest, f"its digest {digest!r:.80} is not a SHA-256")
    blob = store / "blobs" / f"sha256-{found[1]}"
    try:
        with open_regular(blob) as file:
            held = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise ModelFileError(
            f"cannot read {blob} of {wanted}: {error.strerror or error}"
        ) from error
    if isinstance(size, bool) or size != held:
        raise ModelFileError(
            f"cannot load {wanted}: {blob} has {held:,} bytes, and the manifest says {size!r:.40}; "
            "pull it again"
        )
    return blob


def _layers(manifest: Path) -> list[dict[str, object]]:
    try:
        document = json.loads(read_regular(manifest, _MOST_BYTES))
    except OSError as error:
        raise ModelFileError(f"cannot read {manifest}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise _unsound(manifest, "it is not valid JSON") from error
    layers = document.get("layers") if isinstance(document, dict) else None
    if not isinstance(layers, list) or len(layers) > _MOST_LAYERS:
        raise _unsound(manifest, f"it has no list of at most {_MOST_LAYERS} layers")
    if not all(isinstance(layer, dict) for layer in layers):
        raise _unsound(manifest, "a layer is not an object")
    return layers


def _unsound(manifest: Path, problem: str) -> ModelFileError:
    return ModelFileError(f"cannot use ollama's manifest {manifest}: {problem}")
