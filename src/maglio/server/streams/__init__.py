"""Requests of many clients on one model: a thread, the places in it, and what they tell.

Boundary: knows no HTTP and no wire form.
"""
