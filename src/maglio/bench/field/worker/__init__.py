"""What runs in the process of a contestant.

Another interpreter may run it, one that has a peer's packages and not Maglio. So its modules import
each other by relative names, and nothing else but the standard library and the package of the
contestant.
"""
