"""A slow, obvious forward pass in numpy: the definition the engines are compared with.

It reads a GGUF file through the ``gguf`` package, dequantizes every weight and computes the whole
sequence at once with a causal mask, without cache, batching or activation quantization. Each family
is as llama.cpp defines it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader
from gguf.quants import dequantize

from support.expert_twin import GATINGS, Router, softmax
from support.recurrences import by_group, convolved, delta_net

Array = npt.NDArray[Any]

PARTS = ("gate", "up", "gate_up", "down")
PAIRED = ("llama", "smollm3", "granite", "granitemoe", "glm4", "mistral3")
LOCAL_EVERY = {"gemma2": 2, "gpt-oss": 2, "gemma3": 6, "olmo2": 4, "exaone4": 4}


class Reference:
    """The model in a GGUF file, for sessions of ``n_ctx`` positions.

    ``dtype`` is the type of all arithmetic. With ``kv_cache="q8_0"``, keys, values and queries are
    rounded to 8 bits as the engines do.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        dtype: npt.DTypeLike = np.float64,
        n_ctx: int = 0,
        kv_cache: str = "f16",
    ) -> None:
        reader = GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._fields = reader.fields
        self._dtype = np.dtype(dtype)
        self._rounds_cache = kv_cache == "q8_0"
        self.family: str = self._fields["general.architecture"].contents()
        self.n_layer: int = self._key("block_count")
        self.n_embd: int = self._key("embedding_length")
        self.n_head: int = self._key("attention.head_count")
        kv_heads = self._key("attention.head_count_kv", self.n_head)
        self.n_kv_head: int = max(kv_heads) if isinstance(kv_heads, list) else kv_heads
        self.head_dim: int = self._key("attention.key_length", self.n_embd // self.n_head)
        self.eps: float = self._key("attention.layer_norm_rms_epsilon")
        self.window: int = self._key("attention.sliding_window", 0)
        self.rope_base: float = self._key("rope.freq_base", 10000.0)
        self.rope_scale: float = self._key(
            "rope.scaling.factor", self._key("rope.scale_linear", 1.0)
        )
        self.router = self._router()
        period = LOCAL_EVERY.get(self.family, 1)
        self.local_every: int | list[bool] = self._key("attention.sliding_window_pattern", period)
        if self.family == "exaone4" and self.n_layer != 64:
            self.window = 0
        self.n_ctx = n_ctx or self._key("context_length")
        self.n_original: int = self._key(
            "rope.scaling.original_context_length", self._key("context_length")
        )
        self.n_rotated: int = self._key("rope.dimension_count", self.head_dim)
        self.local_head_dim: int = self._key("attention.key_length_swa", self.head_dim)
        self.n_shared: int = self._key("attention.shared_kv_layers", 0)
        self.n_per_layer: int = self._key("embedding_length_per_layer_input", 0)
        self.yarn: bool = self._key("rope.scaling.type", "") == "yarn"
        self.magnitude: float = self._key("rope.scaling.attn_factor", 1.0)
        self.temperature: float = self._key("attention.temperature_scale", 0.0)
        gemma2, gemma = self.family == "gemma2", self.family.startswith("gemma")
        self.score_cap: float = self._key("attn_logit_softcapping", 50.0 if gemma2 else 0.0)
        capped = self.family in ("gemma2", "gemma4")
        self.logit_cap: float = self._key("final_logit_softcapping", 30.0 if capped else 0.0)
        root = float(np.sqrt(self.n_embd)) if gemma else 1.0
        self.embedding_scale: float = self._key("embedding_scale", 0.0) or root
        self.residual_scale: float = self._key("residual_scale", 0.0) or 1.0
        self.logit_scale: float = self._key("logit_scale", 1.0)
        self.score_scale: float = self._key("attention.scale", 0.0) or self.head_dim**-0.5
        self.norms_values = self.family == "gemma4"
        if self.family == "gemma4":
            self.score_scale = 1.0
        self.activation = swiglu
        if gemma or self.family == "gpt-oss":
            self.activation = geglu if gemma else clamped_swiglu

    def logits(self, tokens: Sequence[int]) -> Array:
        """Return the logits ``(len(tokens), vocab)`` at every position."""
        embedding = self._weight("token_embd.weight")
        x = embedding[np.asarray(tokens)] * self._dtype.type(self.embedding_scale)
        inputs = self._layer_inputs(tokens, x) if self.n_per_layer else None
        self._kept: dict[int, tuple[Array, Array]] = {}
        for layer in range(self.n_layer):
            x = self._block(layer, x)
            name = f"blk.{layer}."
            if inputs is not None:
                h = geglu(self._linear(x, name + "inp_gate"), inputs[:, layer])
                x = x + self._norm(self._linear(h, name + "proj"), name + "post_norm.weight")
            if name + "layer_output_scale.weight" in self.tensors:
                x = x * self._weight(name + "layer_output_scale.weight")
        head = embedding if "output.weight" not in self.tensors else self._weight("output.weight")
        norm = "token_embd_norm.weight" if self.family.startswith("lfm2") else "output_norm.weight"
        logits = self._norm(x, norm) @ head.T / self._dtype.type(self.logit_scale)
        return soft_cap(logits, self.logit_cap)

    def _layer_inputs(self, tokens: Sequence[int], x: Array) -> Array:
        """Return the embeddings ``(token, layer, n_per_layer)`` that layers have of tokens."""
        shape = (len(tokens), self.n_layer, self.n_per_layer)
        projected = self._linear(x, "per_layer_model_proj").reshape(shape) / np.sqrt(self.n_embd)
        own = self._weight("per_layer_token_embd.weight")[np.asarray(tokens)].reshape(shape)
        projected = self._norm(projected, "per_layer_proj_norm.weight")
        return (projected + own * np.sqrt(self.n_per_layer)) / np.sqrt(2.0)

    def _block(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}."
        scale = self._dtype.type(self.residual_scale)
        after, before = name + "post_attention_norm.weight", name + "ffn_norm.weight"
        if self.family in ("gpt-oss", "qwen35", "qwen35moe", "qwen3next"):  # of another name
            after, before = "", after
        h = self._mixer(layer, self._norm_if_there(x, name + "attn_norm.weight"))
        x = x + scale * self._norm_if_there(h, after)
        h = self._norm_if_there(x, before)
        dense = name + "ffn_gate_inp.weight" not in self.tensors
        if name + "pre_ffw_norm_2.weight" in self.tensors:
            h = self._beside(layer, h, x)
        else:
            h = self._dense(layer, h) if dense else self._experts(layer, h)
        return x + scale * self._norm_if_there(h, name + "post_ffw_norm.weight")

    def _dense(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.ffn_"
        if name + "gate.weight" in self.tensors:
            gate, up = self._linear(x, name + "gate"), self._linear(x, name + "up")
        else:
            gate, up = np.split(self._linear(x, name + "up"), 2, axis=1)
        return self._linear(self.activation(gate, up), name + "down")

    def _beside(self, layer: int, normed: Array, x: Array) -> Array:
        """Return the sum of a dense sub-layer and of experts, whose router has its own norm."""
        name = f"blk.{layer}."
        routed = self._norm(x, name + "ffn_gate_inp.scale") / np.sqrt(self.n_embd)
        experts = self._experts(layer, self._norm(x, name + "pre_ffw_norm_2.weight"), routed)
        dense = self._norm(self._dense(layer, normed), name + "post_ffw_norm_1.weight")
        return dense + self._norm(experts, name + "post_ffw_norm_2.weight")

    def _experts(self, layer: int, x: Array, routed: Array | None = None) -> Array:
        name = f"blk.{layer}.ffn_"
        products = self._linear(x if routed is None else routed, name + "gate_inp")
        bias = self._weight_or_zero(f"blk.{layer}.exp_probs_b.bias")
        linear = {part: self._linear_of_experts(name + part) for part in PARTS}
        out = np.zeros_like(x)
        for row in range(len(x)):
            for e, weight in self.router.choose(products[row], bias):
                if name + "gate_up_exps.weight" in self.tensors:
                    gate, up = np.split(linear["gate_up"](e, x[row]), 2)
                else:
                    gate, up = (linear[part](e, x[row]) for part in ("gate", "up"))
                out[row] += weight * linear["down"](e, self.activation(gate, up))
        if name + "up_shexp.weight" in self.tensors:
            gate, up = (self._linear(x, f"{name}{part}_shexp") for part in ("gate", "up"))
            shared = self._linear(self.activation(gate, up), name + "down_shexp")
            if name + "gate_inp_shexp.weight" in self.tensors:
                by_row = x @ self._weight(name + "gate_inp_shexp.weight").reshape(-1)
                shared = sigmoid(by_row)[:, None] * shared
            out += shared
        return out

    def _linear_of_experts(self, name: str) -> Callable[[int, Array], Array]:
        weight = self._weight_or_zero(name + "_exps.weight")
        bias = self._weight_or_zero(name + "_exps.bias")
        if name + "_exps.scale" in self.tensors:
            weight = weight * self._weight(name + "_exps.scale")[:, None, None]
        return lambda e, x: weight[e] @ x + (bias[e] if np.ndim(bias) else 0.0)

    def _mixer(self, layer: int, x: Array) -> Array:
        if f"blk.{layer}.ssm_a" in self.tensors:
            return self._delta_net(layer, x)
        if f"blk.{layer}.shortconv.conv.weight" in self.tensors:
            return self._short_conv(layer, x)
        return self._attention(layer, x)

    def _delta_net(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}."
        n_k, n_v = self._key("ssm.group_count"), self._key("ssm.time_step_rank")
        grouped = self.family == "qwen3next"
        if name + "ssm_in.weight" in self.tensors:
            width = self._key("ssm.state_size")
            parts = [width, width, n_v // n_k * width, n_v // n_k * width]
            *mixed, gate = by_group(self._linear(x, name + "ssm_in"), n_k, parts)
            mixed = np.concatenate(mixed, axis=1)
        else:
            mixed, gate = (self._linear(x, name + part) for part in ("attn_qkv", "attn_gate"))
        if grouped:
            parts = [n_v // n_k, n_v // n_k]
            rate, decay = by_group(self._linear(x, name + "ssm_ba"), n_k, parts)
        else:
            rate, decay = (self._linear(x, name + f"ssm_{part}") for part in ("beta", "alpha"))
        mixed = swiglu(convolved(mixed, self._weight(name + "ssm_conv1d.weight")), np.ones(1))
        a, bias = self._weight(name + "ssm_a"), self._weight(name + "ssm_dt.bias")
        decay = np.exp(a * np.logaddexp(0, decay + bias))
        key_of = [head // (n_v // n_k) if grouped else head % n_k for head in range(n_v)]
        out = delta_net(mixed, sigmoid(rate), decay, n_k=n_k, key_of=key_of, eps=self.eps)
        out = self._norm(out, name + "ssm_norm.weight").reshape(len(x), -1)
        return self._linear(swiglu(gate, out), name + "ssm_out")

    def _short_conv(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.shortconv."
        before, after, fed = np.split(self._linear(x, name + "in_proj"), 3, axis=1)
        mixed = convolved(before * fed, self._weight(name + "conv.weight"))
        return self._linear(after * mixed, name + "out_proj")

    def _attention(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.attn_"
        n = len(x)
        local = self._is_local(layer)
        q, gate = self._heads(layer, x, "q"), self._gate(layer, x)
        if layer < self.n_layer - self.n_shared:
            self._kept[layer] = self._heads(layer, x, "k"), self._heads(layer, x, "v")
        k, v = self._kept[self._kv_layer(layer)]
        q = (
            q
            * (1.0 + self.temperature * np.log(np.arange(n) // self.n_original + 1.0))[
                :, None, None
            ]
        )
        if self._rounds_cache:
            q, k, v = q8_0(q), q8_0(k, np.float16), q8_0(v, np.float16)
        masked = causal_mask(n, self.window if local else 0)
        group = self.n_head // k.shape[1]
        out = np.empty_like(q)
        for head in range(self.n_head):
            scores = q[:, head] @ k[:, head // group].T * self._dtype.type(self.score_scale)
            scores = soft_cap(scores, self.score_cap)
            scores[masked] = -np.inf
            if name + "sinks.weight" in self.tensors:  # a score of its own, without a value
                sink = np.full((n, 1), self._weight(name + "sinks.weight")[head])
                weights = softmax(np.concatenate([scores, sink], axis=1))[:, :-1]
            else:
                weights = softmax(scores)
            out[:, head] = weights @ v[:, head // group]
        if gate.size:
            out = out * sigmoid(gate)
        return self._linear(out.reshape(n, -1), name + "output")

    def _heads(self, layer: int, x: Array, part: str) -> Array:
        """Return queries, keys or values as ``(token, head, dim)``, normed and rotated."""
        local = self._is_local(layer)
        heads = self._projection(layer, x, part)
        norm = f"blk.{layer}.attn_{part}_norm.weight"
        if self.family == "olmo2" and part != "v":  # over all heads
            heads = self._norm(heads, norm)
        head_dim = self.local_head_dim if local else self.head_dim
        if part == "q":  # perhaps with gates
            heads = heads.reshape(len(x), self.n_head, -1)[..., :head_dim]
        heads = heads.reshape(len(x), -1, head_dim)
        if part == "v":
            return self._unweighted_norm(heads) if self.norms_values else heads
        if self.family != "olmo2":
            heads = self._norm_if_there(heads, norm)
        return self._rotate(heads, local) if self._rotates(layer, local) else heads

    def _gate(self, layer: int, x: Array) -> Array:
        """Return the gates of queries, of width 0 if there are none."""
        heads = self._projection(layer, x, "q").reshape(len(x), self.n_head, -1)
        return heads[..., self.local_head_dim if self._is_local(layer) else self.head_dim :]

    def _projection(self, layer: int, x: Array, part: str) -> Array:
        name = f"blk.{layer}.attn_"
        if name + "qkv.weight" in self.tensors:
            n_q, n_kv = self.n_head * self.head_dim, self.n_kv_head * self.head_dim
            fused = np.split(self._linear(x, name + "qkv"), [n_q, n_q + n_kv], axis=1)
            return fused["qkv".index(part)]
        if part == "v" and name + "v.weight" not in self.tensors:
            part = "k"
        return self._linear(x, name + part)

    def _is_local(self, layer: int) -> bool:
        if isinstance(self.local_every, list):
            return self.local_every[layer]
        return self.window > 0 and (layer + 1) % self.local_every != 0

    def _kv_layer(self, layer: int) -> int:
        first_shared = self.n_layer - self.n_shared
        if layer < first_shared:
            return layer
        return first_shared - (2 if self._is_local(layer) else 1)

    def _rotates(self, layer: int, local: bool) -> bool:
        if self.family == "smollm3":
            return (layer + 1) % 4 != 0
        if self.family == "exaone4" and self.window:
            return local
        return bool(self._key("rope.scaling.finetuned", True)) or self.family != "granite"

    def _rotate(self, heads: Array, local: bool) -> Array:
        unscaled = local and self.family in ("gemma3", "olmo2", "gemma4")
        base, n_rotated = self.rope_base, self.n_rotated
        if local and self.family in ("gemma3", "gemma4"):
            base, n_rotated = 10000.0, self.local_head_dim
        if not unscaled and self.yarn:
            frequency, magnitude = self._yarn()
        else:
            frequency = base ** (-np.arange(0, n_rotated, 2) / n_rotated)
            magnitude = 1.0 if self.family != "phi3" else self.magnitude
            frequency = frequency / (1.0 if unscaled else self.rope_scale)
        length = "long" if self.n_ctx > self.n_original else "short"
        for name in ("rope_freqs.weight", f"rope_factors_{length}.weight"):
            if name in self.tensors and not unscaled:
                frequency = frequency / self._weight(name)
        rotated, rest = heads[..., :n_rotated], heads[..., n_rotated:]
        rotated = rope(rotated, frequency, interleaved=self.family in PAIRED)
        return np.concatenate([rotated * magnitude, rest], axis=-1)

    def _yarn(self) -> tuple[Array, float]:
        """Frequencies and magnitude by the formulae of the paper, one pair at a time."""
        factor = self.rope_scale
        fast = self._key("rope.scaling.yarn_beta_fast", 32.0)
        slow = self._key("rope.scaling.yarn_beta_slow", 1.0)
        # The pair i turns n_original * base^(-2 i / d) / 2 pi times within the original context.
        pair_of = {
            turns: self.n_rotated
            * np.log(self.n_original / (turns * 2 * np.pi))
            / (2 * np.log(self.rope_base))
            for turns in (fast, slow)
        }
        low = max(np.floor(pair_of[fast]), 0)
        high = min(np.ceil(pair_of[slow]), self.n_rotated - 1)
        frequencies = []
        for i in range(self.n_rotated // 2):
            plain = self.rope_base ** (-2 * i / self.n_rotated)
            stretched = min(max((i - low) / max(high - low, 0.001), 0.0), 1.0)
            frequencies.append(plain / factor * stretched + plain * (1 - stretched))
        multiplier = self._key("rope.scaling.yarn_log_multiplier", 0.0)
        magnitude = 0.1 * np.log(factor) + 1.0
        if multiplier:
            magnitude /= 0.1 * multiplier * np.log(factor) + 1.0
        return np.array(frequencies), magnitude * self.magnitude

    def _router(self) -> Router:
        n_used = self._key("expert_used_count", 0)
        if self.family == "gpt-oss":
            return Router(n_used, "softmax of chosen", normalizes=False)
        if self.family == "lfm2moe":
            return Router(n_used, GATINGS[self._key("expert_gating_func")])
        return Router(n_used, normalizes=self.family != "qwen2moe")

    def _weight_or_zero(self, name: str) -> Array | float:
        return self._weight(name) if name in self.tensors else 0.0

    def _norm_if_there(self, x: Array, name: str) -> Array:
        return self._norm(x, name) if name in self.tensors else x

    def _linear(self, x: Array, name: str) -> Array:
        y = x @ self._weight(name + ".weight").T
        return y + self._weight(name + ".bias") if name + ".bias" in self.tensors else y

    def _norm(self, x: Array, name: str) -> Array:
        return self._unweighted_norm(x) * self._weight(name)

    def _unweighted_norm(self, x: Array) -> Array:
        mean_square = np.mean(x * x, axis=-1, keepdims=True)
        return x / np.sqrt(mean_square + self._dtype.type(self.eps))

    def _weight(self, name: str) -> Array:
        tensor = self.tensors[name]
        return dequantize(tensor.data, tensor.tensor_type).astype(self._dtype, copy=False)

    def _key(self, name: str, default: Any = None) -> Any:
        field = self._fields.get(f"{self.family}.{name}")
        if field is None and default is None:
            raise KeyError(f"{self.family}.{name}")
        return default if field is None else field.contents()


def rope(x: Array, frequency: Array, *, interleaved: bool) -> Array:
    """Rotate ``(position, head, dim)``: pairs (2i, 2i+1), or (i, i + dim/2)."""
    n, _, dim = x.shape
    angle = np.arange(n)[:, None, None] * frequency
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    first = slice(0, None, 2) if interleaved else slice(0, dim // 2)
    second = slice(1, None, 2) if interleaved else slice(dim // 2, None)
    out = np.empty_like(x)
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def q8_0(x: Array, scale_type: npt.DTypeLike = np.float64) -> Array:
    """Round the last axis to 8 bits per block of 32 values: scale = max |x| / 127."""
    out = np.empty_like(x)
    for begin in range(0, x.shape[-1], 32):
        block = x[..., begin : begin + 32]
        scale = np.abs(block).max(axis=-1, keepdims=True) / 127.0
        codes = np.rint(block / np.where(scale == 0.0, 1.0, scale))
        out[..., begin : begin + 32] = codes * scale.astype(scale_type).astype(x.dtype)
    return out


def causal_mask(n: int, window: int) -> npt.NDArray[np.bool_]:
    """Return True where a query (row) must not see a key (column).

    With a window, a query sees itself and the ``window - 1`` positions before it.
    """
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    masked = distance < 0
    return masked | (distance >= window) if window else masked


def soft_cap(x: Array, cap: float) -> Array:
    """Keep within ``cap`` smoothly; 0 for no cap."""
    return cap * np.tanh(x / cap) if cap else x


def sigmoid(x: Array) -> Array:
    """``1 / (1 + e^-x)``, written so that large negative values do not overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def swiglu(gate: Array, up: Array) -> Array:
    """SiLU of ``gate``, times ``up``."""
    return gate * sigmoid(gate) * up


def geglu(gate: Array, up: Array) -> Array:
    """GELU of ``gate`` by its tanh approximation, times ``up``."""
    return 0.5 * gate * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (gate + 0.044715 * gate**3))) * up


def clamped_swiglu(gate: Array, up: Array) -> Array:
    """What gpt-oss has instead."""
    x, u = np.minimum(gate, 7.0), np.clip(up, -7.0, 7.0)
    return x * sigmoid(1.702 * x) * (u + 1.0)
