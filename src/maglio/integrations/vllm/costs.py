"""What a step of vLLM costs by the rows in it, learnt apart for batches of different sizes.

Boundary: prices of rows. Knows no request and takes no time itself.
"""

from __future__ import annotations

from maglio.economics.cost import CostModel
from maglio.economics.live_cost import LiveCost


class BatchCost:
    """The costs of steps of a batch, in steps of one row; a :class:`CostModel`.

    A step of vLLM holds a row for each request, and one for each draft token. The table says how
    the cost grows with the rows. Timings correct it: what a verify step took over what a plain step
    of such a batch took. So what vLLM loses by verifying at all is in the price, such as a graph of
    the device that was made for plain steps. It is learnt apart for 1, 2 to 3, 4 to 7, … requests.

    Args:
        table: costs by rows.
    """

    def __init__(self, table: CostModel) -> None:
        self._table = table
        self._live: dict[int, LiveCost] = {}
        self._requests = 1
        self.share = Share(self)

    @property
    def table(self) -> CostModel:
        """The costs without what was learnt."""
        return self._table

    @property
    def requests(self) -> int:
        """How many requests the next step has."""
        return self._requests

    def prepare(self, requests: int) -> None:
        """From now on, prices are those of a step of so many requests, at least 1."""
        self._requests = requests

    @property
    def wants_plain(self) -> bool:
        """Whether the next step should be a plain one, for its time."""
        return self._learnt.wants_plain

    def cost(self, rows: int) -> float:
        """Cost of a step of ``rows`` rows; one of as many rows as requests is a plain step."""
        if rows <= self._requests:
            return self._table.cost(rows)
        # No verify step is cheaper than the plain one.
        return max(self._learnt.cost(rows), self._table.cost(self._requests))

    def learn(self, rows: int, seconds: float) -> None:
        """A step of the present requests with ``rows`` rows took ``seconds``."""
        if rows <= self._requests:
            # As if one row alone had been timed: what the multiplier of LiveCost refers to.
            self._learnt.learn(1, seconds / self._table.cost(self._requests))
        else:
            self._learnt.learn(rows, seconds)

    @property
    def _learnt(self) -> LiveCost:
        size = self._requests.bit_length()
        found = self._live.get(size)
        return self._live.setdefault(size, LiveCost(self._table)) if found is None else found


class Share:
    """The same costs as one request sees them, a :class:`CostModel` for its draft alone.

    Its rows make the step longer for all requests, so all of that time counts: with 8 requests, a
    draft that makes the step a tenth longer must bring 0.8 tokens.
    """

    def __init__(self, batch: BatchCost) -> None:
        self._batch = batch

    def cost(self, rows: int) -> float:
        """Cost of ``rows`` rows of one request, in tokens that the time is worth."""
        requests = self._batch.requests
        longer = self._batch.cost(requests + rows - 1) / self._batch.cost(requests)
        return 1.0 + requests * (longer - 1.0)
