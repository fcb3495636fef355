"""Damaged, hostile and unsupported files: one typed error that names the file and says why."""

from __future__ import annotations

import os
import resource
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import maglio
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import ModelFileError, OutOfMemoryError
from maglio.gguf import ModelFile
from support.gguf_bytes import FLOAT64, STRING, UINT32, UINT64, RawGguf
from support.models import FAMILIES, Shape, write_model
from support.spm_vocabulary import SPM
from support.vocabulary_model import write_vocabulary_model

UINT16 = 2
SMALL = Shape(1, 32, 2, 1, 16, 32, 20, 64, 0, False)
SMALL_GEMMA = Shape(1, 32, 2, 1, 16, 32, 20, 64, 8, True)
IQ4_XS = 23


class Files(dict[str, bytes]):
    """Contents by name, with a short repr for failing examples."""

    def __repr__(self) -> str:
        return "files"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def sound(folder: Path) -> Files:
    """Small files that load, one per family, and one with a vocabulary."""
    files = Files()
    for family in FAMILIES:
        shape = SMALL_GEMMA if family == "gemma3" else SMALL
        write_model(folder / "sound.gguf", family, shape, "Q4_0", 1)
        files[family] = (folder / "sound.gguf").read_bytes()
    write_vocabulary_model(folder / "sound.gguf", SPM)
    files["with a vocabulary"] = (folder / "sound.gguf").read_bytes()
    return files


@pytest.fixture
def raw(sound: Files, folder: Path) -> RawGguf:
    """The llama file, taken apart."""
    return take_apart(sound, folder, "llama")


def take_apart(sound: Files, folder: Path, name: str) -> RawGguf:
    path = folder / "apart.gguf"
    path.write_bytes(sound[name])
    return RawGguf.read(path)


