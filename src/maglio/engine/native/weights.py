"""From a model file to the engine's weights: dimensions, rotations, and repacked tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from maglio import _core
from maglio.engine.native.family import (
    BIAS_TENSORS,
    FAMILIES,
    MATRIX_TENSORS,
    Family,
    vector_tensors,
)
from maglio.gguf import ModelFile

_IGNORED_TENSORS = frozenset({"rope_freqs.weight"})  # read as a rotation, not as a weight


def family_of(file: ModelFile) -> Family:
    """Return the family of a file, or refuse it by name."""
    architecture = file.text("general.architecture")
    family = FAMILIES.get(architecture)
    if family is None:
        raise file.error(
            f"the architecture {architecture[:60]!r} is not supported by the native engine; "
            f"supported are {', '.join(sorted(FAMILIES))}"
        )
    return family


def load_model(file: ModelFile, *, threads: int) -> _core.Model:
    """Repack every tensor of a file.

    Raises:
        ModelFileError: an unsupported architecture or tensor type, a missing, superfluous or
            misshapen tensor, or implausible metadata.
    """
    family = family_of(file)
    spec = model_spec(file, family)
    model = _core.Model(spec)
    _add_attention_kinds(model, file, family, spec)
    try:
        _load_tensors(model, file, family, spec, threads)
    except _core.GgufError as error:
        raise file.error(str(error)) from error
    complaint = model.check()
    if complaint:
        raise file.error(complaint)
    return model


def model_spec(file: ModelFile, family: Family) -> _core.ModelSpec:
    """Read the dimensions of a model from its file's metadata."""
    name = family.architecture
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise file.error("tensor 'token_embd.weight' is missing or not a matrix")
    experts = file.metadata.get(f"{name}.expert_count", 0)
    if not isinstance(experts, int) or experts != 0:
        raise file.error(f"{name} models with experts are not supported by the native engine")
    spec = _core.ModelSpec()
    spec.n_layer = file.integer(f"{name}.block_count")
    spec.n_embd = file.integer(f"{name}.embedding_length")
    spec.n_head = file.integer(f"{name}.attention.head_count")
    spec.n_kv_head = file.integer(f"{name}.attention.head_count_kv", spec.n_head)
    mean_head_width = max(1, spec.n_embd // spec.n_head)
    spec.head_dim = file.integer(f"{name}.attention.key_length", mean_head_width)
    if file.integer(f"{name}.attention.value_length", spec.head_dim) != spec.head_dim:
        raise file.error("keys and values of different widths are not supported")
    spec.n_ff = file.integer(f"{name}.feed_forward_length")
    spec.n_vocab = min(embedding.shape[1], 2**31 - 1)
    spec.norm_eps = file.real(f"{name}.attention.layer_norm_rms_epsilon")
    wide = spec.n_layer == family.wide_attention_layers
    spec.attention_scale = float((mean_head_width if wide else spec.head_dim) ** -0.5)
    spec.embedding_scale = float(np.sqrt(np.float32(spec.n_embd))) if family.scaled_embedding else 1
    spec.activation = family.activation
    complaint = spec.check()
    if complaint:
        raise file.error(complaint)
    return spec


def _add_attention_kinds(
    model: _core.Model, file: ModelFile, family: Family, spec: _core.ModelSpec
) -> None:
    """Tell each layer how far it sees and how it rotates."""
    name = family.architecture
    if file.integer(f"{name}.rope.dimension_count", spec.head_dim) != spec.head_dim:
        raise file.error("rotation of a part of each head is not supported")
    base = file.real(f"{name}.rope.freq_base", 10000.0)
    frequencies = _inverse_frequencies(spec.head_dim, base) / _linear_scaling(file, name)
    factors = _frequency_factors(file, spec)
    global_rope = model.add_rope(frequencies / factors)
    if family.global_every == 1:
        for layer in range(spec.n_layer):
            model.set_attention_kind(layer, 0, global_rope)
        return
    window = file.integer(f"{name}.attention.sliding_window")
    local_base = file.real(f"{name}.rope.freq_base_swa", family.local_rope_base)
    local_rope = model.add_rope(_inverse_frequencies(spec.head_dim, local_base))
    for layer in range(spec.n_layer):
        is_global = (layer + 1) % family.global_every == 0
        model.set_attention_kind(
            layer, 0 if is_global else window, global_rope if is_global else local_rope
        )


def _inverse_frequencies(head_dim: int, base: float) -> npt.NDArray[np.float64]:
    return base ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)


