"""Weights that lie in a file as parts of one tensor."""

from __future__ import annotations

from collections.abc import Container

from maglio import _core

Sources = dict[str, _core.Source]

_MOST_ROWS = 2**31
"""The core refuses shapes of more."""


def gate_and_up(n_ff: int) -> Sources:
    """Gate and up projections as halves of ``ffn_up``, in this order."""
    up = "ffn_up.weight"
    return _halves("ffn_gate.weight", up, up, n_ff)


def query_key_value(
    tensors: Container[object],
    layer: int,
    spec: _core.AttentionSpec | _core.DeltaNetSpec | _core.ShortConvSpec,
) -> Sources:
    """Queries, keys and values as row ranges of one tensor, in files that have it."""
    if not isinstance(spec, _core.AttentionSpec):
        return {}
    heads = spec.n_head * (2 if spec.gated else 1)
    query, key = heads * spec.head_dim, spec.n_kv_head * spec.head_dim
    if query + 2 * key >= _MOST_ROWS:
        return {}
    first = {"attn_q": 0, "attn_k": query, "attn_v": query + key}
    return {
        f"{name}.{kind}": _core.Source(f"attn_qkv.{kind}", row, query + 2 * key)
        for kind in ("weight", "bias")
        if f"blk.{layer}.attn_qkv.{kind}" in tensors
        for name, row in first.items()
    }


def gate_and_up_of_experts(
    tensors: Container[object],
    layer: int,
    spec: _core.GatedSpec | _core.ExpertsSpec | _core.ParallelSpec,
) -> Sources:
    """Gate and up projections as halves of every expert's matrix, in files that have it so."""
    both = "ffn_gate_up_exps.weight"
    spec = spec.experts if isinstance(spec, _core.ParallelSpec) else spec
    if f"blk.{layer}.{both}" not in tensors or isinstance(spec, _core.GatedSpec):
        return {}
    return _halves("ffn_gate_exps.weight", "ffn_up_exps.weight", both, spec.n_ff)


def _halves(gate: str, up: str, both: str, n_ff: int) -> Sources:
    if 2 * n_ff >= _MOST_ROWS:
        return {}
    return {
        gate: _core.Source(both, 0, 2 * n_ff),
        up: _core.Source(both, n_ff, 2 * n_ff),
    }
