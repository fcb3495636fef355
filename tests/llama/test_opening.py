"""Files as people have them: what is opened, on which engine, and what is said otherwise."""

from __future__ import annotations

import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import maglio
from maglio.cli.app import app
from maglio.economics.cost import FLAT_COST
from maglio.engine.registry import engine_names
from maglio.errors import (
    ExactnessError,
    InvalidArgumentError,
    MaglioError,
    ModelFileError,
    OutOfMemoryError,
    UnsupportedModelError,
)
from maglio.llama_cpp_tokenizer import LlamaCppTokenizer
from support.chat_model import vocabulary, write_chat_model
from support.gguf_bytes import RawGguf
from support.models import Shape, write_model

WORDS = ["<s>", *(rf"\x{byte:02x}" for byte in range(256)), "an", " ant", "ten", "the"]
RWKV = {
    "tokenizer.ggml.model": "rwkv",
    "tokenizer.ggml.tokens": WORDS,
    "tokenizer.ggml.token_type": np.array([3] + [1] * (len(WORDS) - 1), np.int32),
    "tokenizer.ggml.eos_token_id": 0,
}
"""A vocabulary that only llama.cpp knows."""


@pytest.fixture(scope="module")
def chat_path(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("chat") / "chat.gguf")


@pytest.fixture(scope="module")
def unknown_path(chat_path):
    """The same model under a name that the native engine does not know; to llama.cpp it is one."""
    raw = RawGguf.read(chat_path)
    raw.set("general.architecture", "internlm2")
    for key, kind, payload in list(raw.values):
        if key.startswith(b"llama."):
            raw.drop(key.decode())
            raw.values.append((key.replace(b"llama.", b"internlm2."), kind, payload))
    path = chat_path.parent / "unknown.gguf"
    path.write_bytes(raw.to_bytes())
    return path


@pytest.fixture(scope="module")
def rwkv_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("rwkv") / "rwkv.gguf"
    write_model(path, "llama", Shape(1, 32, 2, 1, 16, 32, len(WORDS), 64, 0, True), "F16", 1)
    raw = RawGguf.read(path)
    for key, value in RWKV.items():
        raw.set(key, value)
    path.write_bytes(raw.to_bytes())
    return path


def load(path, **options):
    return maglio.load(path, engine="llama.cpp", **{"n_ctx": 256, "threads": 1, **options})


def test_it_is_one_of_the_engines(chat_path):
    assert "llama.cpp" in engine_names()
    model = load(chat_path)
    assert model.engine.name == "llama.cpp"
    assert model.engine.threads == 1
    assert model.engine.n_ctx == 256
    assert model.engine.version.startswith("llama-cpp-python ")
    assert "f16 cache" in model.engine.isa


def test_its_texts_are_those_of_the_native_engine(chat_path):
    """Greedily a random model goes the same way, for a while at least."""
    native = maglio.load(chat_path, n_ctx=256, threads=1)
    model = load(chat_path)
    assert type(model.tokenizer) is type(native.tokenizer)
    assert model.chat_template.render([{"role": "user", "content": "an ant"}]).text
    prompt = "the ant eats"
    assert model.generate(prompt, max_tokens=8).text == native.generate(prompt, max_tokens=8).text


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_drafting_changes_no_token_where_settings_are_exact(chat_path, temperature):
    model = load(chat_path, exact="require")
    assert model.engine.exactness == "bitwise"
    sampling = maglio.SamplingParams(temperature=temperature, seed=5)
    prompt = "an ant and ten ants, an ant and ten"
    plain = model.generate(prompt, max_tokens=60, sampling=sampling, speculation=False)
    how = maglio.Speculation(gate=False, history=False, cost=FLAT_COST)
    reference = [*model.tokenizer.encode(prompt), *plain.tokens]
    drafted = model.generate(
        prompt, max_tokens=60, sampling=sampling, speculation=how, references=[reference]
    )
    assert drafted.tokens == plain.tokens
    assert drafted.stats.steps < plain.stats.steps / 2


