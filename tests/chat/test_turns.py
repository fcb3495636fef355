"""What a turn leaves behind: in the history, in the indexes, in the cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import maglio
from maglio.draft.source import Draft, DraftSource
from maglio.errors import ChatTemplateError, ContextFullError, InvalidArgumentError
from support.chat_model import STOP, TEMPLATE, chat_model

SAMPLED = maglio.SamplingParams(temperature=0.9, logit_bias={STOP: 3.5}, seed=7)
TEXTS = ("hi", "the quick brown fox", "on and on", "hi")


class Oracle(DraftSource):
    """Drafts what plain decoding has generated, stop tokens and all, and records what it hears."""

    topk = 3

    def __init__(self, streams, width=6):
        self.streams = streams
        self.width = width
        self.seen = []
        self.rows = []
        self.rewound = []
        self.judged = []

    def propose(self, stream, limit):
        assert self.seen == list(stream)
        for known in self.streams:
            if known[: len(stream)] == tuple(stream):
                return Draft(known[len(stream) :][: min(self.width, limit)], "oracle")
        return None

    def observe(self, step):
        if step.top is not None:
            assert len(step.fed) == len(step.top)
            self.rows.append((len(self.seen), tuple(step.fed)))
        if step.draft is not None:
            self.judged.append((len(step.draft.tokens), step.accepted))
        self.seen += step.tokens

    def rewind(self, stream):
        self.rewound.append(len(stream))
        self.seen = list(stream)


def plain_streams(model, **options):
    """Prompt and everything generated, per turn, and the conversation."""
    chat = model.chat(speculation=False, sampling=SAMPLED, **options)
    streams = []
    for text in TEXTS:
        answer = chat.send(text)
        next(answer)
        prompt = chat._stream._sequence.tokens[:-1]
        answer.result()
        streams.append((*prompt, *answer.tokens))
    return streams, chat


@pytest.mark.parametrize("stop", [(), ("e",), ("an", "\n"), ("s o", "ot")])
@pytest.mark.parametrize("width", [2, 6, 16])
def test_sources_learn_what_stays_and_nothing_else(roomy_model, stop, width):
    streams, plain = plain_streams(roomy_model, stop=stop)
    oracle = Oracle(streams, width)
    chat = roomy_model.chat(
        speculation=maglio.Speculation(source=oracle, gate=False), sampling=SAMPLED, stop=stop
    )
    for text in TEXTS:
        answer = chat.send(text)
        answer.result()
        if answer.finish_reason == "stop" and not stop:
            assert answer.tokens[-1] == STOP
        kept = chat.tokens
        assert tuple(oracle.seen) == kept[: len(oracle.seen)]
        for position, tokens in oracle.rows:
            # Row i is that of the token at position - 1 + i, and all of them stay.
            assert kept[position - 1 : position - 1 + len(tokens)] == tokens
            assert position + len(tokens) <= len(kept) + 1
    assert oracle.rewound == [0]  # when it was taken on
    assert (chat.tokens, chat.position) == (plain.tokens, plain.position)
    assert sum(turn.stats.accepted for turn in chat.turns) > 0


def test_a_stop_inside_a_draft_counts_as_far_as_its_tokens_stay(roomy_model):
    streams, plain = plain_streams(roomy_model)
    turn = next(turn for turn in plain.turns if turn.finish_reason == "stop" and turn.tokens)
    oracle = Oracle(streams, width=16)
    chat = roomy_model.chat(
        speculation=maglio.Speculation(source=oracle, gate=False), sampling=SAMPLED
    )
    for text in TEXTS[: plain.turns.index(turn)]:
        chat.send(text).result()
    chat.send(turn.user).result()
    oracle.judged.clear()
    next(chat.send("hi"))  # the last step of the turn is told with the next message
    chat.send("hi").result()
    # The prefill gives the first token; the last draft ended with the stop token.
    assert oracle.judged[0] == ((len(turn.tokens) - 1) % 17,) * 2


def test_an_empty_answer_is_a_turn(model):
    chat = model.chat(sampling=maglio.SamplingParams(logit_bias={STOP: 99.0}))
    assert chat.send("hi").result() == ""
    (turn,) = chat.turns
    assert (turn.answer, turn.tokens, turn.finish_reason) == ("", (), "stop")
    chat.send("hi").result()
    assert [message["role"] for message in chat.messages] == ["user", "assistant"] * 2
    assert chat.position == 2


def test_a_stop_string_within_a_token_leaves_the_text_before_it(roomy_model):
    chat = roomy_model.chat(sampling=SAMPLED)
    text = chat.send("hi").result()
    tokenizer = roomy_model.tokenizer
    token = next(t for t in chat.turns[0].tokens if len(tokenizer.token_bytes(t)) == 2)
    second = tokenizer.token_bytes(token).decode()[1]
    cut = roomy_model.chat(sampling=SAMPLED, stop=[second])
    said = cut.send("hi").result()
    assert said == text[: text.index(second)]
    assert tokenizer.decode(cut.tokens, continues=True).endswith(said)


@pytest.mark.parametrize("n", range(6))
def test_a_closed_answer_keeps_what_was_said(model, n):
    whole = model.chat(sampling=SAMPLED).send("on and on")
    ids = [token.id for token in whole][:n]
    chat = model.chat(sampling=SAMPLED)
    answer = chat.send("on and on")
    for _ in range(n):
        next(answer)
    answer.close()
    if n == 0:
        assert chat.turns == ()
    else:
        assert chat.turns[0].tokens == tuple(ids)
        assert chat.turns[0].finish_reason == "interrupted"
    assert chat.position == n


def test_an_abandoned_answer_becomes_a_turn_when_the_chat_goes_on(model):
    chat = model.chat(sampling=SAMPLED)
    first = chat.send("hi")
    next(first)
    chat.send("hi").result()
    assert chat.turns[0].finish_reason == "interrupted"
    assert len(chat.turns) == 2
    with pytest.raises(StopIteration):
        next(first)


def test_ctrl_c_in_a_forward_keeps_what_was_said(model, monkeypatch):
    chat = model.chat(sampling=SAMPLED, speculation=False)
    forward = model.engine.forward
    calls = []

    def interrupted(batch):
        calls.append(batch)
        if len(calls) == 5:  # a prefill and four steps
            raise KeyboardInterrupt
        return forward(batch)

    monkeypatch.setattr(model.engine, "forward", interrupted)
    answer = chat.send("hi")
    with pytest.raises(KeyboardInterrupt):
        answer.result()
    assert len(chat.turns[0].tokens) == 4
    chat.send("hi").result()
    assert len(chat.turns) == 2


def test_retry_continues_the_random_stream_and_reuses_the_prompt(model):
    chat = model.chat(sampling=SAMPLED)
    answers = {chat.send("on and on").result()}
    before = chat.position
    for _ in range(4):
        answers.add(chat.retry().result())
        assert chat.turns[-1].stats.prompt_tokens == 0
    assert len(answers) > 1
    assert len(chat.turns) == 1
    assert chat.position > before


def test_an_undone_conversation_is_the_one_before(roomy_model):
    chat = roomy_model.chat(sampling=SAMPLED)
    for text in TEXTS[:2]:
        chat.send(text).result()
    before = chat.tokens
    chat.send("more").result()
    assert [turn.user for turn in chat.undo()] == ["more"]
    assert chat.tokens == before
    with pytest.raises(InvalidArgumentError, match=r"cannot undo 3: .* has 2 turns"):
        chat.undo(3)


def test_a_template_that_rewrites_history_costs_only_the_rewritten_part(stripping_model):
    chat = stripping_model.chat(sampling=SAMPLED, max_tokens=40)
    for text in TEXTS:
        chat.send(text).result()
    said = [turn.answer.split("e")[-1] for turn in chat.turns]
    assert any(turn.answer != short for turn, short in zip(chat.turns, said, strict=True))
    rendered = stripping_model.tokenizer.decode(chat.tokens, continues=True)
    assert all(f"assistant\n{short}\n" in rendered for short in said[:-1])


def test_an_edit_that_does_not_fit_changes_nothing(model):
    chat = model.chat(sampling=SAMPLED, max_tokens=5)
    for text in TEXTS[:3]:
        chat.send(text).result()
    before = (chat.turns, chat.tokens)
    with pytest.raises(ContextFullError):
        chat.edit(1, "x" * 300)
    assert (chat.turns, chat.tokens) == before


def test_dropping_a_turn_takes_it_out_of_the_middle(model):
    chat = model.chat(sampling=SAMPLED, max_tokens=5)
    for text in TEXTS[:3]:
        chat.send(text).result()
    assert chat.drop(1).user == TEXTS[1]
    assert [m["content"] for m in chat.messages if m["role"] == "user"] == ["hi", "on and on"]
    assert TEXTS[1] not in model.tokenizer.decode(chat.tokens)


def test_a_full_context_stops_or_drops_as_asked(model):
    chat = model.chat("be kind", sampling=SAMPLED, max_tokens=20)
    while chat.room > 60:
        chat.send("on and on").result()
    n_turns, tokens = len(chat.turns), chat.tokens
    assert (chat.dropped, len(tokens) > 150) == (0, True)
    with pytest.raises(ContextFullError, match="more than the context of 256; undo turns"):
        chat.send("on and on, again and again and again")
    assert (len(chat.turns), chat.tokens) == (n_turns, tokens)

    chat.on_full = "drop"
    chat.send("on and on").result()
    assert 0 < chat.dropped < len(chat.turns) == n_turns + 1
    assert [m["role"] for m in chat.messages[:2]] == ["system", "user"]
    assert len(chat.tokens) < 256
    with pytest.raises(ContextFullError, match="this message alone"):
        chat.send("x" * 300)


@pytest.mark.parametrize("on_full", ["stop", "drop"])
def test_a_message_that_is_sure_not_to_fit_is_refused_without_being_encoded(
    model, monkeypatch, on_full
):
    chat = model.chat(sampling=SAMPLED, max_tokens=5, on_full=on_full)
    chat.send("hi").result()
    before = (chat.turns, chat.tokens)
    monkeypatch.setattr(type(model.tokenizer), "encode", None)
    with pytest.raises(ContextFullError, match="100,000 characters has at least"):
        chat.send("x" * 100_000)
    assert (chat.turns, chat.tokens) == before


def test_only_what_a_template_writes_of_a_message_has_to_fit(folder):
    trimming = TEMPLATE.replace("message.content", "message.content | trim")
    chat = chat_model(folder, template=trimming).chat(sampling=SAMPLED, max_tokens=5)
    chat.send("hi" + " " * 100_000).result()
    assert len(chat.turns) == 1


def test_a_long_past_is_dropped_for_a_message_that_fits(model):
    chat = model.chat(sampling=SAMPLED, max_tokens=5, on_full="drop")
    for text in TEXTS[:3]:
        chat.send(text).result()
    chat._history = replace(chat._history, turns=(replace(chat.turns[0], user="x" * 99_999),))
    chat.send("hi").result()
    assert chat.dropped == 1


def test_an_answer_may_fill_the_context_to_its_end(model):
    chat = model.chat(sampling=maglio.SamplingParams(logit_bias={STOP: -99.0}), max_tokens=999)
    chat.send("hi").result()
    assert chat.turns[0].finish_reason == "length"
    assert chat.room == 0
    with pytest.raises(ContextFullError):
        chat.send("hi")


def test_statistics_add_up(model):
    chat = model.chat(sampling=SAMPLED, max_tokens=9)
    for text in TEXTS[:3]:
        chat.send(text).result()
    each = [turn.stats for turn in chat.turns]
    chat.undo()
    for name in ("steps", "committed", "drafted", "accepted", "prompt_tokens"):
        assert getattr(chat.stats, name) == sum(getattr(stats, name) for stats in each)
    assert chat.stats.committed == chat.position


def test_references_can_be_files_and_change_nothing_but_speed(roomy_model, tmp_path):
    (tmp_path / "a.txt").write_text("the quick brown fox jumps over the lazy dog " * 9)
    chats = [
        roomy_model.chat(sampling=SAMPLED, references=references)
        for references in ((), ("on and on " * 9, tmp_path / "a.txt"))
    ]
    for text in TEXTS[:3]:
        said = {chat.send(text).result() for chat in chats}
        assert len(said) == 1
    assert "reference:1" in chats[1].turns[0].stats.sources
    chats[1].clear_references()
    chats[1].send("hi").result()
    assert "reference:0" not in chats[1].turns[-1].stats.sources
    with pytest.raises(InvalidArgumentError, match=r"cannot read .*missing"):
        chats[0].add_reference(tmp_path / "missing.txt")


def test_a_source_of_ones_own_takes_no_references(model):
    chat = model.chat(speculation=maglio.Speculation(source=Oracle([])))
    with pytest.raises(InvalidArgumentError, match=r"Oracle.* takes no references"):
        chat.add_reference("text")
    assert chat.references == ()


def test_a_template_that_refuses_leaves_the_conversation_alone(folder):
    refusing = TEMPLATE + (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    )
    chat = chat_model(folder, template=refusing).chat(sampling=SAMPLED, max_tokens=4)
    chat.send("hi").result()
    with pytest.raises(ChatTemplateError, match="no system"):
        chat.system = "be kind"
    assert chat.system is None
    assert len(chat.turns) == 1


@pytest.mark.parametrize(
    "arguments", [{"max_tokens": 0}, {"on_full": "x"}, {"stop": [""]}, {"speculation": 3}]
)
def test_senseless_arguments_are_refused(model, arguments):
    with pytest.raises(InvalidArgumentError):
        model.chat(**arguments)


def test_a_model_without_chatml_tokens_still_ends_its_turns(folder):
    model = chat_model(folder, template=None)
    assert model.chat()._encoder.stop == ()
    model.tokenizer.control_tokens  # noqa: B018 (cached)
    vocabulary = dict(model.tokenizer.control_tokens)
    del vocabulary["<|im_end|>"]
    model.tokenizer.__dict__["control_tokens"] = vocabulary
    assert model.chat()._encoder.stop == ("<|im_end|>",)
    chat, endings = model.chat(stop=["e"]), []
    begin = chat._stream.answer
    chat._stream.answer = lambda ids, ending, progress: (
        endings.append(ending.stop) or begin(ids, ending, progress)
    )
    chat.send("hi").close()
    assert endings == [("e", "<|im_end|>")]


def test_a_conversation_may_have_one_of_several_templates(folder):
    model = chat_model(folder, template={"default": TEMPLATE, "rag": "[RAG]" + TEMPLATE})
    chat = model.chat(chat_template="rag", max_tokens=3)
    chat.send("hi").result()
    assert model.tokenizer.decode(chat.tokens).startswith("[RAG]")
    with pytest.raises(InvalidArgumentError, match=r"'other', must be .*: default, rag"):
        model.chat(chat_template="other")


def test_the_template_gets_tools_and_variables_with_every_turn(folder):
    template = (
        "{% for tool in tools or [] %}[{{ tool.name }}]{% endfor %}{{ mood }}"
        "{% for message in messages %}<|im_start|>{{ message.content }}<|im_end|>{% endfor %}"
    )
    model = chat_model(folder, template=template)
    chat = model.chat(
        max_tokens=4,
        sampling=maglio.SamplingParams(logit_bias={STOP: -99.0}),
        tools=[{"name": "lamp"}],
        template_variables={"mood": "<|im_end|>"},
    )
    for message in ("a", "b"):
        chat.send(message).result()
    said = model.tokenizer.decode(list(chat.tokens), show_control=True)
    assert said.startswith("[lamp]<|im_end|><|im_start|>a<|im_end|>")
    # Two messages and an answer end with it; what a variable spells is text.
    assert chat.tokens.count(STOP) == 3


def test_a_setting_that_is_refused_leaves_the_conversation_whole(roomy_model):
    chat = roomy_model.chat(max_tokens=12)
    chat.send("hello hello hello").result()
    before = chat.sampling, chat.speculation, chat._stream._sequence

    class TakesNone(DraftSource):
        def propose(self, stream, limit):
            return None

        def observe(self, step):
            pass

    chat.add_reference("hello again")
    for name, value in (
        ("sampling", maglio.SamplingParams(logit_bias={10**6: 1.0})),
        ("sampling", "x"),
        ("speculation", "x"),
        ("speculation", maglio.Speculation(source=TakesNone())),
        ("on_full", "x"),
        ("max_tokens", 0),
    ):
        with pytest.raises(InvalidArgumentError):
            setattr(chat, name, value)
        assert (chat.sampling, chat.speculation, chat._stream._sequence) == before
    chat.send("hello hello hello").result()


def test_one_text_or_path_is_one_reference(roomy_model, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("some text to quote")
    for given in ("some text to quote", path):
        chat = roomy_model.chat(references=given, max_tokens=4)
        chat.send("hi").result()
        names = [n for n in chat.stats.sources if n not in ("conversation", "history")]
        assert names == ["reference:0"]
        assert chat.references == (given,)


def test_turn_markers_are_never_penalised(model):
    hard = {"repeat_penalty": 9.0, "frequency_penalty": 9.0, "presence_penalty": 9.0}
    chat = model.chat(sampling=maglio.SamplingParams(**hard, dry_multiplier=9.0), max_tokens=9)
    for text in ("hi", "hi", "hi"):
        chat.send(text).result()
    picker = chat._stream._sequence.picker
    picker.extend([STOP, STOP, STOP])
    row = np.zeros(300, np.float32)
    row[STOP] = 1.0
    assert picker.pick(row, 0) == STOP


def test_ignore_eos_forbids_the_models_own_ends(model):
    sampling = maglio.SamplingParams(ignore_eos=True, logit_bias={STOP: 99.0})
    chat = model.chat(sampling=sampling, max_tokens=9)
    chat.send("hi").result()
    assert chat.turns[0].finish_reason == "length"
    assert STOP not in chat.turns[0].tokens
    assert chat.sampling == sampling
