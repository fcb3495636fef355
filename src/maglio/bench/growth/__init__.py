"""How Maglio's costs grow with what a user may have much of, each beside the order it should have.

Boundary: measures; a point is a value, and what is done with it is said elsewhere.
"""
