"""What this machine is, and whether an engine keeps its promise on it, tested on a model.

Boundary: measures and says; changes no setting and keeps nothing.
"""
