"""Exact speculative decoding without a draft model, on ordinary CPUs."""