def test_many_prompts_get_what_each_gets_alone_where_settings_are_exact(chat_path):
    """More of them than there are sequences."""
    model = load(chat_path, exact="require", cache_tokens=1024)
    prompts = [f"an ant number {n} and ten" for n in range(7)]
    alone = [model.generate(prompt, max_tokens=20, speculation=False).text for prompt in prompts]
    together = model.generate_many(prompts, max_tokens=20)
    assert [one.text for one in together] == alone


def test_chats_go_on_and_grammars_hold(chat_path):
    model = load(chat_path)
    chat = model.chat(max_tokens=5)
    for text in ("an ant", "ten"):
        assert 1 <= len(list(chat.send(text))) <= 5
    answer = model.generate("a", grammar=maglio.Grammar.choice(["ten"]), max_tokens=9)
    assert answer.text == "ten"


def test_what_the_native_engine_does_not_run_is_run_on_llama_cpp_and_said_once(
    chat_path, unknown_path
):
    with pytest.raises(UnsupportedModelError, match="'internlm2' is not supported"):
        maglio.load(unknown_path, engine="native")
    with pytest.warns(RuntimeWarning, match="runs on llama.cpp instead") as said:
        model = maglio.load(unknown_path, n_ctx=256, threads=1)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert model.engine.name == "llama.cpp"
    expected = maglio.load(chat_path, n_ctx=256, threads=1).generate("an ant", max_tokens=8)
    assert model.generate("an ant", max_tokens=8).text == expected.text


def test_an_option_of_the_native_engine_alone_does_not_stop_the_other(unknown_path):
    with pytest.warns(RuntimeWarning, match="runs on llama.cpp instead"):
        model = maglio.load(unknown_path, n_ctx=256, threads=1, cache=True)
    assert model.engine.name == "llama.cpp"


@pytest.mark.parametrize("n_ctx", [4, 32, 40])
def test_exact_settings_are_found_for_a_short_context_too(chat_path, n_ctx):
    if n_ctx < 32:
        with pytest.raises(ExactnessError, match="too short to try anything"):
            load(chat_path, n_ctx=n_ctx, exact="require")
        return
    model = load(chat_path, n_ctx=n_ctx, exact="require")
    assert model.engine.n_ctx == n_ctx
    assert model.engine.exactness == "bitwise"


def test_a_paused_stream_does_not_hold_up_other_threads(chat_path):
    model = load(chat_path)
    stream = model.stream("an ant", max_tokens=8)
    next(stream)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(model.generate, "an ant", max_tokens=8).result()
    assert other.text == model.generate("an ant", max_tokens=8).text


@pytest.mark.parametrize("twins", [("same", "same\0other"), ("", "[EMPTY_{}]")])
def test_tokens_that_llama_cpp_reads_as_the_same_are_refused(chat_path, tmp_path, twins):
    raw = RawGguf.read(chat_path)
    tokens = list(vocabulary()["tokenizer.ggml.tokens"])
    tokens[-2], tokens[-1] = twins[0], twins[1].format(len(tokens) - 2)
    raw.set("tokenizer.ggml.tokens", tokens)
    path = tmp_path / "twins.gguf"
    path.write_bytes(raw.to_bytes())
    with pytest.raises(ModelFileError, match="twice"):
        load(path)


def test_what_neither_runs_is_refused_by_both(unknown_path, tmp_path):
    raw = RawGguf.read(unknown_path)
    raw.set("general.architecture", "abacus")
    path = tmp_path / "abacus.gguf"
    path.write_bytes(raw.to_bytes())
    with pytest.raises(UnsupportedModelError, match=r"Nor does llama\.cpp run it.*abacus"):
        maglio.load(path)
    with pytest.raises(ModelFileError, match="unknown model architecture"):
        load(path)


def test_damaged_files_never_reach_llama_cpp(chat_path, tmp_path):
    """It would end the process for some of them."""
    path = tmp_path / "damaged.gguf"
    path.write_bytes(chat_path.read_bytes()[:-5000])
    for engine in ("auto", "llama.cpp"):
        with pytest.raises(ModelFileError, match=r"damaged\.gguf"):
            maglio.load(path, engine=engine)
    with pytest.raises(ModelFileError, match=r"none\.gguf"):
        load(tmp_path / "none.gguf")


