"""SmolLM3."""

from maglio._core import ModelSpec
from maglio.engine.native.families import family
from maglio.engine.native.keys import NO_ROPE, Keys

_PERIOD = 4


@family("smollm3")
def smollm3(keys: Keys) -> ModelSpec:
    """The plain shape; every fourth layer has no rotation."""
    keys.ignore("attention.sliding_window")
    rotated = keys.attention(rope=keys.rope(yarn=True), paired_rows=True)
    plain = keys.attention(rope=NO_ROPE, paired_rows=True)
    return keys.model(
        mixers=[plain if (i + 1) % _PERIOD == 0 else rotated for i in keys.layers],
        feed_forward=keys.gated(),
    )
