"""How requests are answered, from the options of the commands that answer them.

The extra ``server`` is imported when it is called, and not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import maglio
from maglio.cli.options import template_variables, token_limit
from maglio.cli.sampling_options import SamplingOptions
from maglio.llama_sampling import RANDOM_SEED
from maglio.references import index_reference

if TYPE_CHECKING:
    from maglio.server.settings import Settings


def served_settings(
    model: maglio.Model,
    *,
    names: Sequence[str],
    called: Sequence[str] = (),
    max_tokens: int,
    chat_template: str | None,
    variables: str | None,
    sampling: SamplingOptions,
    speculation: bool | maglio.Speculation,
    references: Sequence[Path],
    **more: Any,  # noqa: ANN401  # of Settings
) -> Settings:
    """The settings for a model.

    Args:
        model: answers.
        names: what it is called besides its own name.
        called: names that come before that.
        max_tokens: of ``--max-tokens``.
        chat_template: of ``--chat-template``.
        variables: of ``--chat-template-kwargs``.
        sampling: what requests leave out.
        speculation: how drafts are made.
        references: files to draft from.
        more: what only some commands have.

    Raises:
        InvalidArgumentError: an option can never work.
        IndexFileError: an index file cannot be read.
    """
    from maglio.server.settings import Settings

    if chat_template is not None:
        model.chat_template.check_name(chat_template)
    return Settings(
        names=(*called, model.name.removesuffix(".gguf"), *names),
        sampling=sampling.params(model.tokenizer),
        seed=None if sampling.seed == RANDOM_SEED else sampling.seed,
        speculation=speculation,
        references=tuple(index_reference(path, model.tokenizer) for path in references),
        chat_template=chat_template,
        template_variables=template_variables(variables),
        max_tokens=token_limit(max_tokens),
        **more,
    )