def test_a_vocabulary_with_a_token_twice_is_refused(chat_path, rwkv_path, tmp_path):
    for sound, tokens in ((rwkv_path, WORDS[:-1]), (chat_path, None)):
        raw = RawGguf.read(sound)
        if tokens is None:
            tokens = ["a"] * 300
        raw.set("tokenizer.ggml.tokens", [*tokens, tokens[-1]][: len(tokens) + 1])
        path = tmp_path / "twice.gguf"
        path.write_bytes(raw.to_bytes())
        with pytest.raises(ModelFileError, match="twice"):
            load(path)


def test_a_tensor_that_is_missing_is_an_error_with_the_library_s_words(chat_path, tmp_path):
    raw = RawGguf.read(chat_path)
    del raw.tensors[b"blk.1.attn_q.weight"]
    path = tmp_path / "missing.gguf"
    path.write_bytes(raw.to_bytes())
    with pytest.raises(ModelFileError, match=r"tensor 'blk\.1\.attn_q\.weight' not found"):
        load(path)


def test_a_model_whose_tokens_see_later_ones_is_refused(chat_path, tmp_path):
    raw = RawGguf.read(chat_path)
    raw.set("llama.attention.causal", False)
    path = tmp_path / "later.gguf"
    path.write_bytes(raw.to_bytes())
    with pytest.raises(ModelFileError, match="see later ones"):
        load(path)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"n_ctx": 0}, "n_ctx is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"kv_cache": "q2_k"}, "kv_cache is 'q2_k'"),
        ({"cache_tokens": 0}, "cache_tokens is 0"),
        ({"n_gpu_layers": -2}, "n_gpu_layers is -2"),
        ({"main_gpu": -1}, "main_gpu is -1"),
        ({"split_mode": "half"}, "split_mode is 'half'"),
        ({"tensor_split": "a,b"}, "tensor_split is 'a,b'"),
        ({"tensor_split": [0.0]}, "not all of them 0"),
        ({"tensor_split": [1.0] * 99}, "tensor_split is"),
        ({"offload_kqv": "no"}, "offload_kqv is 'no'"),
        ({"flavour": 1}, "no option 'flavour'"),
    ],
)
def test_options_that_cannot_work_are_refused(chat_path, option, message):
    with pytest.raises(InvalidArgumentError, match=message):
        load(chat_path, **option)


def test_options_of_gpus_are_passed_on(chat_path, monkeypatch):
    from maglio.engine.llama_cpp import model as models

    library = models.llama_cpp
    given = []

    def refuse(_path, params):
        given.append(params)
        shares = [params.tensor_split[i] for i in range(2)] if params.tensor_split else []
        given.append((params.n_gpu_layers, params.main_gpu, params.split_mode, shares))

    monkeypatch.setattr(library, "llama_supports_gpu_offload", lambda: True)
    monkeypatch.setattr(library, "llama_model_load_from_file", refuse)
    options = {"n_gpu_layers": 7, "main_gpu": 1, "split_mode": "row", "tensor_split": "3,1"}
    with pytest.raises(ModelFileError, match="does not say why"):
        load(chat_path, **options)
    assert given[1] == (7, 1, library.LLAMA_SPLIT_MODE_ROW, [3.0, 1.0])


def test_layers_for_a_gpu_that_the_library_does_not_use_are_refused(chat_path, monkeypatch):
    from maglio.engine.llama_cpp import model as models

    monkeypatch.setattr(models.llama_cpp, "llama_supports_gpu_offload", lambda: False)
    with pytest.raises(InvalidArgumentError, match="uses no GPU"):
        load(chat_path, n_gpu_layers=10)
    assert load(chat_path, n_gpu_layers=0).engine.name == "llama.cpp"


