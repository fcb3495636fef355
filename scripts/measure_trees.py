"""Measure what draft trees would gain, and what verifying one costs on the transformers library.

`gain` needs no model: it replays recorded runs (``maglio bench record``). At every step a tree of
at most WIDTH children per node is grown, likeliest node first, to the size that promises most
tokens for its price, and walked along what the model said. Nodes come from what followed the
longest earlier occurrence of their context, from shorter contexts, and from the candidates of
earlier rows. How likely each kind of node is right is counted on the other folds of the runs.

    python scripts/measure_trees.py gain RUNS.npz [COSTS.json ...]

`cost` times forwards of the transformers library, float32 on the CPU, by rows: a chain with the
library's own mask, and a binary tree with a 4-D mask, whose longest path is then gathered in the
cache. Weights are random and the shape is SmolLM2-135M's. It checks first that the rows of a tree
are those of its paths alone. Kinds take turns; figures are medians (minimum to maximum) of ratios
to a plain step. The last line is JSON, `[[rows, plain steps], ...]` of the tree, to give to `gain`.

    python scripts/measure_trees.py cost [THREADS] [CONTEXT]
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from maglio.bench.runs_file import Run, read_runs
from maglio.draft.calibration import row_of
from maglio.economics.cost import FLAT_COST, NATIVE_COST, CostCurve

WIDTHS = (1, 2, 3, 4)
MAX_NODES = 63
DEPTH = 16
ORDER = 8  # longest context, in tokens
FOLDS = 4
PRIOR_TRIED, PRIOR_RIGHT = 4.0, 0.4
FLOOR = 0.01  # a node that is reached less often is not grown

Key = tuple[str, int, int, int]


class Child(NamedTuple):
    """A token that may come next, and the kind of guess that it is."""

    token: int
    key: Key


class Index:
    """What followed every context of up to ``ORDER`` tokens, and the rows after one and two."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, ...], dict[int, tuple[int, int]]] = defaultdict(dict)
        self._rows: dict[tuple[int, ...], Sequence[int]] = {}
        self._last_row: Sequence[int] = ()
        self.stream: list[int] = []

    def add(self, token: int, row: Sequence[int]) -> None:
        """The stream goes on with ``token``; ``row`` are the best candidates after that."""
        stream, place = self.stream, len(self.stream)
        for order in range(1, min(ORDER, place) + 1):
            seen = self._next[tuple(stream[place - order :])]
            seen[token] = (seen.get(token, (0, 0))[0] + 1, place)
        # The row of the last token is computed by the step that drafts after it.
        for order in (1, 2):
            if place >= order:
                self._rows[tuple(stream[place - order :])] = self._last_row
        stream.append(token)
        self._last_row = row

    def children(self, context: tuple[int, ...]) -> list[Child]:
        """The likeliest tokens after a context."""
        most = max(WIDTHS)
        found: dict[int, Key] = {}
        for order in range(len(context), 0, -1):
            seen = self._next.get(context[-order:], {})
            times = sum(count for count, _ in seen.values())
            ranked = sorted(seen.items(), key=lambda item: item[1], reverse=True)
            for token, (count, _) in ranked[:most]:
                if token not in found and len(found) < 2 * most:
                    sure = 0 if times == 1 else 1 + 4 * count // times
                    found[token] = ("index", row_of(order), sure, min(len(found), most - 1))
        row, known = self._rows.get(context[-2:], ()), 2
        if not row:
            row, known = self._rows.get(context[-1:], ()), 1
        for place, token in enumerate(row[:most]):
            key = found.get(token)
            if key is None:
                found[token] = ("row", known, place, 0)
            else:
                found[token] = (f"both, place {min(place, 1)}", *key[1:])
        return [Child(token, key) for token, key in found.items()]


def context_of(stream: Sequence[int], path: tuple[int, ...]) -> tuple[int, ...]:
    """The last tokens of the stream and a path."""
    missing = max(0, ORDER - len(path))
    return (*(stream[-missing:] if missing else ()), *path)[-ORDER:]


class Odds:
    """How often each kind of guess is right."""

    def __init__(self) -> None:
        self._tried: dict[Key, float] = defaultdict(float)
        self._right: dict[Key, float] = defaultdict(float)

    def count(self, key: Key, right: bool) -> None:
        """One more guess."""
        self._tried[key] += 1
        self._right[key] += right

    def add(self, other: Odds) -> None:
        """Add the counts of another fold."""
        for key, tried in other._tried.items():
            self._tried[key] += tried
            self._right[key] += other._right[key]

    def of(self, key: Key) -> float:
        """The probability that such a guess is right."""
        return (self._right[key] + PRIOR_RIGHT) / (self._tried[key] + PRIOR_TRIED)


