"""Who may use the server: API keys, and pages of other sites.

Boundary: headers of a request.
"""
