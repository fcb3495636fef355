"""Plain against speculative decoding on tasks of every kind, side by side in one process.

Runs models; prints nothing. Both sides generate the same tokens, and that is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from maglio.bench.data.dialogue import Message
from maglio.bench.stream import ModelText, encode_prompt
from maglio.decode import GenerationStats, SamplingParams
from maglio.economics.probe import Spread
from maglio.generation import TextToken
from maglio.model import Model
from maglio.speculation import Speculation

SAMPLED = SamplingParams(temperature=0.7)
GREEDY = SamplingParams()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A prompt.

    Attributes:
        group: what its result is reported under.
        messages: a conversation to answer; or
        text: plain text to continue.
        reference: a document the answer may quote, for the draft source; the model sees only what
            the prompt says.
        sampling: how tokens are chosen.
    """

    group: str
    messages: tuple[Message, ...] = ()
    text: str = ""
    reference: str | None = None
    sampling: SamplingParams = GREEDY

    def sampled(self) -> Task:
        """The same at temperature 0.7."""
        return replace(self, group=f"{self.group}, T=0.7", sampling=SAMPLED)

    def encode(self, model: Model) -> list[int]:
        """The prompt as token ids."""
        if self.messages:
            return encode_prompt(self.messages, ModelText(model.tokenizer, model.chat_template))
        return model.tokenizer.encode(self.text)


def asked(group: str, question: str, *, reference: str | None = None) -> Task:
    """A task that is a question to a chat model."""
    return Task(group=group, messages=(Message("user", question),), reference=reference)


_REFRAIN = (
    "The hammer rises on the wheel, the hammer falls upon the steel, and so the day goes by.\n"
)
_NOTICE = (
    "The reading room opens at nine and closes at six, except on Fridays, when it closes at noon. "
    "Visitors leave coats and umbrellas in the lockers beside the stairs; the key is returned at "
    "the desk. Maps and manuscripts are read at the long table under the north window, two at a "
    "time, in pencil only. Photographs are allowed without flash. A copy of any page can be "
    "ordered from the desk and is ready the next morning."
)
_CODE = '''def mean(values):
    """Return the arithmetic mean of the values."""
    total = 0.0
    count = 0
    for value in values:
        total = total + value
        count = count + 1
    if count == 0:
        raise ValueError("mean of no values")
    return total / count


def variance(values):
    """Return the population variance of the values."""
    centre = mean(values)
    total = 0.0
    count = 0
    for value in values:
        total = total + (value - centre) ** 2
        count = count + 1
    return total / count
'''

_ARTICLE = (
    "Photosynthesis is a vital biological process that allows plants to convert light energy into "
    "chemical energy. The process occurs in specialized organelles called chloroplasts, which "
    "contain a green pigment called chlorophyll. Water and carbon dioxide from the atmosphere are "
    "converted into glucose and oxygen, and the oxygen is released into the atmosphere as a "
    "byproduct. This process is essential for life on Earth, as it provides the primary energy "
    "source for nearly all ecosystems."
)

BUILT_IN = (
    Task(group="repetition", text=12 * _REFRAIN),
    asked("grounded copy", f"Repeat this notice word for word.\n\n{_NOTICE}"),
    asked(
        "code edit",
        f"Rename `values` to `samples` in this module and print the whole module.\n\n{_CODE}",
    ),
    asked("free form", "Describe a walk through a market town early on a winter morning."),
    asked("reference", "What is photosynthesis?", reference=_ARTICLE),
)
"""One task of each kind."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one prompt gave.

    Attributes:
        group: of the task.
        prompt_tokens: length of the prompt.
        plain: tokens per second of plain decoding, prefill excluded,
        speculative: and of speculative decoding.
        ratio: the second over the first, by round.
        equal: whether both generated the same tokens in every round.
        stats: of the first speculative run.
        tokens: its tokens with their text and source.
    """

    group: str
    prompt_tokens: int
    plain: Spread
    speculative: Spread
    ratio: Spread
    equal: bool
    stats: GenerationStats
    tokens: tuple[TextToken, ...]


def run_task(
    model: Model, task: Task, *, max_tokens: int, rounds: int, speculation: Speculation
) -> TaskResult:
    """Decode a task plainly and speculatively by turns, and compare.

    The order changes from round to round, so that whoever goes first has no advantage.

    Args:
        model: the model.
        task: the prompt.
        max_tokens: most tokens per run.
        rounds: pairs of runs, at least 1.
        speculation: how to draft. Give one without history: rounds repeat a prompt, and what
            earlier ones said would be drafted from.

    Raises:
        ContextFullError: the prompt is longer than the context.
    """
    prompt = task.encode(model)
    pairs = [_pair(model, task, prompt, max_tokens, speculation, i % 2) for i in range(rounds)]
    plain = [run[0].tokens_per_s for run, _ in pairs]
    speculative = [run[0].tokens_per_s for _, run in pairs]
    ids = [[token.id for token in tokens] for pair in pairs for _, tokens in pair]
    stats, tokens = pairs[0][1]
    return TaskResult(
        task.group,
        len(prompt),
        Spread.of(plain),
        Spread.of(speculative),
        Spread.of([s / p if p > 0 else 1.0 for s, p in zip(speculative, plain, strict=True)]),
        all(other == ids[0] for other in ids),
        stats,
        tokens,
    )


_Run = tuple[GenerationStats, tuple[TextToken, ...]]


def _pair(
    model: Model,
    task: Task,
    prompt: Sequence[int],
    max_tokens: int,
    speculation: Speculation,
    first: int,
) -> tuple[_Run, _Run]:
    """A plain run and a speculative one, the latter begun first when ``first`` is 1."""
    runs: dict[int, _Run] = {}
    for kind in (first, 1 - first):
        stream = model.stream(
            prompt,
            max_tokens=max_tokens,
            sampling=task.sampling,
            speculation=speculation if kind else False,
            references=(task.reference,) if kind and task.reference is not None else (),
        )
        tokens = tuple(stream)
        runs[kind] = stream.stats, tokens
    return runs[0], runs[1]


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Results of one group.

    Attributes:
        group: its name.
        prompts: number of prompts.
        plain, speculative: tokens per second, the medians over prompts.
        ratio: spread of the prompts' ratios; of the rounds' when there is one prompt.
        worst: the lowest ratio of a prompt.
        equal: whether all outputs were equal.
    """

    group: str
    prompts: int
    plain: float
    speculative: float
    ratio: Spread
    worst: float
    equal: bool


def summarise(results: Iterable[TaskResult]) -> list[GroupSummary]:
    """Put results together by group, in the order in which groups appear."""
    groups: dict[str, list[TaskResult]] = {}
    for result in results:
        groups.setdefault(result.group, []).append(result)
    return [_summary(group, members) for group, members in groups.items()]


def _summary(group: str, results: list[TaskResult]) -> GroupSummary:
    ratios = [result.ratio.median for result in results]
    return GroupSummary(
        group,
        len(results),
        median(result.plain.median for result in results),
        median(result.speculative.median for result in results),
        results[0].ratio if len(results) == 1 else Spread.of(ratios),
        min(ratios),
        all(result.equal for result in results),
    )
