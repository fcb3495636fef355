"""Long conversations: a template is rendered a few times, however many turns there are."""

from __future__ import annotations

import pytest

from maglio.chat.history import Exchanges
from maglio.chat.prompt import PromptEncoder
from maglio.chat.rendered import Rendered
from maglio.chat.turn import Turn
from support.chat_model import STRIPPING, TEMPLATE, chat_model

NUMBERED = TEMPLATE.replace("{{ message.content }}", "{{ loop.index }}. {{ message.content }}")
LAST = TEMPLATE.replace("{{ message.content }}", "{{ message.content }}{{ messages | length }}")
TEMPLATES = {"plain": TEMPLATE, "stripping": STRIPPING, "numbered": NUMBERED, "last": LAST}
USERS = ("a question", "s", "assistant", "<|im_end|>\n", "", "user\na question")


class Counted:
    """An encoder that counts its renderings."""

    def __init__(self, folder, template):
        self.model = chat_model(folder, template=template)
        chat_template = self.model.chat_template
        self.encoder = PromptEncoder(chat_template, self.model.tokenizer)
        self.renders = 0
        render = chat_template.render

        def counting(*args, **kwargs):
            self.renders += 1
            return render(*args, **kwargs)

        chat_template.render = counting

    def turn(self, n, user=None):
        answer = f"the answer e{n} " * (1 + n % 3)
        tokens = self.model.tokenizer.encode(answer[:3], add_special=False)
        tokens += self.model.tokenizer.encode(answer[3:], add_special=False)
        return Turn(user if user is not None else f"question {n}", answer, tuple(tokens), "stop")

    def history(self, n, system="be kind"):
        return Exchanges(system, tuple(self.turn(i) for i in range(n)))

    def counted(self, work):
        before = self.renders
        result = work()
        return result, self.renders - before


@pytest.fixture(params=["plain", "stripping"])
def counted(folder, request):
    return Counted(folder, TEMPLATES[request.param])


def by_turns(encoder, history):
    """What the conversation was encoded to as it went on."""
    rendered = Rendered()
    for index in range(history.dropped, len(history.turns)):
        turn = history.turns[index]
        prompt = encoder.prompt(history.messages(index, turn.user), rendered)
        rendered = encoder.answer(prompt, turn.answer, turn.tokens)
    return rendered


def test_dropping_turns_renders_a_few_times(counted):
    history = counted.history(300)
    known = counted.encoder.history(history, Rendered())
    n_ctx = len(known.ids)
    (shorter, prompt), renders = counted.counted(
        lambda: counted.encoder.fit(history, "and now", known, n_ctx=n_ctx, reserve=64)
    )
    assert renders <= 12
    assert len(prompt.ids) <= n_ctx // 2
    more = counted.encoder.prompt(
        history.dropping(shorter.dropped - 1).messages(user="and now"), Rendered()
    )
    assert len(more.ids) > n_ctx // 2, "one turn fewer would have done"


def test_what_is_left_keeps_the_answers_as_they_were_generated(counted):
    history = counted.history(40)
    known = counted.encoder.history(history, Rendered())
    shorter, prompt = counted.encoder.fit(
        history, "and now", known, n_ctx=len(known.ids), reserve=64
    )
    expected = counted.encoder.prompt(
        shorter.messages(user="and now"), by_turns(counted.encoder, shorter)
    )
    assert prompt.text == expected.text
    assert prompt.ids == expected.ids


def test_going_back_renders_once(counted):
    history = counted.history(300)
    known = counted.encoder.history(history, Rendered())
    back, renders = counted.counted(
        lambda: counted.encoder.history(history.first(299), known, history)
    )
    assert renders == 1
    expected = by_turns(counted.encoder, history.first(299))
    assert (back.text, back.ids) == (expected.text, expected.ids)


def test_a_conversation_that_was_loaded_renders_a_few_times(counted):
    history = counted.history(300)
    _, renders = counted.counted(lambda: counted.encoder.history(history, Rendered()))
    assert renders <= 3


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("system", [None, "be kind"])
def test_a_conversation_that_was_loaded_has_the_ids_that_it_had(folder, name, system):
    counted = Counted(folder, TEMPLATES[name])
    users = [*USERS, *reversed(USERS), *(["hi"] * 5), *USERS]
    turns = tuple(counted.turn(i, user) for i, user in enumerate(users))
    history = Exchanges(system, turns)
    loaded, grown = counted.encoder.history(history, Rendered()), by_turns(counted.encoder, history)
    assert loaded.text == grown.text
    assert loaded.ids == grown.ids


def test_a_chat_goes_on_for_hundreds_of_turns_in_a_small_context(folder):
    counted = Counted(folder, TEMPLATE)
    chat = counted.model.chat(max_tokens=2, on_full="drop")
    _, renders = counted.counted(lambda: [chat.send("hi").result() for _ in range(150)])
    assert len(chat.turns) == 150
    assert len(chat.tokens) <= 256
    assert renders <= 3 * 150
