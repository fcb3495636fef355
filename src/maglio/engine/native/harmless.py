"""Keys of metadata that may be left unread."""

HARMLESS = frozenset(
    {
        "attention.layer_norm_epsilon",  # of another kind of norm
        "context_length",  # the engine bounds its caches by it
        "expert_feed_forward_length",  # of no experts, as the next five
        "expert_gating_func",
        "expert_shared_count",
        "expert_used_count",
        "expert_weights_norm",
        "expert_weights_scale",
        "leading_dense_block_count",
        "mm.tokens_per_image",
        "pooling_type",  # of embedding models; rows are those of the language model
        "rope.scaling.finetuned",
        "rope.scaling.original_context_length",  # linear scaling does not read it, nor the others
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "rope.scaling.yarn_log_multiplier",
        "tensor_data_layout",
        "vocab_size",
    }
)
"""Keys that say nothing about the computation."""

HARMLESS_PREFIXES = ("vision.", "classifier.")
"""Keys of other models that may travel in the same metadata."""
