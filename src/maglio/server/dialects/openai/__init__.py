"""OpenAI's endpoints, but for Responses, and what all servers say of themselves.

Boundary: wire forms. What they ask for is done by :mod:`maglio.server.task`.
"""