def walk(run: Run) -> Iterable[tuple[Index, int]]:
    """The index before every token of the answer but the first, and the token."""
    index = Index()
    for token, row in zip(run.prompt.tolist(), run.prompt_ids.tolist(), strict=True):
        index.add(token, row)
    rows = run.output_ids.tolist()
    for place, token in enumerate(run.output.tolist()):
        if place > 0:
            yield index, place
        index.add(token, rows[place])


def counted(run: Run) -> Odds:
    """What a run teaches, from every place of it."""
    odds = Odds()
    answer = run.output.tolist()
    for index, place in walk(run):
        for child in index.children(context_of(index.stream, ())):
            odds.count(child.key, child.token == answer[place])
    return odds


class Plan(NamedTuple):
    """A tree: the children of each node by token, and its size."""

    children: dict[int, dict[int, int]]
    nodes: int


def grow(index: Index, odds: Odds, width: int, cost: CostCurve) -> Plan:
    """The tree that promises most tokens for its price."""
    children: dict[int, dict[int, int]] = defaultdict(dict)
    heap: list[tuple[float, int, int, tuple[int, ...]]] = []
    order: list[tuple[int, int]] = []  # parent and token of each node, likeliest first

    def expand(node: int, path: tuple[int, ...], survival: float) -> None:
        if len(path) >= DEPTH:
            return
        offers = index.children(context_of(index.stream, path))
        ranked = sorted(((odds.of(c.key), c.token) for c in offers), reverse=True)[:width]
        for hazard, token in ranked:
            if survival * hazard >= FLOOR:
                heappush(heap, (-survival * hazard, node, token, (*path, token)))

    expand(0, (), 1.0)
    expected, best, best_nodes = 1.0, 1.0, 0
    while heap and len(order) < MAX_NODES:
        negative, parent, token, path = heappop(heap)
        order.append((parent, token))
        expected -= negative
        gain = expected / cost.cost(1 + len(order))
        if gain > best:
            best, best_nodes = gain, len(order)
        expand(len(order), path, -negative)
    for node, (parent, token) in enumerate(order[:best_nodes], start=1):
        children[parent][token] = node
    return Plan(children, best_nodes)


class Total(NamedTuple):
    """What steps of a replay came to."""

    tokens: int
    steps: int
    nodes: int
    paid: float


def replayed(run: Run, odds: Odds, width: int, cost: CostCurve) -> Total:
    """Decode the answer of a run with trees."""
    answer = run.output.tolist()
    done, steps, nodes, paid = 1, 0, 0, 0.0
    for index, place in walk(run):
        if place < done:
            continue
        plan = grow(index, odds, width, cost)
        node, accepted = 0, 0
        while place + accepted < len(answer):
            following = plan.children.get(node, {}).get(answer[place + accepted])
            if following is None:
                break
            node, accepted = following, accepted + 1
        done = min(place + accepted + 1, len(answer))
        steps, nodes, paid = steps + 1, nodes + plan.nodes, paid + cost.cost(1 + plan.nodes)
    return Total(len(answer) - 1, steps, nodes, paid)


def measure_gain(path: Path, curves: dict[str, CostCurve]) -> None:
    """Print the speed-up of every width on every curve, by odds of the other folds."""
    runs = read_runs(path)
    taught = [counted(run) for run in runs]
    odds = []
    for fold in range(FOLDS):
        odds.append(Odds())
        for place, each in enumerate(taught):
            if place % FOLDS != fold:
                odds[fold].add(each)
    for name, cost in curves.items():
        for width in WIDTHS:
            totals = [replayed(run, odds[i % FOLDS], width, cost) for i, run in enumerate(runs)]
            tokens, steps, nodes = (sum(t[i] for t in totals) for i in range(3))
            paid = sum(t.paid for t in totals)
            print(
                f"{name}: width {width}: {tokens / paid:.3f} times plain, {tokens / steps:.2f} "
                f"tokens and {nodes / steps:.1f} draft rows a step",
                flush=True,
            )


ROWS = (2, 4, 8, 16, 32, 64)
TURNS = 9
SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


