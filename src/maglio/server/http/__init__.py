"""HTTP: connections, bodies, streams of events, and failures.

Boundary: knows no endpoint and no dialect.
"""
