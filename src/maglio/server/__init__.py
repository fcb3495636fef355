"""The server: many clients, one model. Needs the extra ``maglio[server]``."""
