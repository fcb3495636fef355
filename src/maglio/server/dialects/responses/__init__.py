"""OpenAI's newer dialect: ``/v1/responses``, as Codex and the openai clients use it.

Boundary: from its bodies to a :class:`~maglio.server.schema.chat.ChatRequest`, and from neutral
deltas to its items and events. Nothing is stored: a client sends the whole conversation each time.
"""
