"""Anthropic's dialect: ``/v1/messages`` and ``/v1/messages/count_tokens``.

Boundary: from its bodies to a :class:`~maglio.server.schema.chat.ChatRequest`, and from neutral
deltas to its messages and events. Nothing else of the server knows it.
"""
