"""Tiny random models of the transformers library, with a tokenizer, in a folder."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from support.fast_tokenizers import byte_level

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIZES = {
    "vocab_size": 288,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,  # or every token would be about as probable
}
SLIDING = ["sliding_attention", "full_attention"]


def configs() -> dict:
    t = transformers
    return {
        "llama": t.LlamaConfig(**SIZES),
        "llama, heads of 32": t.LlamaConfig(**SIZES, head_dim=32),  # as vLLM's kernels want them
        "qwen3": t.Qwen3Config(**SIZES, head_dim=8),
        "gemma3": t.Gemma3TextConfig(**SIZES, head_dim=8, sliding_window=8, layer_types=SLIDING),
        "gemma4": t.Gemma4TextConfig(
            **{**SIZES, "num_hidden_layers": 4},
            head_dim=8,
            global_head_dim=8,
            sliding_window=8,
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=288,
            num_kv_shared_layers=2,
            layer_types=SLIDING * 2,
        ),
        "qwen3.5": t.Qwen3_5TextConfig(
            **SIZES,
            head_dim=8,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            layer_types=["linear_attention", "full_attention"],
        ),
    }


class TinyCheckpoints:
    """Makes each model once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models = {}

    def model(self, family: str, dtype=torch.float32):
        key = family, dtype
        if key not in self._models:
            torch.manual_seed(0)
            model = transformers.AutoModelForCausalLM.from_config(configs()[family])
            model.generation_config.eos_token_id = None  # let it run to the end
            self._models[key] = model.eval().to(dtype)
        return self._models[key]

    def tokenizer(self, **options):
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=byte_level(**options),
            bos_token="<s>",
            eos_token="</s>",
            chat_template=TEMPLATE,
        )

    def folder(self, family: str, dtype=torch.float32) -> Path:
        path = self._folder / f"{family}-{dtype}"
        if not path.exists():
            tokenizer = self.tokenizer()
            model = self.model(family, dtype)
            model.save_pretrained(path)
            tokenizer.save_pretrained(path)
            ends = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|im_end|>")]
            transformers.GenerationConfig(eos_token_id=ends).save_pretrained(path)
        return path
