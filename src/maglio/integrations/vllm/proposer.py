"""The draft source that vLLM calls once a step, for all requests at once.

Boundary: joins rows, requests and prices. Whatever goes wrong here costs drafts and nothing else:
an error that left it would end vLLM's engine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from maglio.checks import check_int
from maglio.draft.cascade import Cascade
from maglio.draft.past import History
from maglio.draft.registry import Setting, calibrated
from maglio.draft.source import Draft
from maglio.economics.allot import allot, could_pay
from maglio.economics.cost import FLAT_COST, CostCurve
from maglio.economics.gate import CostGate
from maglio.errors import InvalidArgumentError
from maglio.integrations.vllm.costs import BatchCost
from maglio.integrations.vllm.documents import open_documents, vllm_encoder
from maglio.integrations.vllm.ledger import Ledger, Row
from maglio.integrations.vllm.request import Request
from maglio.integrations.vllm.settings import Settings

_log = logging.getLogger("vllm.maglio")  # vLLM shows what is logged under its own name

_CPU_COST = CostCurve([(1, 1.0), (2, 1.2), (4, 1.5), (8, 2.2), (16, 3.6), (32, 6.4)])
"""A step of vLLM on a CPU where nobody has measured it."""

_INDEXED_PER_CALL = 1 << 16
"""Tokens of new requests that are indexed in one call, some 20 ms: requests beyond that wait for
their drafts, so that no step waits long."""

_MOST_DRAFT = 128
"""vLLM verifies no more."""


class Proposer:
    """Drafts for vLLM's ``custom_class`` method from what its requests and documents say.

    Args:
        vllm_config: vLLM's configuration; options of our own are in its ``additional_config``
            (:class:`~maglio.integrations.vllm.settings.Settings`).
        clock: seconds, to time steps with.

    Raises:
        MaglioError: an option or a reference is not valid, or the model cannot be drafted for.
    """

    def __init__(
        self,
        vllm_config: Any,  # noqa: ANN401 (of vLLM)
        *,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        settings = Settings.of(vllm_config.additional_config)
        model = vllm_config.model_config
        _check_model(model)
        self._max_draft: int = vllm_config.speculative_config.num_speculative_tokens
        check_int("num_speculative_tokens", self._max_draft, 1, _MOST_DRAFT)
        self._max_length: int = model.max_model_len
        self._n_vocab: int = model.get_vocab_size()
        self._memory_tokens = settings.memory_tokens
        self._documents = open_documents(
            settings.references, n_vocab=self._n_vocab, encoder=lambda: vllm_encoder(model)
        )
        self._history: History | None = None
        if settings.history_tokens > 0:
            self._history = History(max_tokens=settings.history_tokens)
        on_cpu = vllm_config.device_config.device_type == "cpu"
        self._cost = BatchCost(settings.cost or (_CPU_COST if on_cpu else FLAT_COST))
        # Ranks that each run the scheduler must draft alike, so no clock may decide.
        together = vllm_config.parallel_config.distributed_executor_backend == "external_launcher"
        self._clock = clock if settings.timings and not together else None
        self._called: float | None = None
        self._ledger = Ledger()
        self._ids: Callable[[], Sequence[str]] | None = None
        self._told = False
        _log.info(
            "Maglio drafts at most %d tokens a request; %d references; %d tokens of earlier "
            "requests",
            self._max_draft,
            len(self._documents),
            settings.history_tokens,
        )

    def load_model(self, *_args: object, **_options: object) -> None:
        """Nothing is to be loaded; vLLM on a CPU calls it without asking whether it is there."""

    def follow_ids(self, ids: Callable[[], Sequence[str]]) -> None:
        """Recognise requests by their ids.

        Args:
            ids: returns the id of the request in each row, as they are in the next call.
        """
        self._ids = ids

    def end(self, ids: Iterable[str]) -> None:
        """The requests with these ids have ended; unknown ones are ignored."""
        try:
            self._leave(self._ledger.end(ids))
        except Exception:
            self._tell("cannot forget a request")

    # vLLM may come to pass more than it does today: what is not known is not needed.
    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: npt.NDArray[np.integer],
        token_ids_cpu: npt.NDArray[np.integer],
        *_args: object,
        **_options: object,
    ) -> list[list[int]]:
        """Draft for every row.

        Args:
            sampled_token_ids: for each row the tokens that this step brought; none where a prompt
                is still being read.
            num_tokens_no_spec: int ``(rows or more,)``: tokens of each row, those included.
            token_ids_cpu: int32 ``(rows or more, max_model_len)``: the tokens themselves.

        Returns:
            For each row the tokens to verify; none where no draft pays.
        """
        drafts: list[list[int]] = [[] for _ in sampled_token_ids]
        try:
            self._propose(drafts, sampled_token_ids, num_tokens_no_spec, token_ids_cpu)
        except Exception:
            self._tell("cannot draft in this step")
            return [[] for _ in sampled_token_ids]
        return drafts

    def _propose(
        self,
        drafts: list[list[int]],
        sampled: Sequence[Sequence[int]],
        n_tokens: npt.NDArray[np.integer],
        token_ids: npt.NDArray[np.integer],
    ) -> None:
        now = self._clock() if self._clock is not None else None
        called, self._called = self._called, now
        rows = self._rows(sampled, n_tokens, token_ids)
        if not rows or not could_pay(len(rows), self._cost.table):
            return
        self._cost.prepare(len(rows))
        requests = self._ledger.recognise(rows)
        known = [(row, r) for row, r in zip(rows, requests, strict=True) if r is not None]
        # What a step took is known if it did nothing but go on with these requests.
        is_timed = len(known) == len(sampled) and all(starmap(self._ledger.is_next, known))
        for row, old in known:
            self._follow(row, old)
        if is_timed and now is not None and called is not None:
            n_verified = sum(request.n_verified for _, request in known)
            self._cost.learn(len(rows) + n_verified, now - called)
        self._leave(self._ledger.forget())
        everyone = self._with_new(rows, requests)
        if self._cost.wants_plain and len(rows) == len(sampled):
            return  # only a step that reads no prompt can be timed
        proposed = [self._draft(row, request) for row, request in zip(rows, everyone, strict=True)]
        odds = [() if draft is None else draft.odds for draft in proposed]
        lengths = allot(odds, self._cost)
        for row, request, draft, length in zip(rows, everyone, proposed, lengths, strict=True):
            if request is not None and draft is not None and length > 0:
                tokens = [*draft.tokens[:length]]
                request.verify(tokens)
                drafts[row.place] = tokens

    def _rows(
        self,
        sampled: Sequence[Sequence[int]],
        n_tokens: npt.NDArray[np.integer],
        token_ids: npt.NDArray[np.integer],
    ) -> list[Row]:
        """The rows that got tokens."""
        ids = None if self._ids is None else self._ids()
        table = np.asarray(token_ids)
        return [
            Row(
                place,
                table[place, : int(n_tokens[place])],
                len(new),
                None if ids is None else ids[place],
            )
            for place, new in enumerate(sampled)
            if len(new) > 0
        ]

    def _follow(self, row: Row, request: Request) -> None:
        self._ledger.see(row, request)
        try:
            request.follow(row.tokens[len(request) :])
        except Exception:
            self._give_up(request)

    def _with_new(self, rows: list[Row], requests: list[Request | None]) -> list[Request | None]:
        """The requests with those that are new and that there is room for."""
        everyone = [*requests]
        left, room = _INDEXED_PER_CALL, None
        for index, row in enumerate(rows):
            if everyone[index] is not None or left <= 0:
                continue
            n = len(row.tokens)
            room = self._memory_tokens - self._ledger.n_tokens if room is None else room
            if n > room:
                continue
            left -= n
            room -= n
            everyone[index] = self._begin(row)
        return everyone

    def _begin(self, row: Row) -> Request:
        request = Request(row.tokens, n_prompt=len(row.tokens) - row.n_new)
        self._ledger.add(row, request)
        try:
            source = self._source()
            request.draft_from(source, CostGate(self._cost.share, options=source.gate))
        except Exception:
            self._tell("drafts nothing for a request")
        return request

    def _source(self) -> Cascade:
        setting = Setting(n_vocab=self._n_vocab, cost=self._cost.share, history=self._history)
        source = calibrated()(setting)
        if not isinstance(source, Cascade):
            raise InvalidArgumentError(f"{source!r:.80} takes no references")
        for document in self._documents:
            source.add_reference(document)
        return source

    def _draft(self, row: Row, request: Request | None) -> Draft | None:
        # Beyond the context nothing can be verified, and vLLM does not check.
        limit = min(self._max_draft, self._max_length - len(row.tokens) - 1)
        if request is None or limit < 1:
            return None
        try:
            return request.propose(limit)
        except Exception:
            self._give_up(request)
            return None

    def _leave(self, ended: Iterable[Request]) -> None:
        """What requests have said may be said again."""
        if self._history is not None:
            for request in ended:
                if request.has_source:
                    self._history.add(request.said)

    def _give_up(self, request: Request) -> None:
        request.give_up()
        self._tell("drafts no more for a request")

    def _tell(self, what: str) -> None:
        """Log the present error, the first time with all of it."""
        if self._told:
            _log.debug("Maglio %s", what, exc_info=True)
            return
        self._told = True
        _log.warning(
            "Maglio %s (no output is affected; further errors are logged at level DEBUG)",
            what,
            exc_info=True,
        )


def _check_model(model: Any) -> None:  # noqa: ANN401 (of vLLM)
    """Refuse models whose state vLLM can spoil where drafts come and go.

    Raises:
        InvalidArgumentError: it has recurrent layers.
    """
    if getattr(model, "is_hybrid", False) or getattr(model, "has_inner_state", False):
        raise InvalidArgumentError(
            "the model has recurrent layers, whose state vLLM can spoil when a step without drafts "
            "follows one with drafts (vLLM issue 39273); run it without speculative decoding"
        )
