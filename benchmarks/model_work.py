"""What a forward of a model has to read, and to multiply and add, at least.

Only products with weights are counted, not those of attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maglio._core import TensorInfo
from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile

FLOAT_FORMATS = ("F32", "F16", "BF16")
LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight")
"""A forward reads a row of them for each of its rows; the first may be the head, too."""


@dataclass(frozen=True, slots=True)
class ModelWork:
    """Sizes of a model's weights.

    Attributes:
        head_bytes: of what makes logits of a row.
        other_bytes: of all other weights that every row needs.
        expert_bytes: of experts, of which a row needs ``experts_used``, a share.
        head_products: of bytes, for a row; 0 where weights are not in 8 bits or fewer.
        other_products: for a row, its experts included.
        position_bytes: of keys and values of a position.
    """

    head_bytes: int
    other_bytes: int
    expert_bytes: int
    experts_used: float
    head_products: int
    other_products: int
    position_bytes: float

    @classmethod
    def of(cls, file: ModelFile, engine: NativeEngine) -> ModelWork:
        """Of a file, as ``engine`` runs it."""
        tensors = {str(name): tensor for name, tensor in file.tensors.items()}
        head = "output.weight" if "output.weight" in tensors else "token_embd.weight"
        looked_up = sum(tensors[n].bytes for n in LOOKED_UP if n in tensors and n != head)
        matrices = [t for name, t in tensors.items() if len(t.shape) > 1 and name not in LOOKED_UP]
        experts = [t for t in matrices if "_exps." in str(t.name)]
        used = _experts_used(file) if experts else 1.0
        products = sum(
            _products(t) * (used if "_exps." in str(t.name) else 1.0)
            for t in matrices
            if str(t.name) != head
        )
        expert_bytes = sum(t.bytes for t in experts)
        # As they are in memory; of embeddings that are only looked up, as in the file.
        all_bytes = engine.weight_bytes - looked_up
        head_bytes = tensors[head].bytes
        return cls(
            head_bytes=head_bytes,
            other_bytes=all_bytes - head_bytes - expert_bytes,
            expert_bytes=expert_bytes,
            experts_used=used,
            head_products=_products(tensors[head]),
            other_products=round(products),
            position_bytes=engine.page_bytes / 64,
        )

    def bytes_read(self, rows: int, context: int, *, logits: int) -> float | None:
        """Bytes of a forward; ``None`` where they depend on which experts rows take."""
        if self.expert_bytes and rows > 1:
            return None
        weights = self.other_bytes + self.expert_bytes * self.experts_used
        return weights + (self.head_bytes if logits else 0) + self.position_bytes * context

    def multiply_adds(self, rows: int, *, logits: int) -> int:
        """Products of bytes of a forward, ``logits`` rows of which have logits."""
        return rows * self.other_products + logits * self.head_products


def _products(tensor: TensorInfo) -> int:
    return 0 if tensor.type in FLOAT_FORMATS else math.prod(tensor.shape)


def _experts_used(file: ModelFile) -> float:
    architecture = file.text("general.architecture")
    count = file.integer(f"{architecture}.expert_count")
    return file.integer(f"{architecture}.expert_used_count") / count
