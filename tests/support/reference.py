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
from support.recurrences import convolved, delta_net

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
        self.local_every: int = self._key("attention.sliding_window_pattern", period)
        if self.family == "exaone4" and self.n_layer != 64:
            self.window = 0
        self.n_ctx = n_ctx or self._key("context_length")
        self.n_original: int = self._key(
            "rope.scaling.original_context_length", self._key("context_length")
        )
        self.n_rotated: int = self._key("rope.dimension_count", self.head_dim)
        self.yarn: bool = self._key("rope.scaling.type", "") == "yarn"
        self.magnitude: float = self._key("rope.scaling.attn_factor", 1.0)
        self.temperature: float = self._key("attention.temperature_scale", 0.0)
        gemma2, gemma = self.family == "gemma2", self.family.startswith("gemma")
        self.score_cap: float = self._key("attn_logit_softcapping", 50.0 if gemma2 else 0.0)
        self.logit_cap: float = self._key("final_logit_softcapping", 30.0 if gemma2 else 0.0)
        root = float(np.sqrt(self.n_embd)) if gemma else 1.0
        self.embedding_scale: float = self._key("embedding_scale", 0.0) or root
        self.residual_scale: float = self._key("residual_scale", 0.0) or 1.0
        self.logit_scale: float = self._key("logit_scale", 1.0)
        self.score_scale: float = self._key("attention.scale", 0.0) or self.head_dim**-0.5
        self.activation = swiglu
        if gemma or self.family == "gpt-oss":
            self.activation = geglu if gemma else clamped_swiglu

    def logits(self, tokens: Sequence[int]) -> Array:
        """Return the logits ``(len(tokens), vocab)`` at every position."""
        embedding = self._weight("token_embd.weight")
        x = embedding[np.asarray(tokens)] * self._dtype.type(self.embedding_scale)
        for layer in range(self.n_layer):
            x = self._block(layer, x)
        head = embedding if "output.weight" not in self.tensors else self._weight("output.weight")
        norm = "token_embd_norm.weight" if self.family.startswith("lfm2") else "output_norm.weight"
        logits = self._norm(x, norm) @ head.T / self._dtype.type(self.logit_scale)
        return soft_cap(logits, self.logit_cap)

    def _block(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}."
        scale = self._dtype.type(self.residual_scale)
        after, before = name + "post_attention_norm.weight", name + "ffn_norm.weight"
        if self.family in ("gpt-oss", "qwen35", "qwen35moe"):  # of another name
            after, before = "", after
        h = self._mixer(layer, self._norm_if_there(x, name + "attn_norm.weight"))
        x = x + scale * self._norm_if_there(h, after)
        h = self._norm_if_there(x, before)
        dense = name + "ffn_gate_inp.weight" not in self.tensors
        h = self._dense(layer, h) if dense else self._experts(layer, h)
        return x + scale * self._norm_if_there(h, name + "post_ffw_norm.weight")

    def _dense(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.ffn_"
        if name + "gate.weight" in self.tensors:
            gate, up = self._linear(x, name + "gate"), self._linear(x, name + "up")
        else:
            gate, up = np.split(self._linear(x, name + "up"), 2, axis=1)
        return self._linear(self.activation(gate, up), name + "down")

    def _experts(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.ffn_"
        products = self._linear(x, name + "gate_inp")
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
        taps = self._weight(name + "ssm_conv1d.weight")
        mixed = swiglu(convolved(self._linear(x, name + "attn_qkv"), taps), np.ones(1))
        rate = sigmoid(self._linear(x, name + "ssm_beta"))
        a, bias = self._weight(name + "ssm_a"), self._weight(name + "ssm_dt.bias")
        decay = np.exp(a * np.logaddexp(0, x @ self._weight(name + "ssm_alpha.weight").T + bias))
        out = delta_net(mixed, rate, decay, n_k=n_k, n_v=n_v, eps=self.eps)
        out = self._norm(out, name + "ssm_norm.weight").reshape(len(x), -1)
        return self._linear(swiglu(self._linear(x, name + "attn_gate"), out), name + "ssm_out")

    def _short_conv(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.shortconv."
        before, after, fed = np.split(self._linear(x, name + "in_proj"), 3, axis=1)
        mixed = convolved(before * fed, self._weight(name + "conv.weight"))
        return self._linear(after * mixed, name + "out_proj")

    def _attention(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.attn_"
        n = len(x)
        local = self.window > 0 and (layer + 1) % self.local_every != 0
        n_q, n_kv = self.n_head * self.head_dim, self.n_kv_head * self.head_dim
        if name + "qkv.weight" in self.tensors:
            q, k, v = np.split(self._linear(x, name + "qkv"), [n_q, n_q + n_kv], axis=1)
        else:
            q, k, v = (self._linear(x, name + part) for part in "qkv")
        if self.family == "olmo2":  # over all heads
            q, k = self._norm(q, name + "q_norm.weight"), self._norm(k, name + "k_norm.weight")
        q = q.reshape(n, self.n_head, -1)
        q, gate = q[..., : self.head_dim], q[..., self.head_dim :]
        k, v = (heads.reshape(n, self.n_kv_head, self.head_dim) for heads in (k, v))
        if self.family != "olmo2":
            q = self._norm_if_there(q, name + "q_norm.weight")
            k = self._norm_if_there(k, name + "k_norm.weight")
        if self._rotates(layer, local):
            q, k = (self._rotate(heads, local) for heads in (q, k))
        q = (
            q
            * (1.0 + self.temperature * np.log(np.arange(n) // self.n_original + 1.0))[
                :, None, None
            ]
        )
        if self._rounds_cache:
            q, k, v = q8_0(q), q8_0(k, np.float16), q8_0(v, np.float16)
        masked = causal_mask(n, self.window if local else 0)
        group = self.n_head // self.n_kv_head
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

    def _rotates(self, layer: int, local: bool) -> bool:
        if self.family == "smollm3":
            return (layer + 1) % 4 != 0
        if self.family == "exaone4" and self.window:
            return local
        return bool(self._key("rope.scaling.finetuned", True)) or self.family != "granite"

    def _rotate(self, heads: Array, local: bool) -> Array:
        unscaled = local and self.family in ("gemma3", "olmo2")
        base = 10000.0 if local and self.family == "gemma3" else self.rope_base
        if not unscaled and self.yarn:
            frequency, magnitude = self._yarn()
        else:
            frequency = base ** (-np.arange(0, self.n_rotated, 2) / self.n_rotated)
            magnitude = 1.0 if self.family != "phi3" else self.magnitude
            frequency = frequency / (1.0 if unscaled else self.rope_scale)
        length = "long" if self.n_ctx > self.n_original else "short"
        for name in ("rope_freqs.weight", f"rope_factors_{length}.weight"):
            if name in self.tensors and not unscaled:
                frequency = frequency / self._weight(name)
        rotated, rest = heads[..., : self.n_rotated], heads[..., self.n_rotated :]
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
        mean_square = np.mean(x * x, axis=-1, keepdims=True)
        return x / np.sqrt(mean_square + self._dtype.type(self.eps)) * self._weight(name)

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
