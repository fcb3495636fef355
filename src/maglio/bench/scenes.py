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
"""Most tokens of an answer. All answers, each given twice, take some ten seconds at 100 a second."""

# Without history: the second answer to a question must not be drafted from the first one.
_SPECULATION = Speculation(history=False)
# What templates of several families read: these questions need no thoughts.
_NO_THOUGHTS = {"enable_thinking": False, "thinking": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One question.

    Attributes:
        name: what kind of answer it wants.
        instruction: what to do.
        material: the text to do it with.
        edits: whether the answer will be an edited copy of the material, and can be drafted as one.
    """

    name: str
    instruction: str
    material: str = ""
    edits: bool = False

    def prompt(self, model: Model) -> list[int]:
        """The question as token ids.

        Raises:
            ChatTemplateError: the model's template does not take it.
        """
        text = ModelText(model.tokenizer, model.chat_template, variables=_NO_THOUGHTS)
        question = f"{self.instruction}\n\n{self.material}" if self.material else self.instruction
        return encode_prompt((Message("user", question),), text)

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
            prediction=self.material if self.edits else None,
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


_PACKING = """- a tent for two people
- a warm sleeping bag
- a sharp pocket knife
- two bottles of water
- a map of the mountains
- a box of matches
- a small frying pan
- bread, cheese and apples"""

_CODE = '''def average(numbers):
    total = 0
    for number in numbers:
        total = total + number
    return total / len(numbers)


def largest(numbers):
    best = numbers[0]
    for number in numbers:
        if number > best:
            best = number
    return best
'''

SCENES = (
    Scene(name="a list, restated", instruction="Repeat this packing list.", material=_PACKING),
    Scene(
        name="code, edited",
        instruction="Rename `numbers` to `values` in this code.",
        material=_CODE,
        edits=True,
    ),
    Scene(
        name="free text",
        instruction="Describe a walk through a market town early on a winter morning.",
    ),
)
"""What is asked, chosen so that a model of 135 million parameters answers it well."""
