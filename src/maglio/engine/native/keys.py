"""Metadata of a model file, as the page of a family reads it.

A key that a family does not read would change what the model computes without anyone noticing, so
it is refused by name, unless it is known to say nothing about the computation.
"""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from maglio import _core
from maglio._core import GateActivation
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile

_HARMLESS = frozenset(
    {
        "attention.layer_norm_epsilon",  # of another kind of norm
        "context_length",  # the engine bounds its caches by it
        "expert_feed_forward_length",  # of no experts, as the next five
        "expert_gating_func",
        "expert_shared_count",
        "expert_used_count",
        "expert_weights_norm",
        "expert_weights_scale",
        "leading_dense_block_count",
        "mm.tokens_per_image",
        "pooling_type",  # of embedding models; rows are those of the language model
        "rope.scaling.finetuned",
        "rope.scaling.original_context_length",  # linear scaling does not read it, nor the others
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "rope.scaling.yarn_log_multiplier",
        "tensor_data_layout",
        "vocab_size",
    }
)
"""Keys that say nothing about the computation."""

_HARMLESS_PREFIXES = ("vision.", "classifier.")
"""Keys of other models that may travel in the same metadata."""

_FREQUENCY_FACTORS = "rope_freqs.weight"

_PLAUSIBLE = 4096
"""Most layers, and values of a head, for which anything is built; the core checks the rest."""


