"""The wire forms that clients speak, a folder for each.

Boundary: from HTTP to a task and back.
"""
