"""A grammar's source in the form that llguidance compiles.

Boundary: texts in, a matcher at its beginning out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from llguidance import LLMatcher, LLParserLimits
from llguidance.gbnf_to_lark import gbnf_to_lark

from maglio.errors import GrammarError
from maglio.grammar.constraint import message_of
from maglio.grammar.lark import ONE_LINE, literal
from maglio.grammar.schema import check_multiples
from maglio.grammar.value import Grammar, Kind
from maglio.grammar.vocabulary import GrammarVocabulary

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

_NAME, _OPENING = "main", "opening"

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
    grammars: list[dict[str, Any]] = [{"name": _NAME, **main}]
    start = f"@{_NAME}"
    if grammar.opening:
        grammars.append({"name": _OPENING, "lark_grammar": grammar.opening})
        start = f"@{_OPENING} {start}"
    grammars.insert(0, {"lark_grammar": f"start: {start}\n"})
    matcher = LLMatcher(
        vocabulary.library, json.dumps({"grammars": grammars}), log_level=0, limits=LIMITS
    )
    if matcher.is_error():
        raise GrammarError(_refusal(grammar.kind, message_of(matcher)))
    return matcher


def _main(kind: Kind, source: str) -> dict[str, Any]:
    if kind == "json_schema":
        made = LLMatcher.grammar_from_json_schema(
            source, overrides=cast("JsonCompileOptions", ONE_LINE)
        )
        schema = json.loads(made)["grammars"][0]["json_schema"]
        check_multiples(schema)
        return {"json_schema": schema}
    if kind == "regex":
        made = LLMatcher.grammar_from_regex(source)
        return {"lark_grammar": json.loads(made)["grammars"][0]["lark_grammar"]}
    if kind == "gbnf":
        return {"lark_grammar": gbnf_to_lark(source)}
    if kind == "choice":
        return {"lark_grammar": "start: " + " | ".join(map(literal, json.loads(source)))}
    return {"lark_grammar": source}


def _refusal(kind: Kind, message: str) -> str:
    return f"the {kind} grammar cannot be compiled: {message}"
