"""The server: many clients, one model. Needs the extra ``maglio[server]``.

Boundary: from HTTP to :class:`~maglio.request.Request` and back; ``app.py`` puts it together.
Nothing but the command line imports it, and ``import maglio`` does not.
"""
