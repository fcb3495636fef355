"""What the page of a family says of a model, in terms of its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from maglio import _core
from maglio._core import GateActivation
from maglio.engine.native import fused
from maglio.engine.native.metadata import Metadata
from maglio.engine.native.rotation import chosen_by_length, frequencies, scaled
from maglio.gguf import ModelFile

NO_ROPE = -1
"""What :meth:`Keys.attention` takes for layers without rotation."""

MixerSpec = _core.AttentionSpec | _core.DeltaNetSpec | _core.ShortConvSpec
FeedForwardSpec = _core.GatedSpec | _core.ExpertsSpec | _core.ParallelSpec

_WIDEST = 4096
"""Most values of a head for which anything is built; the core checks the rest."""


class Keys(Metadata):
    """The metadata of a model, and descriptions of its parts that are made of it.

    Args:
        file: the open model file.
        n_ctx: positions of a session, by which some files choose a rotation.

    Raises:
        ModelFileError: a key is missing, of a wrong type or implausible, here and in all methods.
    """

    def __init__(self, file: ModelFile, n_ctx: int = 0) -> None:
        super().__init__(file)
        self._n_ctx = n_ctx
        self._ropes: list[_core.RopeSpec] = []
        self._rotated: list[int] = []
        self.n_embd = self.integer("embedding_length")
        self.n_head = self.integer("attention.head_count")
        self.mean_head_width = max(1, self.n_embd // self.n_head)
        self.head_dim = self._head_width("", self.mean_head_width)

    def original_context(self) -> int:
        """Positions that the model was trained for before its context was stretched."""
        return self.integer(
            "rope.scaling.original_context_length", self.integer("context_length", 2**30)
        )

    def local_head_dim(self) -> int:
        """Return the width of heads in layers with a sliding window, where it may be another."""
        return self._head_width("_swa", self.head_dim)

    def attention(
        self,
        *,
        rope: int,
        window: int = 0,
        head_dim: int | None = None,
        n_kv_head: int | None = None,
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
            window: positions a query sees, itself included; 0 for all.
            head_dim: the width of a head; that of layers without a window when ``None``.
            n_kv_head: heads of keys and values; what the file says of all layers when ``None``.
            scale: of the scores; one over the root of the head width when ``None``.
            cap: scores become ``cap * tanh(score / cap)``; 0 for none.
            head_norms: queries and keys are normed per head.
            wide_norms: they are normed over all heads together.
            paired_rows: the file orders their rows for rotation of pairs ``(2i, 2i + 1)``.
            sinks: every query head has a score without a value, ``attn_sinks``.
            gated: the query weight has a gate of the output after the query of each head.
        """
        self.only("attention.causal", True)
        if cap == 0:
            self.only("attn_logit_softcapping", 0)
        spec = _core.AttentionSpec()
        spec.n_head = self.n_head
        if n_kv_head is None:
            n_kv_head = self.integer("attention.head_count_kv", self.n_head)
        spec.n_kv_head = n_kv_head
        spec.head_dim = self.head_dim if head_dim is None else head_dim
        spec.scale = float(spec.head_dim**-0.5) if scale is None else scale
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

    def gated(
        self, activation: GateActivation = GateActivation.SILU, *, n_ff: int | None = None
    ) -> _core.GatedSpec:
        """Describe a gated feed-forward sub-layer, of the length of all layers by default."""
        spec = _core.GatedSpec()
        spec.n_ff = self.integer("feed_forward_length") if n_ff is None else n_ff
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

    def local_rope(self, base: float = 10000.0, *, head_dim: int | None = None) -> int:
        """Add the rotation of layers with a sliding window, which is never scaled.

        Args:
            base: unless the file has one.
            head_dim: as :meth:`attention` takes it.
        """
        base = self.real("rope.freq_base_swa", base)
        width = self._rotated_values(partial=False) if head_dim is None else head_dim
        rotated = self.integer("rope.dimension_count_swa", self._rotated_values(partial=False))
        if rotated != width:
            raise self.error(
                "rope.dimension_count_swa", "is not the width of a head, as it has to be"
            )
        return self._add_rope(frequencies(base, width))

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
            return flags
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
        output_scales: Sequence[float] | None = None,
        n_embd_per_layer: int = 0,
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
            output_scales: a factor of the residual stream after each layer.
            n_embd_per_layer: values of the embedding that each layer has of a token; 0 for none.
            tensors: where weights of a layer are that are not the tensors of their own names.
            output_norm: the tensor that norms what the last layer leaves.
        """
        if logit_cap == 0:
            self.only("final_logit_softcapping", 0)
        if isinstance(feed_forward, FeedForwardSpec):
            feed_forward = [feed_forward] * self.n_layer
        if all(isinstance(part, _core.GatedSpec) for part in feed_forward):
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
        spec.n_embd_per_layer = n_embd_per_layer
        spec.ropes = self._ropes
        spec.sources = {"output_norm.weight": _core.Source(output_norm)}
        spec.layers = [
            self._layer(i, mixer, part, tensors or {})
            for i, (mixer, part) in enumerate(zip(mixers, feed_forward, strict=True))
        ]
        for layer, scale in zip(spec.layers, output_scales or [1.0] * self.n_layer, strict=True):
            layer.pre_norms, layer.post_norms = pre_norms, post_norms
            layer.output_scale = scale
        return spec

    def check_all_read(self) -> None:
        """Refuse a key that nobody has read, but for those that may be what they are by default."""
        rotated = self.integer("rope.dimension_count", self.head_dim)
        for name, default in (
            ("attention.key_length_swa", self.head_dim),
            ("attention.value_length_swa", self.head_dim),
            ("rope.dimension_count_swa", rotated),
        ):
            if name not in self._read:
                self.only(name, default)
        super().check_all_read()

    def _head_width(self, suffix: str, default: int) -> int:
        keys, values = f"attention.key_length{suffix}", f"attention.value_length{suffix}"
        width = self.integer(keys, default)
        if width > _WIDEST or width % 2 != 0:
            raise self.error(keys, f"is {width}, and heads of so many values are not supported")
        if self.integer(values, width) != width:
            raise self.error(values, "is not the width of keys, as it has to be")
        return width

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
        layer.sources = {
            **tensors,
            **fused.query_key_value(self._file.tensors, index, mixer),
            **fused.heads_of_delta_net(self._file.tensors, index, mixer),
            **fused.gate_and_up_of_experts(self._file.tensors, index, feed_forward),
        }
        return layer

    def _add_rope(self, inverse: npt.NDArray[np.float64], magnitude: float = 1.0) -> int:
        self._ropes.append(_core.RopeSpec(inverse, magnitude))
        self._rotated.append(2 * len(inverse))
        return len(self._ropes) - 1

    def _rotated_values(self, partial: bool) -> int:
        rotated = self.integer("rope.dimension_count", self.head_dim)
        if partial and rotated % 2 == 0 and rotated <= self.head_dim:
            return rotated
        if rotated != self.head_dim:
            raise self.error("rope.dimension_count", "is not the width of a head, as it has to be")
        return rotated
