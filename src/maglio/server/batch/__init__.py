"""Batch jobs: files of requests, answered as the server answers them, into files of results.

Boundary: files on one side, the application on the other. There is no second way to answer: every
line goes through :func:`maglio.server.app.create_app`, without a socket.
"""
