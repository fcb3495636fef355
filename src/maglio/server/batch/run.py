"""``maglio.run_batch``: a batch from a program.

Boundary: arguments; imports the extra ``server`` when it is called, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from maglio.checks import MAX_TOKEN_ID
from maglio.decode import SamplingParams
from maglio.model import Model
from maglio.prefix_cache import PrefixCache, default_prefix_bytes
from maglio.references import Reference, each, index_reference
from maglio.server.batch.progress import BatchProgress
from maglio.server.extra import check_extra
from maglio.speculation import Speculation


def run_batch(
    model: Model,
    requests: Path | str | BinaryIO,
    results: Path | str | BinaryIO,
    *,
    parallel: int = 16,
    prefix_bytes: int | None = None,
    sampling: SamplingParams | None = None,
    seed: int | None = None,
    speculation: bool | Speculation = True,
    references: Sequence[Reference] = (),
    max_tokens: int = MAX_TOKEN_ID,
    chat_template: str | None = None,
    template_variables: Mapping[str, Any] | None = None,
    retry_failed: bool = False,
    on_progress: Callable[[BatchProgress], None] | None = None,
) -> BatchProgress:
    """Answer a file of requests in the form of OpenAI's batches; needs ``maglio[server]``.

    Every answer is, to the bit, what ``maglio serve`` gives to the same request. Each line of
    ``results`` is written as its request ends. When it is there already, and is of these requests,
    only those are run that have no result in it.

    Args:
        model: generates; for nobody else meanwhile.
        requests: JSON lines, each with ``custom_id``, ``method``, ``url`` and ``body``. A binary
            stream is read to its end first.
        results: where to. With a binary stream nothing can be gone on with later.
        parallel: most answers at a time; they share forwards.
        prefix_bytes: memory for beginnings of prompts, which are then not read again; ``None``: a
            quarter of what is available.
        sampling: what bodies leave out; the temperature is 1 when ``None``.
        seed: of requests that name none; each draws its own when ``None``.
        speculation: whether, and how, drafts are made where a body does not say.
        references: documents that all requests draft from.
        max_tokens: most tokens of an answer, whatever a body says.
        chat_template: which of the model's templates.
        template_variables: what the chat template reads, where a body does not say.
        retry_failed: remove results that are errors first, so that their requests run again.
        on_progress: hears how far it is about twice a second, and at the end.

    Returns:
        How far it is: whether all are done, and how many failed.

    Raises:
        BatchFileError: a line is not a request, two have the same ``custom_id``, ``results`` is of
            something else, or a file cannot be used. Except for the last, nothing was run.
        InvalidArgumentError: an argument is out of range.
        MaglioError: a package of the extra is missing.
        KeyboardInterrupt: as it came; the same call goes on with what has no result.
    """
    check_extra("maglio.run_batch")
    from maglio.server.batch.job import Batch
    from maglio.server.settings import ANY_NAME, Settings
    from maglio.server.streams.service import MOST, Service

    if chat_template is not None:
        model.chat_template.check_name(chat_template)
    settings = Settings(
        names=(model.name.removesuffix(".gguf"), ANY_NAME),
        sampling=SamplingParams(temperature=1.0) if sampling is None else sampling,
        seed=seed,
        speculation=speculation,
        references=tuple(index_reference(one, model.tokenizer) for one in each(references)),
        chat_template=chat_template,
        template_variables=template_variables or {},
        max_tokens=max_tokens,
    )
    n_bytes = default_prefix_bytes() if prefix_bytes is None else prefix_bytes
    prefixes = PrefixCache(model.engine, max_bytes=n_bytes) if n_bytes != 0 else None
    with Batch(_opened(requests), _opened(results), retry_failed=retry_failed) as batch:
        if not batch.progress.left:
            return batch.progress
        service = Service(model, parallel=parallel, queue=MOST, prefixes=prefixes)
        try:
            return batch.run(service, settings, on_progress=on_progress)
        finally:
            service.close()


def _opened(file: Path | str | BinaryIO) -> Path | BinaryIO:
    return Path(file) if isinstance(file, str) else file
