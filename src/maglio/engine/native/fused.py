"""Weights that lie in a file as parts of one tensor."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

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


def heads_of_delta_net(
    tensors: Mapping[object, _core.TensorInfo],
    layer: int,
    spec: _core.AttentionSpec | _core.DeltaNetSpec | _core.ShortConvSpec,
) -> Sources:
    """Weights of a delta net whose files have what belongs to a key head together.

    ``ssm_ba`` has the rates of its value heads and then their decays; ``ssm_in``, in older files,
    its query, its key, and the values and the gates of its value heads.
    """
    if not isinstance(spec, _core.DeltaNetSpec) or not spec.grouped:
        return {}
    key, values = spec.head_dim, spec.n_value_head // spec.n_key_head
    parts = {
        "ssm_ba.weight": {"ssm_beta.weight": [values], "ssm_alpha.weight": [values]},
        "ssm_in.weight": {
            "attn_qkv.weight": [key, key, values * key],
            "attn_gate.weight": [values * key],
        },
    }
    found: Sources = {}
    for name, of_name in parts.items():
        if tensor := tensors.get(f"blk.{layer}.{name}"):
            found |= _of_groups(name, tensor.shape, of_name, spec.n_key_head)
    return found


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


def _of_groups(
    tensor: str, shape: Sequence[int], parts: Mapping[str, Sequence[int]], n_group: int
) -> Sources:
    """Parts of a tensor of equal groups of rows: the first rows of each group, the next, and so on.

    A part may be several runs of rows in a group; it has the first run of all groups, then the
    second.
    """
    size = sum(map(sum, parts.values()))
    if n_group * size >= _MOST_ROWS:
        return {}
    if shape[1:2] != [n_group * size]:  # the core will say so; a list could be longer than the file
        return {name: _core.Source(tensor, all_rows=n_group * size) for name in parts}
    found: Sources = {}
    begin = 0
    for name, runs in parts.items():
        rows: list[int] = []
        for run in runs:
            starts = range(begin, begin + n_group * size, size)
            rows += [row for start in starts for row in range(start, start + run)]
            begin += run
        found[name] = _core.Source(tensor, all_rows=n_group * size, rows=rows)
    return found


def _halves(gate: str, up: str, both: str, n_ff: int) -> Sources:
    if 2 * n_ff >= _MOST_ROWS:
        return {}
    return {
        gate: _core.Source(both, 0, 2 * n_ff),
        up: _core.Source(both, n_ff, 2 * n_ff),
    }
