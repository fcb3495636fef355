"""Grammars: what a generation may say, and which tokens keep to it.

Importing this needs nothing but the base install; starting a grammar needs llguidance.
"""

from maglio.grammar.compiler import GrammarCompiler
from maglio.grammar.value import Grammar

__all__ = ["Grammar", "GrammarCompiler"]
