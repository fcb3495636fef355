"""gpt-oss, 20B and 120B."""

from maglio._core import GateActivation, ModelSpec, Source
from maglio.engine.native.experts import experts
from maglio.engine.native.families import family
from maglio.engine.native.keys import Keys


@family("gpt-oss")
def gpt_oss(keys: Keys) -> ModelSpec:
    """Heads have sinks, every other layer a window.

    The weights of a row's experts are a softmax of their products alone, which is that of all
    products, divided by its sum.
    """
    window = keys.integer("attention.sliding_window")
    base = keys.real("rope.freq_base", 10000.0)
    rope = keys.rope(yarn=True, base=base)
    local_rope = keys.rope(yarn=True, base=keys.real("rope.freq_base_swa", base))
    everywhere = keys.attention(rope=rope, sinks=True)
    local = keys.attention(rope=local_rope, window=window, sinks=True)
    return keys.model(
        mixers=[local if is_local else everywhere for is_local in keys.local_layers(2)],
        feed_forward=experts(
            keys,
            n_ff=keys.integer("expert_feed_forward_length"),
            normalize=True,
            activation=GateActivation.CLAMPED_SWIGLU,
        ),
        tensors={"ffn_norm.weight": Source("post_attention_norm.weight")},
    )
