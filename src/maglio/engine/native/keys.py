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
from maglio.engine.native import fused
from maglio.engine.native.harmless import HARMLESS, HARMLESS_PREFIXES
from maglio.engine.native.rotation import chosen_by_length, frequencies, scaled
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile

NO_ROPE = -1
"""What :meth:`Keys.attention` takes for layers without rotation."""

MixerSpec = _core.AttentionSpec | _core.DeltaNetSpec | _core.ShortConvSpec
FeedForwardSpec = _core.GatedSpec | _core.ExpertsSpec

_PLAUSIBLE = 4096
"""Most layers, and values of a head, for which anything is built; the core checks the rest."""


class Keys:
    """The metadata of a model under its architecture's name; remembers what was read.

    An array of one value per layer that are all equal is read as that value.

    Args:
        file: the open model file.
        n_ctx: positions of a session, by which some files choose a rotation.

    Raises:
        ModelFileError: a key is missing, of a wrong type or implausible, here and in all methods.
    """

    def __init__(self, file: ModelFile, n_ctx: int = 0) -> None:
        self.architecture = file.text("general.architecture")
        self._read: set[str] = set()
        self._n_ctx = n_ctx
        self._ropes: list[_core.RopeSpec] = []
        self._rotated: list[int] = []
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

    def factor(self, name: str, none: float = 1.0) -> float:
        """Return a positive number; ``none`` if the key is absent or 0."""
        return none if self._is_zero(name) or not self.has(name) else self.real(name)

    def text(self, name: str, default: str) -> str:
        """Return a string."""
        return self._file.text(self._key(name)) if self.has(name) else default

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a truth value."""
        self.only(name, default, not default)
        return bool(self._file.metadata.get(self._key(name), default))

    def flags(self, name: str) -> Sequence[object] | None:
        """Return an array of one truth value per layer, or ``None`` if the key holds no array."""
        flags = self.array(name)
        if flags is None:
            return None
        if len(flags) != self.n_layer or not all(isinstance(f, bool | np.bool_) for f in flags):
            raise self.error(name, "is not one truth value per layer")
        return flags

    def array(self, name: str) -> list[object] | None:
        """Return the values of an array, or ``None`` if the key holds none."""
        value = self._whole.metadata.get(self._key(name))
        return list(value) if isinstance(value, list | np.ndarray) else None

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

    def ignore_tensors(self, *prefixes: str) -> None:
        """Take note of tensors that are left out."""
        names = map(str, self._file.tensors)
        self._known_tensors.update(name for name in names if name.startswith(prefixes))

    def vector(self, name: str) -> npt.NDArray[np.float64] | None:
        """Return the values of a tensor, or ``None`` if the file has none of that name."""
        if name not in self._file.tensors:
            return None
        self._known_tensors.add(name)
        try:
            return np.asarray(_core.read_vector(self._file.header, name), np.float64)
        except _core.GgufError as error:
            raise self._file.error(str(error)) from error

    def file_error(self, problem: str) -> ModelFileError:
        """Make an error about the file."""
        return self._file.error(problem)

    def original_context(self) -> int:
        """Positions that the model was trained for before its context was stretched."""
        return self.integer(
            "rope.scaling.original_context_length", self.integer("context_length", 2**30)
        )

    def attention(
        self,
        *,
        rope: int,
        n_kv_head: int | None = None,
        window: int = 0,
        scale: float | None = None,
        cap: float = 0.0,
        head_norms: bool = False,
        wide_norms: bool = False,
        paired_rows: bool = False,
        sinks: bool = False,
        gated: bool = False,
    ) -> _core.AttentionSpec:
        """Describe the attention of a layer.

        Args:
            rope: what :meth:`rope` returned, or :data:`NO_ROPE`.
            n_kv_head: heads of keys and values; what the file says of all layers when ``None``.
            window: positions a query sees, itself included; 0 for all.
            scale: of the scores; one over the root of the head width when ``None``.
            cap: scores become ``cap * tanh(score / cap)``; 0 for none.
            head_norms: queries and keys are normed per head.
            wide_norms: they are normed over all heads together.
            paired_rows: the file orders their rows for rotation of pairs ``(2i, 2i + 1)``.
            sinks: every query head has a score without a value, ``attn_sinks``.
            gated: the query weight has a gate of the output after the query of each head.
        """
        if self.integer("attention.value_length", self.head_dim) != self.head_dim:
            raise self.error("attention.value_length", "is not the width of keys, as it has to be")
        for name in ("attention.key_length_swa", "attention.value_length_swa"):
            self.only(name, self.head_dim)
        self.only("attention.causal", True)
        if cap == 0:
            self.only("attn_logit_softcapping", 0)
        spec = _core.AttentionSpec()
        spec.n_head = self.n_head
        if n_kv_head is None:
            n_kv_head = self.integer("attention.head_count_kv", self.n_head)
        spec.n_kv_head = n_kv_head
        spec.head_dim = self.head_dim
        spec.scale = float(self.head_dim**-0.5) if scale is None else scale
        spec.window = window
        spec.rope = rope
        spec.rotated = 0 if rope == NO_ROPE else self._rotated[rope]
        spec.cap = cap
        spec.head_norms = head_norms
        spec.wide_norms = wide_norms
        spec.paired_rows = paired_rows
        spec.sinks = sinks
        spec.gated = gated
        return spec

    def gated(self, activation: GateActivation = GateActivation.SILU) -> _core.GatedSpec:
        """Describe a gated feed-forward sub-layer."""
        spec = _core.GatedSpec()
        spec.n_ff = self.integer("feed_forward_length")
        spec.activation = activation
        return spec

    def rope(
        self,
        *,
        base: float | None = None,
        partial: bool = False,
        yarn: bool = False,
        yarn_details: bool = False,
    ) -> int:
        """Add the rotation of layers that see the whole context, scaled as the file says.

        Args:
            base: what the frequencies are powers of; ``rope.freq_base`` when ``None``.
            partial: it may be of the first values of a head.
            yarn: the scaling may be YaRN.
            yarn_details: the file may say where YaRN's ramp begins and ends, and its multiplier.
        """
        base = self.real("rope.freq_base", 10000.0) if base is None else base
        rotated = self._rotated_values(partial)
        return self._add_rope(*scaled(self, base, rotated, yarn=yarn, details=yarn_details))

    def local_rope(self, base: float = 10000.0) -> int:
        """Add the rotation of layers with a sliding window, which is never scaled."""
        base = self.real("rope.freq_base_swa", base)
        return self._add_rope(frequencies(base, self._rotated_values(partial=False)))

    def long_rope(self, *, partial: bool = False) -> int:
        """Add a rotation whose factors are those for long contexts if sessions may become long."""
        base = self.real("rope.freq_base", 10000.0)
        rotated = self._rotated_values(partial)
        long = self._n_ctx > self.original_context()
        return self._add_rope(*chosen_by_length(self, base, rotated, long=long))

    def local_layers(self, period: int) -> list[bool]:
        """Which layers have a sliding window: all but every n-th, unless the file says which."""
        name = "attention.sliding_window_pattern"
        flags = self.flags(name)
        if flags is not None:
            return [bool(flag) for flag in flags]
        period = self.count(name, period)
        return [period == 0 or (layer + 1) % period != 0 for layer in self.layers]

    def fused_gate(self) -> fused.Sources:
        """Gate and up projections as halves of ``ffn_up``, in this order."""
        return fused.gate_and_up(self.integer("feed_forward_length"))

    def model(
        self,
        *,
        mixers: Sequence[MixerSpec],
        feed_forward: FeedForwardSpec | Sequence[FeedForwardSpec],
        pre_norms: bool = True,
        post_norms: bool = False,
        embedding_scale: float = 1.0,
        residual_scale: float = 1.0,
        logit_scale: float = 1.0,
        logit_cap: float = 0.0,
        tensors: Mapping[str, _core.Source] | None = None,
        output_norm: str = "output_norm.weight",
    ) -> _core.ModelSpec:
        """Describe the model.

        Args:
            mixers: one for each layer.
            feed_forward: that of every layer, or one for each.
            pre_norms: sub-layer inputs are normed.
            post_norms: sub-layer outputs are normed before they join the residual stream.
            embedding_scale: a factor of every embedding.
            residual_scale: a factor of what sub-layers add to the residual stream.
            logit_scale: a factor of every logit.
            logit_cap: logits become ``cap * tanh(logit / cap)``; 0 for none.
            tensors: where weights of a layer are that are not the tensors of their own names.
            output_norm: the tensor that norms what the last layer leaves.
        """
        if logit_cap == 0:
            self.only("final_logit_softcapping", 0)
        if isinstance(feed_forward, FeedForwardSpec):
            feed_forward = [feed_forward] * self.n_layer
        if not any(isinstance(part, _core.ExpertsSpec) for part in feed_forward):
            for name in ("expert_count", "expert_group_count", "expert_group_used_count"):
                self.only(name, 0)
        if "nextn_predict_layers" not in self._read:
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
        spec.residual_scale = residual_scale
        spec.logit_scale = logit_scale
        spec.logit_cap = logit_cap
        spec.ropes = self._ropes
        spec.sources = {"output_norm.weight": _core.Source(output_norm)}
        spec.layers = [
            self._layer(i, mixer, part, tensors or {})
            for i, (mixer, part) in enumerate(zip(mixers, feed_forward, strict=True))
        ]
        for layer in spec.layers:
            layer.pre_norms, layer.post_norms = pre_norms, post_norms
        return spec

    def check_all_read(self) -> None:
        """Refuse a key that nobody has read."""
        prefix = self.architecture + "."
        for key in self._file.metadata:
            name = key.removeprefix(prefix)
            if name == key or name in self._read or name in HARMLESS:
                continue
            if not name.startswith(HARMLESS_PREFIXES):
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
        mixer: MixerSpec,
        feed_forward: FeedForwardSpec,
        tensors: Mapping[str, _core.Source],
    ) -> _core.LayerSpec:
        layer = _core.LayerSpec()
        layer.mixer = mixer
        layer.feed_forward = feed_forward
        sources = dict(tensors)
        if isinstance(mixer, _core.AttentionSpec):
            sources |= fused.query_key_value(self._file.tensors, index, mixer)
        if isinstance(feed_forward, _core.ExpertsSpec):
            sources |= fused.gate_and_up_of_experts(self._file.tensors, index, feed_forward)
        layer.sources = sources
        return layer

    def _add_rope(self, inverse: npt.NDArray[np.float64], magnitude: float = 1.0) -> int:
        self._ropes.append(_core.RopeSpec(inverse, magnitude))
        self._rotated.append(2 * len(inverse))
        return len(self._ropes) - 1

    def _rotated_values(self, partial: bool) -> int:
        rotated = self.integer("rope.dimension_count", self.head_dim)
        self.only("rope.dimension_count_swa", rotated)
        if partial and rotated % 2 == 0 and rotated <= self.head_dim:
            return rotated
        if rotated != self.head_dim:
            raise self.error("rope.dimension_count", "is not the width of a head, as it has to be")
        return rotated
