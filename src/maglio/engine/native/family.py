"""Model families: which tensors and switches of the one parameterised forward each uses.

Everything a new family needs is a :class:`Family` entry here, as long as it is built from the
parts the forward pass has.
"""

from __future__ import annotations

from dataclasses import dataclass

from maglio._core import GateActivation


@dataclass(frozen=True, slots=True)
class Family:
    """What distinguishes one architecture from another."""

    architecture: str
    """Value of ``general.architecture``."""

    activation: GateActivation = GateActivation.SILU

    interleaved_heads: bool = False
    """The file orders query and key rows for rotation of pairs (2i, 2i + 1)."""

    head_norms: bool = False
    """Queries and keys are normed per head."""

    post_norms: bool = False
    """Sub-layer outputs are normed before they join the residual stream."""

    scaled_embedding: bool = False
    """Embeddings are multiplied by the square root of their length."""

    global_every: int = 1
    """Every n-th layer sees the whole context; the others have a sliding window."""

    local_rope_base: float = 10000.0
    """Rotation base of sliding-window layers."""

    wide_attention_layers: int = 0
    """Layer count of the one model size that scales attention by the mean head width."""


FAMILIES = {
    family.architecture: family
    for family in (
        Family("llama", interleaved_heads=True),
        Family("qwen2"),
        Family("qwen3", head_norms=True),
        Family(
            "gemma3",
            activation=GateActivation.GELU_TANH,
            head_norms=True,
            post_norms=True,
            scaled_embedding=True,
            global_every=6,
            wide_attention_layers=62,
        ),
    )
}


def vector_tensors(family: Family) -> dict[str, str]:
    """Required vectors of a layer: role to tensor name, after the ``blk.N.`` prefix."""
    names = {"attention_norm": "attn_norm.weight", "ffn_norm": "ffn_norm.weight"}
    if family.head_norms:
        names |= {"query_norm": "attn_q_norm.weight", "key_norm": "attn_k_norm.weight"}
    if family.post_norms:
        names |= {
            "attention_post_norm": "post_attention_norm.weight",
            "ffn_post_norm": "post_ffw_norm.weight",
        }
    return names


BIAS_TENSORS = {
    "query_bias": "attn_q.bias",
    "key_bias": "attn_k.bias",
    "value_bias": "attn_v.bias",
}
"""Optional vectors of a layer: present in some files of a family and not in others."""

MATRIX_TENSORS = {
    "query": "attn_q.weight",
    "key": "attn_k.weight",
    "value": "attn_v.weight",
    "output": "attn_output.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
}
"""Matrices of a layer: role to tensor name."""