class Verifier:
    """A model of the transformers library with a context in its cache."""

    def __init__(self, context: int) -> None:
        import torch
        import transformers

        self.torch = torch
        torch.manual_seed(0)
        config = transformers.LlamaConfig(**SMOLLM2)
        self._model = transformers.AutoModelForCausalLM.from_config(config).eval().float()
        self._cache = transformers.DynamicCache(config=config)
        self.context = context
        self.tokens = torch.randint(0, config.vocab_size, (1, context + max(ROWS)))
        self._forward(self.tokens[:, :context])

    def chain(self, tokens: Any) -> Any:  # noqa: ANN401 (a tensor)
        """Rows one after the other; they are dropped afterwards."""
        rows = self._forward(tokens)
        self._cut()
        return rows

    def tree(self, tokens: Any, parents: Sequence[int], path: Sequence[int]) -> Any:  # noqa: ANN401
        """Rows of a tree, ``parents`` -1 at the root; the cache is left with those of ``path``."""
        torch, context, n = self.torch, self.context, len(parents)
        sees = torch.zeros(n, context + n, dtype=torch.bool)
        sees[:, :context] = True
        depth = torch.zeros(1, n, dtype=torch.long)
        for row, parent in enumerate(parents):
            if parent >= 0:
                sees[row] = sees[parent]
                depth[0, row] = depth[0, parent] + 1
            sees[row, context + row] = True
        mask = torch.zeros(1, 1, n, context + n)
        mask.masked_fill_(~sees, torch.finfo(mask.dtype).min)
        rows = self._forward(tokens, mask=mask, positions=context + depth)
        kept = torch.tensor([*range(context), *(context + row for row in path)])
        for layer in self._cache.layers:
            layer.keys = layer.keys.index_select(-2, kept)
            layer.values = layer.values.index_select(-2, kept)
        self._cut()
        return rows

    def _forward(self, tokens: Any, mask: Any = None, positions: Any = None) -> Any:  # noqa: ANN401
        with self.torch.no_grad():
            return self._model(
                tokens, attention_mask=mask, position_ids=positions, past_key_values=self._cache
            ).logits[0]

    def _cut(self) -> None:
        for layer in self._cache.layers:
            layer.keys = layer.keys[..., : self.context, :]
            layer.values = layer.values[..., : self.context, :]


def binary(n: int) -> list[int]:
    """Parents of a binary tree of ``n`` rows."""
    return [(row - 1) // 2 if row > 0 else -1 for row in range(n)]


def path_to(row: int, parents: Sequence[int]) -> list[int]:
    """The rows from the root to ``row``."""
    path: list[int] = []
    while row >= 0:
        path.insert(0, row)
        row = parents[row]
    return path


def check(verifier: Verifier) -> None:
    """The rows of a tree are those of its paths alone."""
    parents = binary(7)
    tokens = verifier.tokens[:, verifier.context : verifier.context + 7]
    rows = verifier.tree(tokens, parents, [0])
    for leaf in range(3, 7):
        path = path_to(leaf, parents)
        alone = verifier.chain(tokens[:, path])
        difference = float((rows[path] - alone).abs().max())
        if difference > 1e-3:
            raise SystemExit(f"the rows of a tree differ from those of a path by {difference}")
    print("the rows of a tree are those of its paths")


def seconds(begin: float) -> float:
    return perf_counter() - begin


def measure_cost(threads: int, context: int) -> None:
    """Print the price of verifying a chain and a tree, by rows."""
    verifier = Verifier(context)
    verifier.torch.set_num_threads(threads)
    check(verifier)
    points: list[tuple[int, float]] = [(1, 1.0)]
    for n in ROWS:
        parents = binary(n)
        path = path_to(n - 1, parents)
        tokens = verifier.tokens[:, context : context + n]
        chains, trees, plains = [], [], []
        for turn in range(TURNS + 1):  # the first turn warms up
            begin = perf_counter()
            verifier.chain(tokens[:, :1])
            plain = seconds(begin)
            begin = perf_counter()
            verifier.chain(tokens)
            chain = seconds(begin)
            begin = perf_counter()
            verifier.tree(tokens, parents, path)
            tree = seconds(begin)
            if turn > 0:
                plains.append(plain)
                chains.append(chain / plain)
                trees.append(tree / plain)
        print(
            f"{n} rows: chain {median(chains):.2f} ({min(chains):.2f} to {max(chains):.2f}), tree "
            f"{median(trees):.2f} ({min(trees):.2f} to {max(trees):.2f}) plain steps of "
            f"{1000 * median(plains):.1f} ms",
            flush=True,
        )
        points.append((n, max(1.0, round(median(trees), 3))))
    print(json.dumps(points))


def main() -> None:
    what, *arguments = sys.argv[1:] or [""]
    if what == "gain" and arguments:
        curves = {"native": NATIVE_COST, "flat": FLAT_COST}
        for name in arguments[1:]:
            curves[name] = CostCurve(json.loads(Path(name).read_text()))
        measure_gain(Path(arguments[0]), curves)
    elif what == "cost":
        threads = int(arguments[0]) if arguments else 2
        measure_cost(threads, int(arguments[1]) if len(arguments) > 1 else 512)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
