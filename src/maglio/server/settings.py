"""What the operator decides about a server.

Boundary: values; made from options by :mod:`maglio.cli.serve`, or in a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from maglio.checks import MAX_TOKEN_ID, check_int
from maglio.decode import SamplingParams
from maglio.errors import InvalidArgumentError
from maglio.references import Reference
from maglio.server.access.auth import Keys
from maglio.server.access.origin import Origins
from maglio.server.errors import not_found
from maglio.speculation import Speculation

ANY_NAME = "*"
"""Among a model's names: it answers to every one."""
_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a server answers.

    Attributes:
        names: what the model is called, the first being its own name. A name may have ``*`` in it;
            then it is not listed.
        sampling: what requests leave out; the temperature is 1, as with OpenAI.
        seed: of requests that name none; each draws its own when ``None``.
        speculation: whether, and how, drafts are made where a request does not say.
        references: documents that all requests draft from.
        chat_template: which of the model's templates; see
            :meth:`ChatTemplate.render <maglio.text.ChatTemplate.render>`.
        template_variables: what the chat template reads, where a request does not say.
        max_tokens: most tokens of an answer, whatever a request says.
        keys: who may ask.
        origins: which pages may.
    """

    names: Sequence[str]
    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=1.0))
    seed: int | None = None
    speculation: bool | Speculation = True
    references: Sequence[Reference] = ()
    chat_template: str | None = None
    template_variables: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = MAX_TOKEN_ID
    keys: Keys = field(default_factory=Keys)
    origins: Origins = field(default_factory=Origins)

    def __post_init__(self) -> None:
        check_int("max_tokens", self.max_tokens, 1, MAX_TOKEN_ID)
        if not self.names or any(not name or len(name) > _LONGEST_NAME for name in self.names):
            raise InvalidArgumentError(
                f"the model is called {list(self.names)!r:.200}; a name has 1 to "
                f"{_LONGEST_NAME} characters"
            )

    @property
    def listed(self) -> tuple[str, ...]:
        """The names that ``/v1/models`` shows."""
        return (self.names[0], *(name for name in self.names[1:] if "*" not in name))

    def name_of(self, asked: str | None) -> str:
        """What the model is called in the answer to a request: as it is there.

        Raises:
            ApiError: there is no model of this name.
        """
        if not asked:  # some clients have an empty name for the only model
            return self.names[0]
        own = (self.names[0], f"{self.names[0]}.gguf")
        is_short = len(asked) <= _LONGEST_NAME  # every event of a stream repeats it
        if asked in own or (is_short and any(fnmatchcase(asked, name) for name in self.names[1:])):
            return asked
        raise not_found(
            f"The model `{asked:.200}` does not exist. This server has: "
            f"{', '.join(self.listed):.300}. The option --alias gives it more names.",
            code="model_not_found",
            param="model",
        )
