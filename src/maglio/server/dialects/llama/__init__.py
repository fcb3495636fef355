"""llama.cpp's own endpoints.

Boundary: its wire form.
"""
