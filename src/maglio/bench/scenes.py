"""What ``maglio demo`` asks a model, and how plain and speculative decoding of it compare.

Boundary: prompts, streams and numbers. It shows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from maglio.bench.data.dialogue import Message
from maglio.bench.stream import ModelText, encode_prompt
from maglio.generation import Generation, Stream
from maglio.model import Model
from maglio.speculation import Speculation

MAX_TOKENS = 160
"""Most tokens of an answer. All, each given twice, take under ten seconds at 100 a second."""

# Without history: the second answer to a question must not be drafted from the first one.
_SPECULATION = Speculation(history=False)
# What templates of several families read: these questions need no thoughts.
_NO_THOUGHTS = {"enable_thinking": False, "thinking": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One question.

    Attributes:
        name: what kind of answer it wants.
        instruction: what is to be done, for people.
        question: the whole question, for the model.
        original: what the answer will be an edited copy of, to draft from.
        stop: the answer ends before the first of these texts.
    """

    name: str
    instruction: str
    question: str
    original: str | None = None
    stop: tuple[str, ...] = ()

    def prompt(self, model: Model) -> list[int]:
        """The question as token ids.

        Raises:
            ChatTemplateError: the model's template does not take it.
        """
        text = ModelText(model.tokenizer, model.chat_template, variables=_NO_THOUGHTS)
        return encode_prompt((Message("user", self.question),), text)

    def stream(
        self, model: Model, prompt: list[int], *, max_tokens: int, speculative: bool
    ) -> Stream:
        """Begin an answer, chosen greedily.

        Raises:
            InvalidArgumentError: ``max_tokens`` can never work.
            ContextFullError: the prompt is longer than the context.
        """
        return model.stream(
            prompt,
            max_tokens=max_tokens,
            speculation=_SPECULATION if speculative else False,
            prediction=self.original,
            stop=self.stop,
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two answers to one question.

    Attributes:
        scene: the question.
        plain: the answer without drafts.
        speculative: the answer with them.
    """

    scene: Scene
    plain: Generation
    speculative: Generation

    @property
    def ratio(self) -> float:
        """How many times as fast the second was; 1 if either was too short to be timed."""
        plain, speculative = self.plain.stats.tokens_per_s, self.speculative.stats.tokens_per_s
        return speculative / plain if plain > 0 and speculative > 0 else 1.0

    @property
    def identical(self) -> bool:
        """Whether both have the same tokens."""
        return self.plain.tokens == self.speculative.tokens


PACKING = """- a tent for two people
- a warm sleeping bag
- a sharp pocket knife
- two bottles of water
- a map of the mountains
- a box of matches
- a small frying pan
- a rope of ten metres
- dry socks and a towel
- a torch with new batteries
- bread, cheese and apples"""

CHART = """import matplotlib.pyplot as plt

days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
visits = [120, 132, 101, 134, 190, 230, 210]

plt.figure(figsize=(8, 4))
plt.bar(days, visits, color="blue")
plt.title("Visits per day")
plt.xlabel("Day")
plt.ylabel("Visits")
plt.show()
"""

_REPEAT = "Repeat this packing list."
_REPAINT = "Write this code again, with `green` instead of `blue`."
_WHY = "Why is the sky blue?"

SCENES = (
    Scene(name="a list, restated", instruction=_REPEAT, question=f"{_REPEAT}\n\n{PACKING}"),
    Scene(
        name="code, edited",
        instruction=_REPAINT,
        question=f"```python\n{CHART}```\n\n{_REPAINT}",
        original=CHART,
        stop=("\n```",),  # what is said after the code is no edit
    ),
    Scene(name="free text", instruction=_WHY, question=_WHY),
)
"""What is asked, chosen so that a model of 135 million parameters answers it well."""
