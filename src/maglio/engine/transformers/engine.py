"""A causal language model of the transformers library, behind the seam of the engines.

Boundary: token ids in, logits out, on the device where the model is. Loads nothing.

Rows of one forward are rounded differently from rows of another, so the engine promises a
distribution, not bits. Each segment of a batch is a forward of the model, one after another: what
a stream gets does not depend on the streams beside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers

from maglio.checks import check_int
from maglio.engine.base import Exactness, Logits, Segment
from maglio.engine.registry import MOST_CONTEXT
from maglio.engine.transformers.cache import CacheKind, TransformersCache
from maglio.errors import ContextFullError, InvalidArgumentError, MaglioError, OutOfMemoryError
from maglio.tokens import token_array


class TransformersEngine:
    """A loaded model as an engine.

    Args:
        model: a ``PreTrainedModel`` with a head of logits, in evaluation mode.
        n_ctx: most positions of a cache.
        max_rows: most tokens of one forward.

    Raises:
        InvalidArgumentError: the model has an encoder, or a number is out of range.
    """

    name = "transformers"
    exactness: Exactness = "distribution"

    def __init__(
        self,
        model: Any,  # noqa: ANN401 (a class per architecture)
        *,
        n_ctx: int = MOST_CONTEXT,
        max_rows: int = 512,
    ) -> None:
        check_int("n_ctx", n_ctx, 1, MOST_CONTEXT)
        check_int("max_rows", max_rows, 1, MOST_CONTEXT)
        if model.config.is_encoder_decoder:
            raise InvalidArgumentError(
                f"{type(model).__name__} has an encoder; only models that go on with a text "
                "(causal language models) can be used"
            )
        self.model = model
        self._n_ctx = n_ctx
        self.max_rows = max_rows
        self._n_vocab = int(model.config.get_text_config(decoder=True).vocab_size)
        self._kind = CacheKind(model.config)
        takes = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        self._keeps_logits = "logits_to_keep" in takes

    @property
    def n_vocab(self) -> int:
        """Number of token ids; valid ids are ``0 .. n_vocab - 1``."""
        return self._n_vocab

    @property
    def n_ctx(self) -> int:
        """Most positions of a cache."""
        return self._n_ctx

    @property
    def can_rewind(self) -> bool:
        """Whether all layers of the cache can be cut; not where some are recurrent."""
        return self._kind.can_cut

    @property
    def exactness_remedy(self) -> str:
        """What makes rows more exact."""
        if self.model.dtype == torch.float64:
            return ""
        if self.model.dtype == torch.float32:
            return "with dtype='float64' logits hardly drift, at twice the memory"
        return "with dtype='float32' logits drift much less, with dtype='float64' hardly"

    @property
    def version(self) -> str:
        """Versions of the libraries that compute."""
        return f"{transformers.__version__}, torch {torch.__version__}"

    @property
    def threads(self) -> int:
        """Threads of torch on the CPU."""
        return int(torch.get_num_threads())

    @property
    def isa(self) -> str:
        """Where the model computes: the device and the data type."""
        return f"{self.model.device.type} {self.model.dtype}"

    def new_cache(self) -> TransformersCache:
        """Start an empty sequence. It takes memory as it grows."""
        return TransformersCache(self._kind)

    def forward(self, batch: Sequence[Segment]) -> list[Logits]:
        """See :meth:`maglio.engine.base.Engine.forward`."""
        self._check(batch)
        done = [self._run(segment) for segment in batch]
        for segment, (layers, _) in zip(batch, done, strict=True):
            _own(segment).commit(layers, len(segment.tokens))
        return [rows for _, rows in done]

    def _run(self, segment: Segment) -> tuple[list[Any], Logits]:
        """The layers with the new positions in them, and the rows."""
        n_logits = segment.n_logits
        held = self._kind.holding(_own(segment).begin())
        ids = torch.from_numpy(token_array(segment.tokens).astype(np.int64))
        inputs: dict[str, Any] = {
            "input_ids": ids[None].to(self.model.device),
            self._cache_name: held,
            "use_cache": True,
        }
        if self._keeps_logits:
            inputs["logits_to_keep"] = max(1, n_logits)  # 0 means all
        logits = self._logits(inputs)
        if logits.shape[-1] != self._n_vocab:
            raise MaglioError(
                f"the model gives {logits.shape[-1]} logits, and its configuration has a "
                f"vocabulary of {self._n_vocab}"
            )
        if n_logits == 0:
            return held.layers, np.empty((0, self._n_vocab), np.float32)
        return held.layers, logits[0, -n_logits:].to("cpu", torch.float32).numpy()

    def _logits(self, inputs: dict[str, Any]) -> torch.Tensor:
        try:
            with torch.no_grad():
                logits: torch.Tensor = self.model(**inputs).logits
        except torch.OutOfMemoryError as error:
            raise OutOfMemoryError(f"no memory for more positions on the device: {error}") from None
        except RuntimeError as error:
            if "not enough memory" in str(error) or "can't allocate memory" in str(error):
                raise OutOfMemoryError(f"there is no memory for more positions: {error}") from None
            raise
        return logits

    def _check(self, batch: Sequence[Segment]) -> None:
        total = sum(len(segment.tokens) for segment in batch)
        if not 1 <= total <= self.max_rows:
            raise InvalidArgumentError(
                f"a batch has {total} tokens, must have from 1 to {self.max_rows}"
            )
        if len({id(segment.cache) for segment in batch}) < len(batch):
            raise InvalidArgumentError("a batch names a cache twice, may name it once")
        for segment in batch:
            cache, n = _own(segment), len(segment.tokens)
            if cache.kind is not self._kind:
                raise InvalidArgumentError("a batch has a cache of another engine")
            if n == 0 or not 0 <= segment.n_logits <= n:
                raise InvalidArgumentError(
                    f"a segment of {n} tokens wants {segment.n_logits} rows; it must have a token, "
                    "and at most as many rows"
                )
            token_array(segment.tokens, self._n_vocab)
            if cache.length + n > self._n_ctx:
                raise ContextFullError(
                    f"{n} tokens do not fit after {cache.length} in a context of {self._n_ctx}"
                )


def _own(segment: Segment) -> TransformersCache:
    if not isinstance(segment.cache, TransformersCache):
        raise InvalidArgumentError("a batch has a cache of another engine")
    return segment.cache
