"""LFM2 and LFM2.5, the dense sizes."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys
from maglio.engine.native.recurrent import counts, short_conv


@family("lfm2")
def lfm2(keys: Keys) -> ModelSpec:
    """Layers without heads of keys and values are short convolutions."""
    rope, window = keys.rope(yarn=True), keys.count("attention.sliding_window")
    conv = short_conv(keys)
    return keys.model(
        mixers=[
            keys.attention(rope=rope, n_kv_head=n, window=window, head_norms=True) if n else conv
            for n in counts(keys, "attention.head_count_kv")
        ],
        feed_forward=keys.gated(),
        output_norm="token_embd_norm.weight",
    )