@contextmanager
def little_memory() -> Iterator[None]:
    """Let nothing large be allocated: beyond 256 MB there is a MemoryError."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (256 << 20), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def load(data: bytes, folder: Path) -> NativeEngine:
    path = folder / "model.gguf"
    path.write_bytes(data)
    with little_memory():
        return NativeEngine(ModelFile(path), threads=1)


def complaint(data: bytes, folder: Path) -> str:
    """Return the message of the error, which must name the file."""
    with pytest.raises(ModelFileError) as caught:
        load(data, folder)
    assert "model.gguf" in str(caught.value)
    return str(caught.value)


def survives(data: bytes, folder: Path) -> None:
    """Loading either works, and then so does a forward, or raises the typed error."""
    try:
        engine = load(data, folder)
    except ModelFileError:
        return
    with little_memory():
        Session(engine).forward([1])


def test_what_was_put_together_again_is_the_same_file(sound: Files, folder: Path) -> None:
    for name, data in sound.items():
        assert take_apart(sound, folder, name).to_bytes() == data
        load(data, folder)


# --- the header -----------------------------------------------------------------------------------


def test_other_files_are_refused(raw: RawGguf, folder: Path) -> None:
    raw.magic = b"GGML"
    assert "not a GGUF file" in complaint(raw.to_bytes(), folder)
    assert "not a GGUF file" in complaint(b"", folder)
    assert "not a GGUF file" in complaint(b"GGU", folder)


@pytest.mark.parametrize("version", [0, 1, 4, 2**31, 3 << 24])
def test_other_versions_are_refused(raw: RawGguf, folder: Path, version: int) -> None:
    raw.version = version
    assert "versions 2 and 3" in complaint(raw.to_bytes(), folder)


def test_version_2_loads(raw: RawGguf, folder: Path) -> None:
    raw.version = 2
    load(raw.to_bytes(), folder)


@pytest.mark.parametrize("field", ["n_values", "n_tensors"])
@pytest.mark.parametrize("count", [10**5, 2**32, 2**62, 2**64 - 1])
def test_counts_that_cannot_be_are_refused(
    raw: RawGguf, folder: Path, field: str, count: int
) -> None:
    setattr(raw, field, count)
    assert "damaged" in complaint(raw.to_bytes(), folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_cut_anywhere_in_its_header_is_refused(
    sound: Files, folder: Path, family: str
) -> None:
    header = len(take_apart(sound, folder, family).header())
    for size in range(header):
        complaint(sound[family][:size], folder)


def test_a_file_cut_in_its_data_is_refused(sound: Files, folder: Path) -> None:
    assert "past the end" in complaint(sound["llama"][:-32], folder)


def string(length: int, text: bytes = b"") -> bytes:
    return struct.pack("<Q", length) + text


@pytest.mark.parametrize(
    "entry",
    [
        (b"k", STRING, string(2**63)),
        (b"k", STRING, string(2**64 - 1)),
        (b"k", 9, struct.pack("<IQ", 6, 2**62)),
        (b"k", 9, struct.pack("<IQ", STRING, 2**61)),
        (b"k", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 6, 0)),
        (b"k", 13, b"1234"),
        (b"k", 9, struct.pack("<IQ", 99, 1)),
        (b"", UINT32, b"1234"),
        (b"k" * 70000, UINT32, b"1234"),
        (b"general.architecture", STRING, string(5, b"llama")),
    ],
    ids=[
        "absurd string", "string length wraps", "absurd array", "absurd array of strings",
        "nested array", "unknown type", "unknown element type", "empty key", "absurd key",
        "duplicate key",
    ],
)  # fmt: skip
def test_metadata_that_cannot_be_is_refused(
    raw: RawGguf, folder: Path, entry: tuple[bytes, int, bytes]
) -> None:
    raw.values.append(entry)
    complaint(raw.to_bytes(), folder)


def test_text_that_is_not_utf_8_is_only_text(raw: RawGguf, folder: Path) -> None:
    raw.values.append((b"\xff\xfe", STRING, string(3, b"\x80\xc3\x28")))
    load(raw.to_bytes(), folder)
    raw.set("general.architecture", "llama")
    raw.values[0] = (b"general.architecture", STRING, string(2, b"\xff\xfe"))
    assert "architecture" in complaint(raw.to_bytes(), folder)


@pytest.mark.parametrize("alignment", [0, 3, 48, 2**31])
def test_an_alignment_that_cannot_be_is_refused(raw: RawGguf, folder: Path, alignment: int) -> None:
    raw.set("general.alignment", alignment)
    assert "alignment" in complaint(raw.to_bytes(), folder)


# --- the tensor directory -------------------------------------------------------------------------

QUERY = b"blk.0.attn_q.weight"


def _set(name: str, value: object) -> Callable[[RawGguf], None]:
    return lambda raw: setattr(raw.tensors[QUERY], name, value)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_set("offset", 2**40), "past the end"),
        (_set("offset", 2**64 - 32), "past the end"),
        (_set("offset", 0), "overlap"),
        (_set("offset", 33), "aligned"),
        (_set("dims", [32, 0]), "dimension of zero"),
        (_set("dims", []), "0 dimensions"),
        (_set("dims", [32, 1, 1, 1, 1]), "5 dimensions"),
        (_set("dims", [2**63, 2]), "attn_q.weight"),
        (_set("dims", [32, 2**60]), "attn_q.weight"),
        (_set("dims", [31, 32]), "32-value blocks"),
        (_set("dims", [32, 31]), "31 x 32, expected 32 x 32"),
        (_set("dims", [64, 16]), "16 x 64, expected 32 x 32"),
        (_set("dims", [1024]), "1 x 1024, expected 32 x 32"),
        (_set("dims", [32, 16, 2]), "shape of a matrix"),
        (_set("kind", IQ4_XS), "IQ4_XS; supported are F32"),
        (_set("kind", 4), "Q4_2; supported are F32"),
        (_set("kind", 2**31), "unknown; supported are F32"),
        (lambda raw: raw.tensors.pop(QUERY), "'blk.0.attn_q.weight' is missing"),
        (lambda raw: raw.tensors.pop(b"token_embd.weight"), "'token_embd.weight' is missing"),
        (
            lambda raw: raw.tensors.update({b"blk.0.gate_inp": raw.tensors[QUERY]}),
            "'blk.0.gate_inp' is not part of the llama models",
        ),
        (
            lambda raw: raw.tensors.update({b"n" * 2000: raw.tensors[QUERY]}),
            "tensor name of 2000 bytes",
        ),
    ],
)
def test_tensors_that_cannot_be_used_are_refused(
    raw: RawGguf, folder: Path, damage: Callable[[RawGguf], object], says: str
) -> None:
    damage(raw)
    assert says in complaint(raw.to_bytes(), folder)


def test_a_tensor_named_twice_is_refused(raw: RawGguf, folder: Path) -> None:
    data = raw.to_bytes().replace(b"blk.0.attn_q.weight", b"blk.0.attn_k.weight", 1)
    assert "'blk.0.attn_k.weight' appears twice" in complaint(data, folder)


def test_vectors_of_a_wrong_kind_are_refused(raw: RawGguf, folder: Path) -> None:
    raw.tensors[b"output_norm.weight"].dims = [16]
    assert "tensor 'output_norm.weight' has 16 values, expected 32" in complaint(
        raw.to_bytes(), folder
    )
    raw.tensors[b"output_norm.weight"] = raw.tensors[QUERY]
    assert "'output_norm.weight' must be a vector" in complaint(raw.to_bytes(), folder)


# --- metadata of the model ------------------------------------------------------------------------


def test_another_architecture_is_refused_by_name(raw: RawGguf, folder: Path) -> None:
    raw.set("general.architecture", "mamba")
    message = complaint(raw.to_bytes(), folder)
    assert "'mamba'" in message
    assert "gemma3, llama, qwen2, qwen3" in message


def test_an_absurd_architecture_makes_no_absurd_message(raw: RawGguf, folder: Path) -> None:
    raw.set("general.architecture", "x" * 10**6)
    assert len(complaint(raw.to_bytes(), folder)) < 1000


NUMBERS = [
    "block_count", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length",
    "attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.dimension_count", "context_length",
]  # fmt: skip
STRANGE = [
    "text", True, 0, 2**32 - 1, 3, 1, 17, 4096, 2**20, -1.0, 1e-40, 1e38, float("nan"),
    float("inf"), np.zeros(3, np.int32), np.zeros(0, np.int32), ["a", "b"],
]  # fmt: skip


@pytest.mark.parametrize("key", NUMBERS)
def test_numbers_of_a_wrong_type_or_size_are_refused(raw: RawGguf, folder: Path, key: str) -> None:
    entries = list(raw.values)
    refused = 0
    for value in STRANGE:
        raw.values = list(entries)
        raw.set(f"llama.{key}", value)
        try:
            Session(load(raw.to_bytes(), folder)).forward([1])
        except ModelFileError:
            refused += 1
    assert refused >= 8


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("llama.rope.freq_base", 5e-324, FLOAT64),
        ("llama.rope.freq_base", 1e308, FLOAT64),
        ("llama.block_count", 2**63, UINT64),
        ("llama.expert_count", np.ones(2, np.int32), None),
        ("llama.expert_count", 8, None),
        ("llama.rope.scaling.type", np.ones(2, np.int32), None),
        ("llama.rope.scaling.type", "yarn", None),
        ("llama.rope.scaling.type", "linear", None),  # without a factor
        ("llama.rope.dimension_count", 8, None),
        ("llama.attention.value_length", 32, None),
    ],
)
def test_metadata_the_engine_cannot_honour_is_refused(
    raw: RawGguf, folder: Path, key: str, value: object, kind: int | None
) -> None:
    raw.set(key, value, kind)
    complaint(raw.to_bytes(), folder)


def test_a_dense_model_may_say_that_it_has_no_experts(raw: RawGguf, folder: Path) -> None:
    raw.set("llama.expert_count", 0)
    load(raw.to_bytes(), folder)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.gguf", tmp_path, "nul\0byte.gguf"):
        with pytest.raises(ModelFileError, match="cannot read"):
            ModelFile(path)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def overwritten(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(b"\xff" * size)
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize("change", [cut_short, overwritten])
def test_a_small_file_is_what_it_was_when_it_was_opened(
    sound: Files, folder: Path, change: Callable[[Path], None]
) -> None:
    path = folder / "changing.gguf"
    path.write_bytes(sound["llama"])
    expected = Session(NativeEngine(ModelFile(path), threads=1)).forward([1])
    file = ModelFile(path)
    change(path)
    assert np.array_equal(Session(NativeEngine(file, threads=1)).forward([1]), expected)
    with pytest.raises(ModelFileError, match=r"changing\.gguf: it was written to while"):
        file.check_unchanged()


def test_a_file_that_is_written_to_while_it_loads_is_refused(
    sound: Files, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "changing.gguf"
    path.write_bytes(sound["with a vocabulary"])

    def changing(file: ModelFile, **options: int) -> NativeEngine:
        engine = NativeEngine(file, threads=1)
        overwritten(path)
        return engine

    monkeypatch.setattr("maglio.native_model.NativeEngine", changing)
    with pytest.raises(ModelFileError, match="wait until it is complete"):
        maglio.load(path)


def test_a_file_that_was_deleted_or_replaced_is_still_what_it_was(
    sound: Files, folder: Path
) -> None:
    path = folder / "leaving.gguf"
    path.write_bytes(sound["llama"])
    file = ModelFile(path)
    path.unlink()
    file.check_unchanged()
    path.write_bytes(b"another")
    (folder / "new").write_bytes(b"another")
    os.replace(folder / "new", path)
    file.check_unchanged()


def test_a_model_without_its_file_still_has_a_history_on_disk(sound: Files, folder: Path) -> None:
    path = folder / "leaving.gguf"
    path.write_bytes(sound["with a vocabulary"])
    model = maglio.load(path)
    before = model.history_file.path
    path.unlink()
    assert model.history_file.path == before


def test_a_part_of_a_split_model_says_which_it_is(raw: RawGguf, folder: Path) -> None:
    raw.set("split.no", 1, UINT16)
    raw.set("split.count", 3, UINT16)
    message = complaint(raw.to_bytes(), folder)
    assert "part 2 of 3 of a split model" in message
    assert "llama-gguf-split --merge" in message


def test_a_split_model_of_one_part_is_a_model(raw: RawGguf, folder: Path) -> None:
    raw.set("split.no", 0, UINT16)
    raw.set("split.count", 1, UINT16)
    load(raw.to_bytes(), folder)


def test_a_model_beyond_the_memory_is_refused_before_it_is_read(
    sound: Files, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maglio.machine.available_memory", lambda: 1000)
    with pytest.raises(OutOfMemoryError, match="smaller or more strongly quantized"):
        load(sound["llama"], folder)


@pytest.mark.parametrize("change", [-1, 5])
def test_a_vocabulary_of_another_size_than_the_embedding_is_refused(
    sound: Files, folder: Path, change: int
) -> None:
    raw = take_apart(sound, folder, "with a vocabulary")
    tokens = [*SPM["tokenizer.ggml.tokens"], *"vwxyz"][: len(SPM["tokenizer.ggml.tokens"]) + change]
    raw.set("tokenizer.ggml.tokens", tokens)
    raw.set("tokenizer.ggml.scores", np.zeros(len(tokens), np.float32))
    kinds = np.ones(len(tokens), np.int32)
    kinds[4:260] = 6
    raw.set("tokenizer.ggml.token_type", kinds)
    (folder / "model.gguf").write_bytes(raw.to_bytes())
    with pytest.raises(ModelFileError, match=rf"model.gguf.* {len(tokens)} tokens .* 268"):
        maglio.load(folder / "model.gguf")


@pytest.mark.parametrize("key", ["model", "tokens"])
def test_a_vocabulary_that_lacks_a_part_names_the_file(
    sound: Files, folder: Path, key: str
) -> None:
    raw = take_apart(sound, folder, "with a vocabulary")
    raw.drop(f"tokenizer.ggml.{key}")
    (folder / "model.gguf").write_bytes(raw.to_bytes())
    with pytest.raises(ModelFileError, match=r"model\.gguf"):
        maglio.load(folder / "model.gguf")


# --- chance ---------------------------------------------------------------------------------------

POSITIONS = st.one_of(st.integers(0, 40), st.integers(0, 1700), st.integers(0, 2**20))
BYTES = st.one_of(st.sampled_from([b"\0", b"\xff", b"\x80", b"\xff" * 8, b"\0" * 8]), st.binary())
DAMAGES = st.lists(
    st.tuples(st.sampled_from(["flip", "overwrite", "insert", "delete", "cut"]), POSITIONS, BYTES),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, damages: list[tuple[str, int, bytes]]) -> bytes:
    for how, position, extra in damages:
        at = position % (len(data) + 1)
        if how == "flip":
            flipped = bytes(byte ^ 1 << position % 8 for byte in data[at : at + 1])
            data = data[:at] + flipped + data[at + 1 :]
        elif how == "overwrite":
            data = data[:at] + extra + data[at + len(extra) :]
        elif how == "insert":
            data = data[:at] + extra + data[at:]
        elif how == "delete":
            data = data[:at] + data[at + max(1, len(extra)) :]
        else:
            data = data[:at]
    return data


@settings(max_examples=1500, deadline=None)
@given(family=st.sampled_from(FAMILIES), damages=DAMAGES)
@example(family="llama", damages=[("overwrite", 12, b"\xff" * 8)])
def test_chance_damage_ends_in_a_typed_error_or_a_model(
    sound: Files, folder: Path, family: str, damages: list[tuple[str, int, bytes]]
) -> None:
    survives(damaged(sound[family], damages), folder)


@settings(max_examples=500, deadline=None)
@given(damages=DAMAGES)
def test_chance_damage_to_a_vocabulary_ends_so_too(
    sound: Files, folder: Path, damages: list[tuple[str, int, bytes]]
) -> None:
    path = folder / "model.gguf"
    path.write_bytes(damaged(sound["with a vocabulary"], damages))
    try:
        with little_memory():
            model = maglio.load(path, threads=1)
    except ModelFileError:
        return
    model.tokenizer.decode(model.tokenizer.encode("abc é"))


@settings(max_examples=300, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    index=st.integers(0, 100),
    value=st.one_of(
        st.integers(0, 2**32 - 1), st.floats(width=32), st.booleans(), st.text(max_size=9)
    ),
)
def test_any_value_for_any_key_ends_so_too(
    sound: Files, folder: Path, family: str, index: int, value: object
) -> None:
    raw = take_apart(sound, folder, family)
    key = raw.values[index % len(raw.values)][0].decode()
    raw.set(key, value)
    survives(raw.to_bytes(), folder)
