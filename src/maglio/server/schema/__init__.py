"""What requests look like: pydantic models of the bodies, and how faults in them are told.

Boundary: values only. What a request means to a model is in :mod:`maglio.server.task.parameters`.
"""
