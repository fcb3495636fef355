"""A grammar's source in the form that llguidance compiles.

Boundary: texts in, a matcher at its beginning out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher, LLParserLimits
from llguidance.gbnf_to_lark import gbnf_to_lark

from maglio.errors import GrammarError
from maglio.grammar.constraint import message_of
from maglio.grammar.value import Grammar, Kind
from maglio.grammar.vocabulary import GrammarVocabulary

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

# Without this a mask allows one of the ways to split a text that is certain, and no other.
_OPTIONS = '%llguidance {"no_forcing": true}\n'
_NAME = "main"
_JSON: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}

# All are counts, so that whether a grammar is too large depends on nothing but the grammar.
LIMITS = LLParserLimits(
    max_items_in_row=2_000,
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_lexer_states=250_000,
    max_grammar_size=500_000,
    verbose_errors=False,
)


def compiled(grammar: Grammar, vocabulary: GrammarVocabulary) -> LLMatcher:
    """Compile a grammar; raises :class:`GrammarError` with the library's message."""
    try:
        main = _main(grammar.kind, grammar.source)
    except RecursionError:
        raise GrammarError(_refusal(grammar.kind, "it is nested too deeply")) from None
    except Exception as error:  # the library's converters raise whatever comes
        raise GrammarError(_refusal(grammar.kind, str(error))) from None
    opening = "" if not grammar.opening else f"opening: {grammar.opening}\n"
    start = f"start: {'opening ' if opening else ''}@{_NAME}\n"
    grammars = [{"lark_grammar": _OPTIONS + start + opening}, {"name": _NAME, **main}]
    matcher = LLMatcher(
        vocabulary.library, json.dumps({"grammars": grammars}), log_level=0, limits=LIMITS
    )
    if matcher.is_error():
        raise GrammarError(_refusal(grammar.kind, message_of(matcher)))
    return matcher


def _main(kind: Kind, source: str) -> dict[str, Any]:
    if kind == "json_schema":
        made = LLMatcher.grammar_from_json_schema(source, overrides=_JSON)
        return {"json_schema": json.loads(made)["grammars"][0]["json_schema"]}
    if kind == "regex":
        made = LLMatcher.grammar_from_regex(source)
        return {"lark_grammar": json.loads(made)["grammars"][0]["lark_grammar"]}
    if kind == "gbnf":
        return {"lark_grammar": gbnf_to_lark(source)}
    if kind == "choice":
        return {"lark_grammar": "start: " + " | ".join(map(_literal, json.loads(source)))}
    return {"lark_grammar": source}


def _literal(text: str) -> str:
    """Return a text as a regular expression, which can spell every character."""
    if not text:
        return '""'
    plain = (c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)
    return f"/{''.join(plain)}/"


def _refusal(kind: Kind, message: str) -> str:
    return f"the {kind} grammar cannot be compiled: {message}"
