"""OpenAI's endpoints, and llama.cpp's that tools use beside them.

Boundary: wire forms. What they ask for is done by :mod:`maglio.server.chat_task` and its like.
"""
