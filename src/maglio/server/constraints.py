"""What an answer must be: the grammar that the fields of a body ask for.

Boundary: which grammar, and that there is one at most; compiling it is the model's business.
"""

from __future__ import annotations

from maglio.grammar import Grammar
from maglio.server.errors import ApiError
from maglio.server.schema.formats import ResponseFormat
from maglio.server.schema.generating import GeneratingBody


def grammar_of(body: GeneratingBody, form: ResponseFormat | None = None) -> Grammar | None:
    """The grammar of an answer; ``None`` if it may be anything.

    Args:
        body: has llama.cpp's ``grammar`` and ``json_schema``.
        form: OpenAI's ``response_format``, if the body has one.

    Raises:
        ApiError: more than one is asked for.
        GrammarError: it is too long.
    """
    asked: dict[str, Grammar] = {}
    if body.grammar:  # llama.cpp's clients send an empty one for none
        asked["grammar"] = Grammar.gbnf(body.grammar)
    if body.json_schema is not None:
        asked["json_schema"] = Grammar.json_schema(body.json_schema)
    if form is not None and form.type != "text":
        schema = form.schema_document
        asked["response_format"] = (
            Grammar.json_object() if schema is None else Grammar.json_schema(schema)
        )
    if len(asked) > 1:
        raise ApiError(
            f"{' and '.join(asked)} are given; an answer can keep to one of them",
            param=list(asked)[-1],
            code="invalid_value",
        )
    return next(iter(asked.values()), None)