def test_too_little_memory_is_said_before_it_is_taken(chat_path, monkeypatch):
    monkeypatch.setattr("maglio.machine.available_memory", lambda: 10_000_000)
    with pytest.raises(OutOfMemoryError, match="fewer cache_tokens"):
        load(chat_path, cache_tokens=10_000_000)
    monkeypatch.setattr("maglio.machine.available_memory", lambda: 1000)
    with pytest.raises(OutOfMemoryError, match="are available"):
        load(chat_path)


def test_loading_tells_how_far_it_is_and_an_exception_ends_it(chat_path):
    told = []
    load(chat_path, on_load=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0

    def stop(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(chat_path, on_load=stop)


def test_the_library_writes_nothing_to_the_terminal(chat_path, capfd):
    load(chat_path).generate("an ant", max_tokens=3)
    assert capfd.readouterr() == ("", "")


def test_a_command_runs_a_model_that_only_llama_cpp_knows(unknown_path):
    arguments = ["generate", "-m", str(unknown_path), "-p", "an ant", "-n", "4", "--threads", "1"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, [*arguments, "-c", "128"])
    assert done.exit_code == 0, done.output


def test_what_the_page_shows_runs(chat_path, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if '"llama.cpp"' in block]
    (tmp_path / "model.gguf").symlink_to(chat_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("maglio.machine.physical_cores", lambda: 1)
    exec(compile(block, "docs/engines.md", "exec"), {})


def test_a_missing_package_is_one_clear_error(chat_path, unknown_path, monkeypatch):
    names = [n for n in sys.modules if n.startswith(("maglio.engine.llama_cpp", "llama_cpp"))]
    for name in [*names, "maglio.llama_cpp_tokenizer"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MaglioError, match=r'pip install "maglio\[llama\]"'):
        load(chat_path)
    monkeypatch.setattr("maglio.engine.registry.find_spec", lambda _: None)
    with pytest.raises(UnsupportedModelError, match=r'internlm2.*pip install "maglio\[llama\]"'):
        maglio.load(unknown_path)


def test_a_vocabulary_that_maglio_does_not_know_is_llama_cpp_s(rwkv_path):
    with pytest.warns(RuntimeWarning, match="tokenizer model 'rwkv'.*llama.cpp"):
        model = maglio.load(rwkv_path, threads=1)
    tokenizer = model.tokenizer
    assert isinstance(tokenizer, LlamaCppTokenizer)
    assert tokenizer.n_vocab == model.engine.n_vocab == len(WORDS)
    for text in ("an ant the ten\n", "é \x00 ☃", "", b"\xff"):
        ids = tokenizer.encode(text)
        assert tokenizer.fewest_tokens(text if isinstance(text, str) else "") <= len(ids)
        expected = text if isinstance(text, str) else "\ufffd"
        assert tokenizer.decode(ids) == expected
    assert tokenizer.encode("an ant") == [WORDS.index("an"), WORDS.index(" ant")]
    assert tokenizer.token_bytes(0) == b"<s>"
    assert tokenizer.control_tokens == {"<s>": 0}
    assert tokenizer.is_control(0)
    assert tokenizer.eog_ids == frozenset({0})
    assert tokenizer.bos_id is None
    assert not tokenizer.adds_space_prefix
    for token in (-1, len(WORDS)):
        with pytest.raises(InvalidArgumentError, match="outside the vocabulary"):
            tokenizer.token_bytes(token)
    assert 0 not in tokenizer.encode("<s>")
    assert tokenizer.decode(tokenizer.encode("a<s>b")) == "a<s>b"
    assert tokenizer.encode("<s>", parse_special=True) == [0]
    assert len(model.generate("an ant", max_tokens=5).tokens) >= 1
    assert tokenizer.fingerprint == load(rwkv_path).tokenizer.fingerprint


def test_a_bos_token_that_is_not_there_is_not_put_on(rwkv_path, tmp_path):
    """Asked to, the library would end the process."""
    raw = RawGguf.read(rwkv_path)
    raw.set("tokenizer.ggml.add_bos_token", True)
    path = tmp_path / "bos.gguf"
    path.write_bytes(raw.to_bytes())
    tokenizer = load(path).tokenizer
    assert tokenizer.encode("ten") == [WORDS.index("ten")]
