"""What all endpoints share: the service, its model, settings, metrics and log.

Boundary: made once per server; computes nothing by itself.
"""

from __future__ import annotations

import time
from functools import cached_property

from maglio.calls import CallFormat, format_of
from maglio.llama_sampling import Breaker, default_breakers
from maglio.model import Model
from maglio.server.fingerprint import system_fingerprint
from maglio.server.http.body import BodyRoom
from maglio.server.settings import Settings
from maglio.server.streams.service import Service
from maglio.server.telemetry.metrics import Metrics
from maglio.server.telemetry.request_log import RequestLog


class ServerState:
    """A server's parts.

    Args:
        service: runs requests.
        settings: how to answer.
        log: where requests are written to.
    """

    def __init__(self, service: Service, settings: Settings, log: RequestLog) -> None:
        self.service = service
        self.settings = settings
        self.log = log
        self.bodies = BodyRoom()
        self.created = self.now()
        self.fingerprint = system_fingerprint(service.model)
        self.metrics = Metrics(
            {
                "requests_running": (
                    "Generations under way.",
                    lambda: float(service.stats.running),
                ),
                "requests_waiting": (
                    "Generations that wait for a place.",
                    lambda: float(service.stats.waiting),
                ),
                "forwards": ("Forwards so far.", lambda: float(service.stats.steps)),
                "batch_width": ("Streams per forward, so far.", self._width),
            }
        )

    @staticmethod
    def now() -> int:
        """Seconds since 1970, as answers say when they were made."""
        return int(time.time())

    @property
    def model(self) -> Model:
        """The model."""
        return self.service.model

    @cached_property
    def calls(self) -> CallFormat:
        """How the model writes calls and thoughts; found by rendering a few short conversations."""
        return format_of(self.model.chat_template)

    @cached_property
    def breakers(self) -> tuple[Breaker, ...]:
        """What breaks repetitions where a request with DRY does not say."""
        return default_breakers(self.model.tokenizer)

    def _width(self) -> float:
        stats = self.service.stats
        return stats.streams / stats.steps if stats.steps else 0.0
