"""What makes two servers give the same answer to the same request.

Boundary: names only; computes nothing from the weights.
"""

from __future__ import annotations

import hashlib
import json

from maglio.model import Model
from maglio.version import __version__


def system_fingerprint(model: Model) -> str:
    """A name for the model file, the engine and its version, and the type of the KV cache.

    Requests with the same seed and the same fingerprint get the same answer, to the bit. The
    processor, the number of threads and what else the server does have no part in it.
    """
    key = model.profile_key
    parts = [__version__, model.name, model.tokenizer.fingerprint]
    if key is not None:
        parts += [key.model, key.engine, key.version, key.kv_cache]
    return f"fp_{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"
