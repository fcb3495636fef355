"""Maglio's drafting inside vLLM, through its hook for a draft source of one's own.

    vllm serve MODEL --speculative-config '{"method": "custom_class",
        "model": "maglio.integrations.vllm.Proposer", "num_speculative_tokens": 8}'

Boundary: rows of token ids in, drafts out. What is accepted, and what a verified token is worth, is
vLLM's business. Nothing here imports vLLM but :mod:`~maglio.integrations.vllm.worker`, and
:mod:`~maglio.integrations.vllm.documents` where text has to be encoded.
"""

from maglio.integrations.vllm.proposer import Proposer

__all__ = ["Proposer"]
