"""A GGUF file of the Llama family as a checkpoint of the transformers library: the same model.

Weights are dequantized to float32. The tokenizer is built from the file's vocabulary and merges
with the pre-tokenizer that the file names, which the library's own conversion does not do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from maglio.gguf import ModelFile
from maglio.text.pretokenizer import pretokenizer_of

Array = npt.NDArray[np.float32]

_CONTROL = 3  # tokenizer.ggml.token_type
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_checkpoint(path: Path, folder: Path) -> Path:
    """Write the checkpoint of a GGUF file into a folder; returns the folder.

    Raises:
        ValueError: the file is of another family, or has a tensor that this knows nothing of.
    """
    file = ModelFile(path)
    if file.text("general.architecture") != "llama":
        raise ValueError(f"{path} is no Llama: {file.text('general.architecture')}")
    folder.mkdir(parents=True, exist_ok=True)
    config = _config(file)
    tensors = dict(_tensors(path, config))
    config["tie_word_embeddings"] = "lm_head.weight" not in tensors
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write(folder / "config.json", config)
    _write(folder / "generation_config.json", {"eos_token_id": config["eos_token_id"]})
    _tokenizer(file).save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", _tokenizer_config(file))
    return folder


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1))


def _config(file: ModelFile) -> dict[str, Any]:
    key = "llama.{}".format
    n_head = file.integer(key("attention.head_count"))
    base = file.real(key("rope.freq_base"), 10000.0)
    if key("rope.scaling.type") in file.metadata or "rope_freqs.weight" in file.tensors:
        raise ValueError(f"{file.path} scales its positions, which this does not convert")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": len(_texts(file, "tokenizer.ggml.tokens")),
        "hidden_size": file.integer(key("embedding_length")),
        "intermediate_size": file.integer(key("feed_forward_length")),
        "num_hidden_layers": file.integer(key("block_count")),
        "num_attention_heads": n_head,
        "num_key_value_heads": file.integer(key("attention.head_count_kv"), n_head),
        "max_position_embeddings": file.integer(key("context_length")),
        "rms_norm_eps": file.real(key("attention.layer_norm_rms_epsilon")),
        "rope_theta": base,
        "rope_parameters": {"rope_type": "default", "rope_theta": base},
        "hidden_act": "silu",
        "bos_token_id": _special(file, "bos"),
        "eos_token_id": _special(file, "eos"),
    }


def _tensors(path: Path, config: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for tensor in GGUFReader(path).tensors:
        values = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        if tensor.name in _TOP:
            yield _TOP[tensor.name], values
            continue
        block, layer, part, kind = (tensor.name.split(".") + [""] * 4)[:4]
        if block != "blk" or part not in _IN_LAYER or kind != "weight":
            raise ValueError(f"{path} has the tensor {tensor.name}, which this does not convert")
        if part in heads:
            values = _halves(values, heads[part])
        yield f"model.layers.{layer}.{_IN_LAYER[part]}.weight", values


def _halves(values: Array, n_head: int) -> Array:
    """Rotated dimensions as halves of a head, where the file has them as neighbours."""
    n_out, n_in = values.shape
    pairs = values.reshape(n_head, n_out // n_head // 2, 2, n_in)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(n_out, n_in))


def _texts(file: ModelFile, key: str) -> list[str]:
    texts = file.metadata[key]
    assert isinstance(texts, list)
    return texts


def _special(file: ModelFile, role: str) -> int | None:
    found = file.metadata.get(f"tokenizer.ggml.{role}_token_id")
    return None if found is None else int(str(found))


def _tokenizer(file: ModelFile) -> Tokenizer:
    tokens = _texts(file, "tokenizer.ggml.tokens")
    pretokenizer = pretokenizer_of(file.text("tokenizer.ggml.pre"))
    merges = [tuple(merge.split(" ")) for merge in _texts(file, "tokenizer.ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    bpe = models.BPE(vocabulary, merges, ignore_merges=pretokenizer.ignore_merges)
    tokenizer = Tokenizer(bpe)
    in_words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*pretokenizer.splits(), in_words])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = np.asarray(file.metadata["tokenizer.ggml.token_type"])
    control = [tokens[number] for number in np.flatnonzero(kinds == _CONTROL)]
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in control]
    )
    return tokenizer


def _tokenizer_config(file: ModelFile) -> dict[str, Any]:
    tokens = _texts(file, "tokenizer.ggml.tokens")
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": file.integer("llama.context_length"),
        "clean_up_tokenization_spaces": False,
    }
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        number = _special(file, key)
        if number is not None:
            config[f"{role}_token"] = tokens[number]
    template = file.metadata.get("tokenizer.chat_template")
    if template is not None:
        config["chat_template"] = template
    return config