class Keys:
    """The metadata of a model under its architecture's name; remembers what was read.

    An array of one value per layer that are all equal is read as that value.

    Raises:
        ModelFileError: a key is missing, of a wrong type or implausible, here and in all methods.
    """

    def __init__(self, file: ModelFile) -> None:
        self.architecture = file.text("general.architecture")
        self._read: set[str] = set()
        self._ropes: list[_core.RopeSpec] = []
        self._known_tensors: set[str] = set()
        self._whole = file
        n_layer = file.integer(f"{self.architecture}.block_count")
        if n_layer > _PLAUSIBLE:
            raise file.error(f"{n_layer} layers are not plausible")
        self._file = copy.copy(file)
        self._file.metadata = ChainMap(self._uniform_arrays(n_layer), dict(file.metadata))
        self.n_layer = self.integer("block_count")
        self.n_embd = self.integer("embedding_length")
        self.n_head = self.integer("attention.head_count")
        self.mean_head_width = max(1, self.n_embd // self.n_head)
        self.head_dim = self.integer("attention.key_length", self.mean_head_width)
        if self.head_dim > _PLAUSIBLE or self.head_dim % 2 != 0:
            raise file.error(f"heads of {self.head_dim} values are not supported")

    @property
    def layers(self) -> range:
        """Indices of the layers."""
        return range(self.n_layer)

    @property
    def known_tensors(self) -> set[str]:
        """Tensors that were read here, not as weights."""
        return self._known_tensors

    def has(self, name: str) -> bool:
        """Whether the file has a key."""
        return self._key(name) in self._file.metadata

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a positive dimension or count."""
        return self._file.integer(self._key(name), default)

    def real(self, name: str, default: float | None = None) -> float:
        """Return a positive number."""
        return self._file.real(self._key(name), default)

    def count(self, name: str, default: int = 0) -> int:
        """Return a count that may be none."""
        if self._is_zero(name) or (default == 0 and not self.has(name)):
            return 0
        return self.integer(name, default)

    def text(self, name: str, default: str) -> str:
        """Return a string."""
        return self._file.text(self._key(name)) if self.has(name) else default

    def flags(self, name: str) -> Sequence[object] | None:
        """Return an array of one truth value per layer, or ``None`` if the key holds no array."""
        value = self._whole.metadata.get(self._key(name))
        if not isinstance(value, list | np.ndarray):
            return None
        flags = list(value)
        if len(flags) != self.n_layer or not all(isinstance(f, bool | np.bool_) for f in flags):
            raise self.error(name, "is not one truth value per layer")
        return flags

    def only(self, name: str, *allowed: object) -> None:
        """Refuse a key by name unless it is absent or has one of these values."""
        value = self._file.metadata.get(self._key(name), allowed[0])
        if isinstance(value, list | np.ndarray) or value not in allowed:
            raise self.error(name, f"is {value!r:.60}, which the native engine does not support")

    def ignore(self, name: str) -> None:
        """Take note of a key that other engines do not honour for this family either."""
        self._key(name)

    def error(self, name: str, problem: str) -> ModelFileError:
        """Make an error about a key."""
        return self._file.error(f"metadata {self._key(name)!r} {problem}")

    def attention(
        self,
        *,
        rope: int,
        window: int = 0,
        scale: float | None = None,
        head_norms: bool = False,
        paired_rows: bool = False,
    ) -> _core.AttentionSpec:
        """Describe the attention of a layer.

        Args:
            rope: what :meth:`rope` returned.
            window: positions a query sees, itself included; 0 for all.
            scale: of the scores; one over the root of the head width when ``None``.
            head_norms: queries and keys are normed per head.
            paired_rows: the file orders their rows for rotation of pairs ``(2i, 2i + 1)``.
        """
        if self.integer("attention.value_length", self.head_dim) != self.head_dim:
            raise self.error("attention.value_length", "is not the width of keys, as it has to be")
        for name in ("attention.key_length_swa", "attention.value_length_swa"):
            self.only(name, self.head_dim)
        self.only("attention.causal", True)
        self.only("attn_logit_softcapping", 0)
        spec = _core.AttentionSpec()
        spec.n_head = self.n_head
        spec.n_kv_head = self.integer("attention.head_count_kv", self.n_head)
        spec.head_dim = self.head_dim
        spec.scale = float(self.head_dim**-0.5) if scale is None else scale
        spec.window = window
        spec.rope = rope
        spec.head_norms = head_norms
        spec.paired_rows = paired_rows
        return spec

    def gated(self, activation: GateActivation = GateActivation.SILU) -> _core.GatedSpec:
        """Describe a gated feed-forward sub-layer."""
        for name in ("expert_count", "expert_group_count", "expert_group_used_count"):
            self.only(name, 0)
        spec = _core.GatedSpec()
        spec.n_ff = self.integer("feed_forward_length")
        spec.activation = activation
        return spec

    def rope(self) -> int:
        """Add the rotation of layers that see the whole context, scaled as the file says."""
        base = self.real("rope.freq_base", 10000.0)
        return self._add_rope(base, self._linear_scaling() * self._frequency_factors())

    def local_rope(self) -> int:
        """Add the rotation of layers with a sliding window, which is never scaled."""
        return self._add_rope(self.real("rope.freq_base_swa", 10000.0), 1.0)

    def model(
        self,
        *,
        mixers: Sequence[_core.AttentionSpec],
        feed_forward: _core.GatedSpec,
        post_norms: bool = False,
        embedding_scale: float = 1.0,
        tensors: Mapping[str, _core.Source] | None = None,
    ) -> _core.ModelSpec:
        """Describe the model.

        Args:
            mixers: one for each layer.
            feed_forward: that of every layer.
            post_norms: sub-layer outputs are normed before they join the residual stream.
            embedding_scale: a factor of every embedding.
            tensors: where weights of a layer are that are not the tensors of their own names.
        """
        self.only("final_logit_softcapping", 0)
        self.only("nextn_predict_layers", 0)
        self.only("embedding_length_out", self.n_embd)
        embedding = self._file.tensors.get("token_embd.weight")
        if embedding is None or len(embedding.shape) < 2:
            raise self._file.error("tensor 'token_embd.weight' is missing or not a matrix")
        spec = _core.ModelSpec()
        spec.architecture = self.architecture
        spec.n_embd = self.n_embd
        spec.n_vocab = min(embedding.shape[1], 2**31 - 1)
        spec.norm_eps = self.real("attention.layer_norm_rms_epsilon")
        spec.embedding_scale = embedding_scale
        spec.ropes = self._ropes
        spec.layers = [
            self._layer(i, mixer, feed_forward, post_norms, tensors or {})
            for i, mixer in enumerate(mixers)
        ]
        return spec

    def check_all_read(self) -> None:
        """Refuse a key that nobody has read."""
        prefix = self.architecture + "."
        for key in self._file.metadata:
            name = key.removeprefix(prefix)
            if name == key or name in self._read or name in _HARMLESS:
                continue
            if not name.startswith(_HARMLESS_PREFIXES):
                raise self.error(
                    name[:60],
                    f"is not part of the {self.architecture} models that the native engine knows, "
                    "so its output could be wrong",
                )

    def _key(self, name: str) -> str:
        self._read.add(name)
        return f"{self.architecture}.{name}"

    def _is_zero(self, name: str) -> bool:
        value = self._file.metadata.get(self._key(name))
        return isinstance(value, int | float) and not isinstance(value, bool) and value == 0

    def _uniform_arrays(self, n_layer: int) -> dict[str, object]:
        uniform: dict[str, object] = {}
        for key, value in self._whole.metadata.items():
            if not key.startswith(self.architecture + "."):
                continue
            if isinstance(value, list | np.ndarray) and len(value) == n_layer:
                items = value.tolist() if isinstance(value, np.ndarray) else value
                if all(item == items[0] for item in items):
                    uniform[key] = items[0]
        return uniform

    def _layer(
        self,
        index: int,
        mixer: _core.AttentionSpec,
        feed_forward: _core.GatedSpec,
        post_norms: bool,
        tensors: Mapping[str, _core.Source],
    ) -> _core.LayerSpec:
        layer = _core.LayerSpec()
        layer.mixer = mixer
        layer.feed_forward = feed_forward
        layer.post_norms = post_norms
        layer.sources = {**tensors, **self._fused_sources(index, mixer)}
        return layer

    def _fused_sources(self, index: int, mixer: _core.AttentionSpec) -> dict[str, _core.Source]:
        """Queries, keys and values as row ranges of one tensor, in files that have it."""
        query, key = mixer.n_head * mixer.head_dim, mixer.n_kv_head * mixer.head_dim
        if query + 2 * key >= 2**31:
            return {}  # the core will refuse so many heads
        first = {"attn_q": 0, "attn_k": query, "attn_v": query + key}
        return {
            f"{name}.{kind}": _core.Source(f"attn_qkv.{kind}", row, query + 2 * key)
            for kind in ("weight", "bias")
            if f"blk.{index}.attn_qkv.{kind}" in self._file.tensors
            for name, row in first.items()
        }

    def _add_rope(self, base: float, divisor: float | npt.NDArray[np.float64]) -> int:
        if self.integer("rope.dimension_count", self.head_dim) != self.head_dim:
            raise self.error("rope.dimension_count", "is not the width of a head, as it has to be")
        self.only("rope.dimension_count_swa", self.head_dim)
        self.only("rope.scaling.attn_factor", 1)
        exponents = np.arange(0, self.head_dim, 2, dtype=np.float64) / self.head_dim
        self._ropes.append(_core.RopeSpec(base ** (-exponents) / divisor))
        return len(self._ropes) - 1

    def _linear_scaling(self) -> float:
        """Return the factor by which positions are stretched, where llama.cpp looks for it."""
        kind = self.text("rope.scaling.type", "")
        names = [n for n in ("rope.scaling.factor", "rope.scale_linear") if self.has(n)]
        if kind == "none":
            return 1.0
        if kind not in ("", "linear"):
            raise self.error(
                "rope.scaling.type", f"is {kind[:60]!r}, which is not supported; linear is"
            )
        if names and self._is_zero(names[0]):
            return 1.0  # as llama.cpp reads it
        if kind == "linear" or names:
            return self.real(names[0] if names else "rope.scaling.factor")
        return 1.0

    def _frequency_factors(self) -> npt.NDArray[np.float64]:
        if _FREQUENCY_FACTORS not in self._file.tensors:
            return np.ones(self.head_dim // 2)
        self._known_tensors.add(_FREQUENCY_FACTORS)
        try:
            matrix = _core.read_matrix(self._file.header, _FREQUENCY_FACTORS)
        except _core.GgufError as error:
            raise self._file.error(str(error)) from error
        factors = matrix.row(0).astype(np.float64)
        if factors.shape != (self.head_dim // 2,) or not np.all(factors > 0):
            raise self._file.error(
                f"tensor {_FREQUENCY_FACTORS!r} does not hold one factor per rotated pair"
            )
        return factors
