"""Benchmarks: recordings, replay of drafting policies, and the peers they are compared with."""
