"""Options in groups are options like others, and mean what llama.cpp's do."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import maglio
from maglio.cli.drafting_options import DraftingOptions, HistoryOptions
from maglio.cli.option_groups import given, with_option_groups
from maglio.cli.sampling_options import SamplingOptions
from maglio.cli.text_options import TextOptions, unescape
from maglio.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    width: Annotated[int, typer.Option("--width", "-w")] = 3
    names: Annotated[list[str] | None, typer.Option("--name")] = None


def run(*words):
    got = {}
    app = typer.Typer()

    @app.command()
    @with_option_groups
    def command(*, context: typer.Context, sizes: Sizes, loud: bool = False) -> None:
        """Says what it got."""
        got.update(sizes=sizes, loud=loud, given=given(context))

    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    return got, result


def test_fields_of_a_group_are_options_and_come_back_as_the_group():
    got, _ = run("-w", "5", "--name", "a", "--name", "b", "--loud")
    assert got["sizes"] == Sizes(width=5, names=["a", "b"])
    assert got["loud"] is True
    assert run()[0]["sizes"] == Sizes()


def test_what_was_asked_for_is_told_from_defaults():
    assert run("--width", "3")[0]["given"] == {"width"}
    assert run("--loud")[0]["given"] == {"loud"}
    assert run()[0]["given"] == frozenset()


def test_the_help_page_has_the_fields_and_the_text_of_the_command():
    shown = run("--help")[1].stdout
    assert "--width" in shown
    assert "--name" in shown
    assert "Says what it got." in shown


class Tokenizer:
    texts = (b"a", b":", b"\n", b'he said: "', b"**", b"x")
    n_vocab = len(texts)

    def token_bytes(self, token):
        return self.texts[token]

    def encode(self, text, *, add_special):
        assert not add_special
        return [self.texts.index(bytes([byte])) for byte in text]


def params(**options):
    return SamplingOptions(**options).params(Tokenizer())


def test_special_values_mean_what_they_do_in_llama_cpp():
    assert params(top_k=-1).top_k == 0
    assert params(top_k=0).top_k == 0
    assert params(logit_bias=["5+1.5", "6-2", "7-inf"]).bias_pairs == (
        (5, 1.5),
        (6, -2.0),
        (7, -math.inf),
    )
    assert params(ignore_eos=True).ignore_eos
    assert params(top_n_sigma=-1.0).top_n_sigma == 0.0
    assert params(min_keep=0).min_keep == 1


def test_options_that_are_left_alone_are_the_parameters_defaults():
    assert params(seed=0) == maglio.SamplingParams()


@pytest.mark.parametrize(
    ("option", "steps"),
    [
        ("default", maglio.SamplingParams().steps),
        ("llama.cpp", maglio.SamplingParams(order="llama.cpp").steps),
        ("temperature", ("logit_bias", "temperature")),
        ("penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature", "llama.cpp"),
        ("Top-K; min-p;temp", ("logit_bias", "top_k", "min_p", "temperature")),
    ],
)
def test_an_order_is_spelled_as_in_llama_cpp(option, steps):
    made = params(order=option)
    assert steps in (made.order, made.steps)


def test_an_order_can_be_letters():
    assert params(sampling_seq="edskypmxt").order == "llama.cpp"
    assert params(sampling_seq="tm").steps == ("logit_bias", "temperature", "min_p")
    with pytest.raises(InvalidArgumentError, match="letter 'q'"):
        params(sampling_seq="kq")
    with pytest.raises(InvalidArgumentError, match="once"):
        params(sampling_seq="k", order="llama.cpp")


def test_a_step_that_no_one_names_is_refused_by_its_option():
    with pytest.raises(InvalidArgumentError, match=r"min_p is 0\.1.*does not name min_p"):
        params(order="top_k;temperature", min_p=0.1)


def test_breakers_are_all_tokens_with_their_text():
    assert params().dry_breakers == ()
    assert params(dry_multiplier=0.8).dry_breakers == (1, 2, 3, 4)
    assert params(dry_multiplier=0.8, dry_breakers=["none"]).dry_breakers == ()
    assert params(dry_breakers=[r"\n", "x"]).dry_breakers == (2, 5)
    with pytest.raises(InvalidArgumentError, match="'zz'"):
        params(dry_breakers=["zz"])
    # From the end of one token on.
    assert params(dry_breakers=["ax"]).dry_breakers == ((0, 5),)
    assert params(dry_breakers=["*x:"]).dry_breakers == ((4, 5, 1),)


@pytest.mark.parametrize("seed", [None, -1])
def test_a_seed_that_is_not_named_is_another_one_each_time(seed):
    seeds = {params(seed=seed).seed for _ in range(8)}
    assert len(seeds) > 1
    assert params(seed=7).seed == 7
    assert params(seed=0).seed == 0


@pytest.mark.parametrize("option", ["", "5", "+1", "x+1", "5*1", "5+", "5+hot", "99999999999+1"])
def test_a_bias_that_cannot_be_read_is_refused(option):
    with pytest.raises(InvalidArgumentError, match=r"15043\+1\.5"):
        params(logit_bias=[option])


def test_only_what_was_asked_for_replaces_saved_sampling():
    saved = maglio.SamplingParams(temperature=0.5, top_k=9, seed=4, logit_bias={1: 1.0})
    options = SamplingOptions(temperature=0.9, top_k=2, ignore_eos=True)
    mine = options.params(Tokenizer())
    assert options.over(saved, mine, {"temperature", "prompt"}) == maglio.SamplingParams(
        temperature=0.9, top_k=9, seed=4, logit_bias={1: 1.0}
    )
    assert options.over(saved, mine, {"ignore_eos"}) == dataclasses.replace(saved, ignore_eos=True)
    mine = SamplingOptions(sampling_seq="edmt", dry_multiplier=1.0).params(Tokenizer())
    saved = maglio.SamplingParams(seed=4)
    both = options.over(saved, mine, {"sampling_seq", "dry_multiplier"})
    assert (both.order, both.dry_breakers, both.seed) == (mine.order, (1, 2, 3, 4), 4)
    kept = dataclasses.replace(saved, dry_breakers=(5,))
    assert options.over(kept, mine, {"dry_multiplier"}).dry_breakers == (5,)


def test_drafting_options_become_speculation():
    options = DraftingOptions(policy="record", max_draft=5, gate=False)
    how = options.speculation(False)
    assert how == maglio.Speculation(source="record", max_draft=5, gate=False, history=False)
    assert DraftingOptions(spec=False).speculation() is False
    with pytest.raises(InvalidArgumentError, match="max_draft"):
        DraftingOptions(max_draft=0).speculation()


def test_a_history_is_either_kept_or_not_used():
    assert HistoryOptions().of(None) is True
    assert HistoryOptions(history=False).of(None) is False
    with pytest.raises(InvalidArgumentError, match="--no-history"):
        HistoryOptions(history=False, save_history=True).of(None)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"a\nb\tc\rd", "a\nb\tc\rd"),
        (r"\\n", r"\n"),
        (r"\'\"", "'\""),
        (r"\x41\x9", "A\t"),
        (r"\xe4\xb8\x96", "世"),
        (r"\q\x\z\8", r"\q\x\z\8"),
        ("\\", "\\"),
        ("Grüße 世界 \udcff", "Grüße 世界 \udcff"),
    ],
)
def test_escape_sequences_are_llama_cpps(written, read):
    assert unescape(written) == read


def test_escape_sequences_are_read_on_the_command_line_and_nowhere_else(tmp_path):
    file = tmp_path / "a"
    file.write_text(r"a\nb")
    assert TextOptions(prompt=r"a\nb", stop=[r"\n"]).first_text() == "a\nb"
    assert TextOptions(stop=[r"\n"]).stops == ("\n",)
    assert TextOptions(prompt=r"a\nb", escape=False).first_text() == r"a\nb"
    assert TextOptions(file=file).first_text() == r"a\nb"


@pytest.mark.parametrize(
    ("data", "text", "whole"),
    [
        (b"one\n", "one", "one\n"),
        (b"one\n\n", "one\n", "one\n\n"),
        (b"\xef\xbb\xbfone", "one", "\ufeffone"),
        (b"\xff", "\udcff", "\udcff"),
        (b"", "", ""),
    ],
)
def test_files_lose_one_newline_and_the_byte_order_mark(tmp_path, data, text, whole):
    file = tmp_path / "a"
    file.write_bytes(data)
    assert TextOptions(file=file).first_text() == text
    assert TextOptions(binary_file=file).first_text() == whole


def test_there_is_one_prompt(tmp_path):
    with pytest.raises(InvalidArgumentError, match="one of --prompt"):
        TextOptions(prompt="a", file=tmp_path).first_text()
    with pytest.raises(InvalidArgumentError, match=r"NUL|null"):
        TextOptions(file=tmp_path / "a\0b").first_text()
    assert TextOptions().first_text() is None
