"""From a checked body to what an answer is made of, whatever the dialect.

Boundary: knows no wire form.
"""
