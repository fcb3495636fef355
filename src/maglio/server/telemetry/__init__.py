"""What the operator learns of requests: counts, times, and a line for each.

Boundary: values and their forms; asks nobody.
"""
