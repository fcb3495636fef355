"""LFM2 and LFM2.5, the dense sizes."""

from collections.abc import Sequence

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys, MixerSpec
from maglio.engine.native.recurrent import counts, short_conv


@family("lfm2")
def lfm2(keys: Keys) -> ModelSpec:
    """Most layers are short convolutions; the file may have windows for the others."""
    return keys.model(
        mixers=lfm2_mixers(keys, window=keys.count("attention.sliding_window")),
        feed_forward=keys.gated(),
        output_norm="token_embd_norm.weight",
    )


def lfm2_mixers(keys: Keys, window: int = 0) -> Sequence[MixerSpec]:
    """Describe the mixer of every layer: a convolution where there are no heads of keys."""
    rope, conv = keys.rope(yarn=True), short_conv(keys)
    return [
        keys.attention(rope=rope, n_kv_head=n, window=window, head_norms=True) if n else conv
        for n in counts(keys, "attention.head_count_kv")
    ]
