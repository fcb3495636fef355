"""Which file a quantisation stands for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.errors import InvalidArgumentError, ModelFileError
from maglio.sources.choice import candidates, choose, named
from maglio.sources.reference import HubReference, OllamaReference, parse_reference

REPO = "owner/Model-GGUF"
SPLIT = [f"BF16/Model-BF16-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
FILES = [
    "README.md",
    "config.json",
    "mmproj-F16.gguf",
    "imatrix_unsloth.gguf",
    "Model-Q8_0.gguf",
    "Model-Q4_K_M.gguf",
    "Model-UD-Q4_K_M.gguf",
    "Model-IQ4_XS.gguf",
    *SPLIT[::-1],
]


@pytest.mark.parametrize(
    ("wanted", "file"),
    [
        (None, "Model-Q4_K_M.gguf"),
        ("Q4_K_M", "Model-Q4_K_M.gguf"),
        ("q4_k_m", "Model-Q4_K_M.gguf"),
        ("UD-Q4_K_M", "Model-UD-Q4_K_M.gguf"),
        ("iq4_xs", "Model-IQ4_XS.gguf"),
        ("Q8_0", "Model-Q8_0.gguf"),
        ("BF16", SPLIT[0]),
    ],
)
def test_a_quantisation_is_found_by_name(wanted, file):
    assert choose(FILES, wanted, REPO).files[0] == file


def test_all_parts_of_a_split_model_belong_to_it():
    assert choose(FILES, "BF16", REPO).files == tuple(SPLIT)
    assert named(FILES, SPLIT[0], REPO).files == tuple(SPLIT)


def test_a_split_model_with_a_part_missing_is_not_there():
    with pytest.raises(ModelFileError, match="has no BF16"):
        choose([name for name in FILES if name != SPLIT[1]], "BF16", REPO)


def test_without_the_usual_quantisation_the_first_file_is_taken():
    assert choose(["b-Q8_0.gguf", "a-Q5_K_S.gguf"], None, REPO).files == ("a-Q5_K_S.gguf",)
    assert choose(["just-a-name.gguf"], None, REPO).files == ("just-a-name.gguf",)


def test_what_there_is_is_said_when_a_quantisation_is_missing():
    with pytest.raises(ModelFileError) as error:
        choose(FILES, "Q2_K", REPO)
    assert str(error.value) == (
        "owner/Model-GGUF has no Q2_K; it has BF16, IQ4_XS, Q4_K_M, Q8_0, UD-Q4_K_M"
    )


@pytest.mark.parametrize("wanted", [None, "Q4_K_M"])
def test_a_quantisation_of_two_models_is_ambiguous(wanted):
    with pytest.raises(ModelFileError) as error:
        choose(["b-Q4_K_M.gguf", "a.q4_k_m.gguf"], wanted, REPO)
    assert str(error.value) == (
        "owner/Model-GGUF has more than one file of Q4_K_M: a.q4_k_m.gguf, b-Q4_K_M.gguf; "
        "name one: hf:owner/Model-GGUF/a.q4_k_m.gguf"
    )


def test_a_repository_without_models_says_so():
    with pytest.raises(ModelFileError, match="has no GGUF file of a model"):
        choose(["model.safetensors", "mmproj-F16.gguf"], None, REPO)


def test_a_word_that_is_no_quantisation_is_looked_for_as_it_is():
    assert (
        choose(["model-tiny.gguf", "model-large.gguf"], "tiny", REPO).files[0] == "model-tiny.gguf"
    )


@pytest.mark.parametrize(
    ("file", "why"), [("Model-Q2_K.gguf", "has no file"), (SPLIT[1], "first part")]
)
def test_a_file_has_to_be_there_and_the_first_part(file, why):
    with pytest.raises(ModelFileError, match=why):
        named(FILES, file, REPO)


@given(st.lists(st.text(max_size=20).map(lambda text: f"{text}.gguf"), max_size=6))
def test_no_name_breaks_the_choice_and_no_file_is_in_two_models(names):
    found = [file for model in candidates(names) for file in model.files]
    assert len(found) == len(names) or set(found) <= set(names)


def test_a_count_of_parts_in_a_name_costs_no_more_than_the_files_there_are():
    assert candidates(["m-00001-of-99999.gguf"]) == []


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("hf:a/b", HubReference("a/b")),
        ("hf:a/b:latest", HubReference("a/b")),
        ("hf:a/b.c-d:UD-Q4_K_XL", HubReference("a/b.c-d", "UD-Q4_K_XL")),
        ("hf:a/b/BF16/x y.gguf", HubReference("a/b", file="BF16/x y.gguf")),
        ("ollama:qwen3", OllamaReference(("registry.ollama.ai", "library", "qwen3", "latest"))),
        ("ollama:qwen3:4b", OllamaReference(("registry.ollama.ai", "library", "qwen3", "4b"))),
        ("ollama:me/x:1", OllamaReference(("registry.ollama.ai", "me", "x", "1"))),
        ("ollama:hf.co/a/b:Q4_0", OllamaReference(("hf.co", "a", "b", "Q4_0"))),
        ("model.gguf", None),
        ("./hf:a/b", None),
    ],
)
def test_names_are_read_and_written(text, reference):
    assert parse_reference(text) == reference
    if reference is not None:
        assert parse_reference(str(reference)) == reference


@pytest.mark.parametrize(
    "text",
    [
        "hf:", "hf:a", "hf:a/b:", "hf:a/b:Q4:K", "hf:../b", "hf:a/..", "hf:a/b/../../c.gguf",
        "hf:a/b/c.txt", "hf:a/b//c.gguf", "hf:/a/b", "hf:a/b/\0.gguf", "hf:" + "a" * 600 + "/b",
        "ollama:", "ollama:a/b/c/d", "ollama:..", "ollama:../x", "ollama:x:..", "ollama:x:a/b",
        "ollama:/etc/passwd", "ollama:x:",
    ],
)  # fmt: skip
def test_what_is_not_a_name_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="is not a model of"):
        parse_reference(text)
