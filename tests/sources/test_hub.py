"""Models of the hub, against a stand-in of its HTTP API: whole programs with its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.chat_model import write_chat_model
from support.hub_server import COMMIT, Repo, running_hub

pytest.importorskip("huggingface_hub", reason="the extra [hub] is not installed")

BIG = bytes(range(256)) * 12_000  # 3 MB
PIECE = 10 << 20  # huggingface_hub writes so much at a time
FIND = """
import json, sys, warnings
from maglio.sources.find import find_model
from maglio.errors import MaglioError
for name in sys.argv[1:]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            path = find_model(name)
            found = {"path": str(path), "data": path.read_bytes()[:64].hex()}
        except MaglioError as error:
            found = {"error": str(error)}
    print(json.dumps({**found, "said": [str(w.message) for w in said]}))
"""


@pytest.fixture
def environment(tmp_path, monkeypatch):
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return monkeypatch


def find(hub, *names):
    """Look for models in a process of its own, which reads the environment anew."""
    done = run(hub, "-c", FIND, *names)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return found[0] if len(names) == 1 else found


def run(hub, *words):
    url = hub if isinstance(hub, str) else hub.url
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "HF_ENDPOINT": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_model_is_downloaded_once_and_found_again(environment, tmp_path):
    repo = Repo({"m-Q4_K_M.gguf": BIG, "m-Q8_0.gguf": b"other", "README.md": b"text"})
    with running_hub(me__tiny=repo) as hub:
        first, second = find(hub, "hf:me/tiny", "hf:me/tiny:q4_k_m")
        assert first == second
        assert bytes.fromhex(first["data"]) == BIG[:64]
        assert first["path"].endswith(f"/{COMMIT}/m-Q4_K_M.gguf")
        assert first["path"].startswith(str(tmp_path / "home" / "hub" / "models--me--tiny"))
        assert first["said"] == []
        assert hub.ranges == [""]


def test_a_download_that_is_cut_off_goes_on_where_it_was(environment):
    data = BIG * 8
    repo = Repo({"m-Q4_K_M.gguf": data}, cuts=[PIECE + 7, PIECE + 7])
    with running_hub(me__tiny=repo) as hub:
        found = find(hub, "hf:me/tiny")
        assert hub.ranges == ["", f"bytes={PIECE}-", f"bytes={2 * PIECE}-"]
        with open(found["path"], "rb") as file:
            assert file.read() == data


def test_what_is_not_what_the_hub_announced_is_removed_and_said(environment, tmp_path):
    damaged = BIG[:-1] + b"?"
    repo = Repo({"m-Q4_K_M.gguf": BIG}, corrupt={"m-Q4_K_M.gguf": damaged})
    with running_hub(me__tiny=repo) as hub:
        assert "the hub announced" in find(hub, "hf:me/tiny")["error"]
        left = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
        assert not [path for path in left if path.stat().st_size == len(BIG)]
        repo.corrupt.clear()
        assert bytes.fromhex(find(hub, "hf:me/tiny")["data"]) == BIG[:64]


def test_all_parts_of_a_split_model_are_downloaded_into_one_folder(environment):
    parts = {f"F16/m-F16-0000{n}-of-00003.gguf": bytes([n]) * 1000 for n in (1, 2, 3)}
    with running_hub(me__tiny=Repo({"mmproj-F16.gguf": b"no", **parts})) as hub:
        found = find(hub, "hf:me/tiny:F16")
        for name, data in parts.items():
            with open(found["path"].replace("F16/m-F16-00001-of-00003.gguf", name), "rb") as file:
                assert file.read() == data


def test_without_a_network_what_is_there_is_used_and_said(environment):
    with running_hub(me__tiny=Repo({"m-Q4_K_M.gguf": b"model"})) as hub:
        online = find(hub, "hf:me/tiny")
    known, other, unknown = find(hub.url, "hf:me/tiny", "hf:me/tiny:Q8_0", "hf:me/other")
    assert known["path"] == online["path"]
    [said] = known["said"]
    assert "the hub cannot be reached" in said
    assert said.endswith("m-Q4_K_M.gguf of the cache folder is used")
    assert "me/tiny has no Q8_0; it has Q4_K_M; and the hub cannot be reached" in other["error"]
    assert "hf:me/other is not in the cache folder" in unknown["error"]


def test_a_hub_that_is_out_of_order_is_as_if_it_were_away(environment):
    repo = Repo({"m-Q4_K_M.gguf": b"model"})
    with running_hub(me__tiny=repo) as hub:
        online = find(hub, "hf:me/tiny")
        repo.status = 500
        found = find(hub, "hf:me/tiny")
    assert found["path"] == online["path"]
    assert "no answer now (status 500)" in found["said"][0]


def test_offline_nothing_is_asked(environment):
    with running_hub(me__tiny=Repo({"m-Q4_K_M.gguf": b"model"})) as hub:
        online = find(hub, "hf:me/tiny")
        hub.asked.clear()
        environment.setenv("HF_HUB_OFFLINE", "1")
        known, unknown = find(hub, "hf:me/tiny", "hf:me/other")
        assert known == online
        assert "HF_HUB_OFFLINE" in unknown["error"]
        assert hub.asked == []


def test_a_token_opens_what_is_private_or_gated_and_its_lack_is_said(environment):
    files = {"m-Q4_K_M.gguf": b"model"}
    repos = {"me__gated": Repo(files, "hf_t", gated=True), "me__private": Repo(files, "hf_t")}
    names = ["hf:me/gated", "hf:me/private", "hf:me/nothing"]
    with running_hub(**repos) as hub:
        gated, private, nothing = find(hub, *names)
        assert "it is gated; agree to its terms on its page, and set HF_TOKEN" in gated["error"]
        for found in (private, nothing):
            assert "has no such repository, or it is private" in found["error"]
        environment.setenv("HF_TOKEN", "hf_t")
        gated, private, nothing = find(hub, *names)
        assert "path" in gated
        assert "path" in private
        assert "no such repository" in nothing["error"]


def test_names_that_lead_out_of_the_folder_are_not_files(environment, tmp_path):
    names = ["../../../x-Q4_K_M.gguf", "/tmp/x-Q4_K_M.gguf", "a\\..\\x-Q4_K_M.gguf"]
    with running_hub(me__evil=Repo(dict.fromkeys(names, b"evil"))) as hub:
        assert "has no GGUF file of a model" in find(hub, "hf:me/evil")["error"]
        assert hub.ranges == []


def test_a_hub_that_does_not_speak_json_is_an_error(environment):
    repo = Repo({"m-Q4_K_M.gguf": b"model"}, status=204)
    with running_hub(me__tiny=repo) as hub:
        assert find(hub, "hf:me/tiny")["error"].startswith("cannot download me/tiny: ")


def test_the_first_file_in_place_of_the_usual_one_is_said(environment):
    with running_hub(me__tiny=Repo({"m-Q5_0.gguf": b"model"})) as hub:
        assert find(hub, "hf:me/tiny")["said"] == ["me/tiny has no Q4_K_M; m-Q5_0.gguf is used"]


@pytest.mark.parametrize(
    "words",
    [
        ("generate", "-p", "hello", "-n", "4", "-c", "0", "-hf", "me/tiny:Q4_K_M"),
        ("inspect", "hf:me/tiny"),
        ("tokenize", "-", "-hf", "me/tiny", "-hff", "m-Q4_K_M.gguf"),
        ("probe", "-hf", "me/tiny", "--show", "-c", "8"),
    ],
)
def test_commands_take_models_of_the_hub(environment, tmp_path, words):
    data = write_chat_model(tmp_path / "m.gguf").read_bytes()
    environment.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with running_hub(me__tiny=Repo({"m-Q4_K_M.gguf": data})) as hub:
        done = run(hub, "-m", "maglio", *words)
        assert len(hub.ranges) == 1
        if words[0] == "probe":  # it has no profile, and says so once the model is loaded
            assert "there is no profile of this model yet" in done.stderr
            return
        assert done.returncode == 0, done.stderr
        if words[0] == "inspect":
            hub.asked.clear()
            again = run(hub, "-m", "maglio", *words, "--offline")
            told, told_again = (text.partition("memory")[0] for text in (done.stdout, again.stdout))
            assert (again.returncode, told_again) == (0, told)
            assert hub.asked == []


def test_without_the_extra_one_error_says_how_to_install_it():
    program = (
        "import sys\n"
        "sys.modules['huggingface_hub'] = None\n"
        "import maglio\n"
        "try:\n    maglio.load('hf:me/tiny')\n"
        "except maglio.MaglioError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == (
        "hf:me/tiny needs the package huggingface_hub, which is not installed: "
        'pip install "maglio[hub]"\n'
    )


def test_a_file_is_loaded_without_the_package(tmp_path):
    write_chat_model(tmp_path / "m.gguf")
    program = (
        "import sys, maglio\n"
        f"maglio.load({str(tmp_path / 'm.gguf')!r}, n_ctx=32)\n"
        "print('huggingface_hub' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"
