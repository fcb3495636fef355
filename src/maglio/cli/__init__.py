"""The command line. Text goes to stdout, everything else to stderr."""

from maglio.cli.app import main

__all__ = ["main"]