def _linear_scaling(file: ModelFile, name: str) -> float:
    key = f"{name}.rope.scaling.type"
    kind = file.text(key) if key in file.metadata else "none"
    if kind == "none":
        return 1.0
    if kind != "linear":
        raise file.error(f"rotation scaling of type {kind[:60]!r} is not supported; linear is")
    return file.real(f"{name}.rope.scaling.factor")


def _frequency_factors(file: ModelFile, spec: _core.ModelSpec) -> npt.NDArray[np.float64]:
    if "rope_freqs.weight" not in file.tensors:
        return np.ones(spec.head_dim // 2)
    try:
        factors = _core.read_matrix(file.header, "rope_freqs.weight").row(0).astype(np.float64)
    except _core.GgufError as error:
        raise file.error(str(error)) from error
    if factors.shape != (spec.head_dim // 2,) or not np.all(factors > 0):
        raise file.error("tensor 'rope_freqs.weight' does not hold one factor per rotated pair")
    return factors


def _load_tensors(
    model: _core.Model, file: ModelFile, family: Family, spec: _core.ModelSpec, threads: int
) -> None:
    no_order = np.empty(0, dtype=np.int32)
    used = set(_IGNORED_TENSORS)
    for layer, role, tensor in _vector_roles(file, family, spec):
        model.load_vector(file.header, tensor, layer, role)
        used.add(tensor)
    for layer, role, tensor in _matrix_roles(file, spec):
        order = no_order
        if family.interleaved_heads and role in ("query", "key"):
            heads = spec.n_head if role == "query" else spec.n_kv_head
            order = _split_pairs(heads, spec.head_dim)
        model.load_matrix(file.header, tensor, layer, role, order, threads)
        used.add(tensor)
    for unused in file.tensors.keys() - used:
        raise file.error(
            f"tensor {unused!r} is not part of the {family.architecture} models that the "
            "native engine knows, so its output would be wrong"
        )


def _vector_roles(
    file: ModelFile, family: Family, spec: _core.ModelSpec
) -> Iterator[tuple[int, str, str]]:
    yield -1, "output_norm", "output_norm.weight"
    for layer in range(spec.n_layer):
        for role, suffix in vector_tensors(family).items():
            yield layer, role, f"blk.{layer}.{suffix}"
        for role, suffix in BIAS_TENSORS.items():
            if f"blk.{layer}.{suffix}" in file.tensors:
                yield layer, role, f"blk.{layer}.{suffix}"


def _matrix_roles(file: ModelFile, spec: _core.ModelSpec) -> Iterator[tuple[int, str, str]]:
    yield -1, "embedding", "token_embd.weight"
    if "output.weight" in file.tensors:
        yield -1, "head", "output.weight"
    for layer in range(spec.n_layer):
        for role, suffix in MATRIX_TENSORS.items():
            yield layer, role, f"blk.{layer}.{suffix}"


def _split_pairs(heads: int, head_dim: int) -> npt.NDArray[np.int32]:
    """Row order that turns pairs (2i, 2i + 1) of each head into pairs (i, i + head_dim / 2)."""
    within = np.arange(head_dim, dtype=np.int32).reshape(head_dim // 2, 2).T.reshape(-1)
    starts = np.arange(heads, dtype=np.int32) * np.int32(head_dim)
    return np.ascontiguousarray((starts[:, None] + within[None, :]).reshape(-1))
