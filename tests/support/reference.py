"""A slow, obvious forward pass in numpy: the definition the engines are compared with.

It reads a GGUF file through the ``gguf`` package, dequantizes every weight and computes the whole
sequence at once with a causal mask, without cache, batching or activation quantization. Families:
llama, qwen2, qwen3, gemma3 and qwen3moe, each as llama.cpp defines it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader
from gguf.quants import dequantize

Array = npt.NDArray[Any]

PARTS = ("gate", "up", "down")


class Reference:
    """The model in a GGUF file. ``dtype`` is the type of all arithmetic."""

    def __init__(self, path: Path | str, *, dtype: npt.DTypeLike = np.float64) -> None:
        reader = GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._fields = reader.fields
        self._dtype = np.dtype(dtype)
        self.family: str = self._fields["general.architecture"].contents()
        self.n_layer: int = self._key("block_count")
        self.n_embd: int = self._key("embedding_length")
        self.n_head: int = self._key("attention.head_count")
        self.n_kv_head: int = self._key("attention.head_count_kv", self.n_head)
        self.head_dim: int = self._key("attention.key_length", self.n_embd // self.n_head)
        self.eps: float = self._key("attention.layer_norm_rms_epsilon")
        self.window: int = self._key("attention.sliding_window", 0)
        self.rope_base: float = self._key("rope.freq_base", 10000.0)
        self.rope_scale: float = self._key(
            "rope.scaling.factor", self._key("rope.scale_linear", 1.0)
        )
        self.n_expert: int = self._key("expert_count", 0)
        self.n_used: int = self._key("expert_used_count", 0)
        self.expert_scale: float = self._key("expert_weights_scale", 0.0) or 1.0
        self.local_every: int = self._key("attention.sliding_window_pattern", 6)

    def logits(self, tokens: Sequence[int]) -> Array:
        """Return the logits ``(len(tokens), vocab)`` at every position."""
        embedding = self._weight("token_embd.weight")
        x = embedding[np.asarray(tokens)]
        if self.family == "gemma3":
            x = x * np.sqrt(self._dtype.type(self.n_embd))
        for layer in range(self.n_layer):
            x = self._block(layer, x)
        head = embedding if "output.weight" not in self.tensors else self._weight("output.weight")
        return self._norm(x, "output_norm.weight") @ head.T

    def _block(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}."
        attended = self._attention(layer, self._norm(x, name + "attn_norm.weight"))
        if self.family == "gemma3":
            attended = self._norm(attended, name + "post_attention_norm.weight")
        x = x + attended
        h = self._norm(x, name + "ffn_norm.weight")
        h = self._experts(layer, h) if self.n_expert else self._dense(layer, h)
        if self.family == "gemma3":
            h = self._norm(h, name + "post_ffw_norm.weight")
        return x + h

    def _dense(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.ffn_"
        activation = gelu_tanh if self.family == "gemma3" else silu
        h = activation(self._linear(x, name + "gate")) * self._linear(x, name + "up")
        return self._linear(h, name + "down")

    def _experts(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.ffn_"
        gate, up, down = (self._weight(f"{name}{part}_exps.weight") for part in PARTS)
        probabilities = softmax(self._linear(x, name + "gate_inp"))
        out = np.zeros_like(x)
        for row, p in enumerate(probabilities):
            chosen = np.argsort(-p, kind="stable")[: self.n_used]
            weights = p[chosen] / max(p[chosen].sum(), 2.0**-14) * self.expert_scale
            for expert, weight in zip(chosen, weights, strict=True):
                h = silu(gate[expert] @ x[row]) * (up[expert] @ x[row])
                out[row] += weight * (down[expert] @ h)
        return out

    def _attention(self, layer: int, x: Array) -> Array:
        name = f"blk.{layer}.attn_"
        n = len(x)
        local = self.window > 0 and (layer + 1) % self.local_every != 0
        n_q, n_kv = self.n_head * self.head_dim, self.n_kv_head * self.head_dim
        if name + "qkv.weight" in self.tensors:
            q, k, v = np.split(self._linear(x, name + "qkv"), [n_q, n_q + n_kv], axis=1)
        else:
            q, k, v = (self._linear(x, name + part) for part in "qkv")
        q = q.reshape(n, self.n_head, self.head_dim)
        k, v = (heads.reshape(n, self.n_kv_head, self.head_dim) for heads in (k, v))
        if name + "q_norm.weight" in self.tensors:
            q = self._norm(q, name + "q_norm.weight")
            k = self._norm(k, name + "k_norm.weight")
        base = 10000.0 if local else self.rope_base
        scale = 1.0 if local else self.rope_scale
        interleaved = self.family == "llama"
        q, k = (rope(heads, base, scale, interleaved=interleaved) for heads in (q, k))
        masked = causal_mask(n, self.window if local else 0)
        group = self.n_head // self.n_kv_head
        out = np.empty_like(q)
        for head in range(self.n_head):
            scores = q[:, head] @ k[:, head // group].T / np.sqrt(self._dtype.type(self.head_dim))
            scores[masked] = -np.inf
            out[:, head] = softmax(scores) @ v[:, head // group]
        return self._linear(out.reshape(n, -1), name + "output")

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


def rope(x: Array, base: float, scale: float, *, interleaved: bool) -> Array:
    """Rotate ``(position, head, dim)`` by position / scale: pairs (2i, 2i+1), or (i, i + dim/2)."""
    n, _, dim = x.shape
    frequency = base ** (-np.arange(0, dim, 2) / dim)
    angle = np.arange(n)[:, None, None] / scale * frequency
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    first = slice(0, None, 2) if interleaved else slice(0, dim // 2)
    second = slice(1, None, 2) if interleaved else slice(dim // 2, None)
    out = np.empty_like(x)
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def causal_mask(n: int, window: int) -> npt.NDArray[np.bool_]:
    """Return True where a query (row) must not see a key (column).

    With a window, a query sees itself and the ``window - 1`` positions before it.
    """
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    masked = distance < 0
    return masked | (distance >= window) if window else masked


def softmax(scores: Array) -> Array:
    """Softmax over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def silu(x: Array) -> Array:
    """``x * sigmoid(x)``, written so that large negative values do not overflow."""
    return x * (0.5 * (1.0 + np.tanh(0.5 * x)))


def gelu_tanh(x: Array) -> Array:
    """GELU by its tanh approximation."""
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
