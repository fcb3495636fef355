"""What an answer must look like: ``response_format``.

Boundary: shape only; whether a schema can be used is found out when it is compiled.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from maglio.server.schema.wire import Open, Wire


class JsonSchema(Open):
    """A named JSON schema."""

    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    json_schema: dict[str, JsonValue] | bool | None = Field(default=None, alias="schema")


class ResponseFormat(Wire):
    """``text``, ``json_object`` or ``json_schema``; llama.cpp puts a schema beside the type."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None
    beside: dict[str, JsonValue] | bool | None = Field(default=None, alias="schema")

    @property
    def schema_document(self) -> dict[str, JsonValue] | bool | None:
        """The schema, if there is one."""
        if self.json_schema is not None and self.json_schema.json_schema is not None:
            return self.json_schema.json_schema
        return self.beside

    @model_validator(mode="after")
    def _has_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.schema_document is None:
            raise PydanticCustomError(
                "response_format", "is of type json_schema and has no json_schema.schema"
            )
        return self
