"""Caches on disk: exact in another process, private, and harmless whatever is in the file."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maglio import saved_caches
from maglio.engine.base import Segment
from maglio.engine.native import NativeEngine
from maglio.errors import CacheFileError
from maglio.gguf import ModelFile
from maglio.prefix_cache import PrefixCache
from support.feeding import feed
from support.small_files import little_memory
from support.tiny import TinyModels, load_on, random_tokens
from support.toy_engine import ToyEngine
from support.xxhash import xxh64

PLENTY = 1 << 40
HEADER, CHECKED = 104, 24


def talk(engine: NativeEngine, prefixes: PrefixCache, prompt: list[int], tenant: str = "a") -> None:
    """A prompt, and an answer of three tokens."""
    cache = prefixes.take(prompt, tenant=tenant)
    feed(engine, cache, prompt[cache.length :], 1)
    cache.keep()
    for token in (1, 2, 3):
        feed(engine, cache, [token], 1)
    prefixes.put([*prompt, 1, 2, 3], cache, tenant=tenant)


def saved(engine: NativeEngine, folder: Path, n: int = 3) -> PrefixCache:
    """Streams that share their first 100 tokens, saved."""
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    system = random_tokens(engine.n_vocab, 100)
    talk(engine, prefixes, system)
    for i in range(n):
        talk(engine, prefixes, [*system, 1, 2, 3, *[4 + i] * 40])
    assert prefixes.save(folder)
    return prefixes


def path_of(folder: Path) -> Path:
    [path] = folder.iterdir()
    return path


# --- what is there after a start ------------------------------------------------------------------

ANOTHER_PROCESS = """
import sys, hashlib
from pathlib import Path
import numpy as np
from maglio.engine.base import Segment
from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile
from maglio.prefix_cache import PrefixCache

folder, *models = sys.argv[1:]
for model in models:
    path, kv_cache = model.split(",")
    engine = NativeEngine(ModelFile(path), threads=2, kv_cache=kv_cache)
    prefixes = PrefixCache(engine, max_bytes=1 << 40)
    assert prefixes.load(Path(folder))
    tokens = np.random.default_rng(0).integers(0, engine.n_vocab, 100).tolist()
    tokens += [1, 2, 3, *[5] * 40, 1, 2, 3, 9]
    cache = prefixes.take(tokens, tenant="a")
    known = cache.length
    [rows] = engine.forward([Segment(cache, tokens[known:], 1)])
    print(known, prefixes.take(tokens, tenant="b").length, hashlib.sha256(rows).hexdigest())
"""

MODELS = [
    ("llama", "Q4_0", "f16"),
    ("gemma3", "Q8_0", "q8_0"),
    ("qwen35", "Q8_0", "f16"),
    ("lfm2", "Q4_0", "q8_0"),
]


def test_another_process_goes_on_as_if_it_were_this_one(tiny: TinyModels, tmp_path: Path) -> None:
    expected, arguments = [], []
    for family, fmt, kv_cache in MODELS:
        engine = tiny.engine(family, fmt, kv_cache=kv_cache)
        saved(engine, tmp_path)
        tokens = [*random_tokens(engine.n_vocab, 100), 1, 2, 3, *[5] * 40, 1, 2, 3, 9]
        rows = feed(engine, engine.new_cache(), tokens, 1)
        expected.append(f"146 0 {hashlib.sha256(rows).hexdigest()}")
        arguments.append(f"{tiny.path(family, fmt, None)},{kv_cache}")
    command = [sys.executable, "-c", ANOTHER_PROCESS, str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize(("family", "fmt", "kv_cache"), MODELS)
def test_what_was_known_is_known_again_and_rows_are_the_same(
    tiny: TinyModels, tmp_path: Path, family: str, fmt: str, kv_cache: str
) -> None:
    engine = tiny.engine(family, fmt, kv_cache=kv_cache)
    before = saved(engine, tmp_path)
    after = PrefixCache(engine, max_bytes=PLENTY)
    assert after.load(tmp_path)
    assert after.stats.tokens == before.stats.tokens
    assert after.stats.bytes <= before.stats.bytes
    system = random_tokens(engine.n_vocab, 100)
    for prompt in (
        system,
        [*system, 1, 2, 3, *[5] * 40],
        [*system, 1, 2, 3, *[5] * 40, 1, 2, 3, 7],
        [*system, 1, 2, 3, 8, 8],
        [*system, 9],
        [7, 7, 7],
    ):
        old, new = before.take(prompt, tenant="a"), after.take(prompt, tenant="a")
        assert new.length == old.length
        assert new.floor <= old.length
        rows = feed(engine, new, [*prompt[new.length :], 3, 4], 2)
        fresh = feed(engine, engine.new_cache(), [*prompt, 3, 4], 2)
        np.testing.assert_array_equal(rows, fresh)


def test_what_streams_share_is_saved_once(tiny: TinyModels, tmp_path: Path) -> None:
    engine = tiny.engine("llama", "Q4_0")
    prefixes = saved(engine, tmp_path, n=20)
    n_bytes = prefixes.stats.bytes
    assert n_bytes == (1 + 20 * 2) * engine.page_bytes  # the first page, and the rest of each
    ids = sum(4 * (146 + 3) + 40 for _ in range(20)) + 8 * 41
    assert path_of(tmp_path).stat().st_size == HEADER + ids + n_bytes
    again = PrefixCache(engine, max_bytes=PLENTY)
    again.load(tmp_path)
    assert again.stats.bytes == n_bytes
    assert engine.cache_bytes == 2 * n_bytes


def test_what_was_used_last_comes_first_when_there_is_less_room(
    tiny: TinyModels, tmp_path: Path
) -> None:
    engine = tiny.engine("llama", "Q4_0")
    before = PrefixCache(engine, max_bytes=PLENTY)
    prompts = [[n] * 150 for n in range(4)]
    for prompt in prompts:
        talk(engine, before, prompt)
    before.take(prompts[0], tenant="a")
    before.save(tmp_path)
    after = PrefixCache(engine, max_bytes=7 * engine.page_bytes)
    assert after.load(tmp_path)
    assert after.stats.bytes == 6 * engine.page_bytes
    assert after.take(prompts[2], tenant="a").length == 0
    talk(engine, after, prompts[1])
    assert after.stats.bytes == 7 * engine.page_bytes
    lengths = [after.take(prompt, tenant="a").length for prompt in prompts]
    assert lengths == [149, 149, 0, 51]


def test_streams_longer_than_the_context_are_left_out(tiny: TinyModels, tmp_path: Path) -> None:
    path = tiny.path("qwen35", "Q8_0", None)
    engine = load_on("", path, threads=1)
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    talk(engine, prefixes, [1] * 90)
    talk(engine, prefixes, [2] * 60)
    prefixes.save(tmp_path)
    short = load_on("", path, threads=1, n_ctx=70)
    again = PrefixCache(short, max_bytes=PLENTY)
    assert again.load(tmp_path)
    assert again.take([2] * 60, tenant="a").length == 59
    assert again.take([1] * 70, tenant="a").length == 0


# --- whose it is ----------------------------------------------------------------------------------


def test_tenants_stay_apart_and_are_not_named(tiny: TinyModels, tmp_path: Path) -> None:
    engine = tiny.engine("llama", "Q4_0")
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    talk(engine, prefixes, [1] * 50, "sk-secret-of-a")
    talk(engine, prefixes, [2] * 50, "sk-secret-of-b")
    prefixes.save(tmp_path)
    assert b"secret" not in path_of(tmp_path).read_bytes()
    again = PrefixCache(engine, max_bytes=PLENTY)
    again.load(tmp_path)
    for tenant, prompt, known in (("a", 1, 49), ("a", 2, 0), ("b", 1, 0), ("b", 2, 49)):
        taken = again.take([prompt] * 50, tenant=f"sk-secret-of-{tenant}")
        assert taken.length == known
    shared = PrefixCache(engine, max_bytes=PLENTY, shared=True)
    shared.load(tmp_path)
    assert shared.take([1] * 50, tenant="anybody").length == 49
    shared.save(tmp_path)
    again = PrefixCache(engine, max_bytes=PLENTY)
    again.load(tmp_path)  # nothing of it is anybody's alone
    assert again.stats.tokens == 0


def test_only_the_user_can_read_it(tiny: TinyModels, tmp_path: Path) -> None:
    engine = tiny.engine("llama", "Q4_0")
    folder = tmp_path / "new"
    saved(engine, folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    path_of(folder).chmod(0o644)
    saved(engine, folder)
    assert stat.S_IMODE(path_of(folder).stat().st_mode) == 0o600
    path_of(folder).chmod(0o666)
    with pytest.warns(RuntimeWarning, match="others may write to it"):
        assert not PrefixCache(engine, max_bytes=PLENTY).load(folder)


def test_engines_that_cannot_save_say_so(tmp_path: Path) -> None:
    prefixes = PrefixCache(ToyEngine(), max_bytes=PLENTY)
    assert not prefixes.save(tmp_path / "new")
    assert not prefixes.load(tmp_path / "new")
    assert not (tmp_path / "new").exists()


# --- what cannot be used --------------------------------------------------------------------------


def test_there_may_be_no_file(tiny: TinyModels, tmp_path: Path) -> None:
    assert not PrefixCache(tiny.engine("llama", "Q4_0"), max_bytes=PLENTY).load(tmp_path / "no")


def test_a_model_that_has_changed_is_said_to_have(tiny: TinyModels, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(tiny.path("llama", "Q4_0", None).read_bytes())
    saved(NativeEngine(ModelFile(model), threads=1), tmp_path / "caches")
    unchanged = NativeEngine(ModelFile(model), threads=1)
    assert PrefixCache(unchanged, max_bytes=PLENTY).load(tmp_path / "caches")
    os.utime(model, (1, 1))
    changed = PrefixCache(NativeEngine(ModelFile(model), threads=1), max_bytes=PLENTY)
    with pytest.warns(RuntimeWarning, match=r"caches in .* written for another model"):
        assert not changed.load(tmp_path / "caches")


def test_caches_of_another_precision_are_another_file(tiny: TinyModels, tmp_path: Path) -> None:
    engine = tiny.engine("llama", "Q4_0")
    saved(engine, tmp_path)
    other = tiny.engine("llama", "Q4_0", kv_cache="q8_0")
    assert not PrefixCache(other, max_bytes=PLENTY).load(tmp_path)
    assert other.fingerprint != engine.fingerprint
    path_of(tmp_path).rename(tmp_path / other.cache_file)
    with pytest.warns(RuntimeWarning, match="another model, precision"):
        assert not PrefixCache(other, max_bytes=PLENTY).load(tmp_path)


def test_a_failed_save_says_so_and_leaves_the_former_file(
    tiny: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tiny.engine("llama", "Q4_0")
    prefixes = saved(engine, tmp_path)
    before = path_of(tmp_path).read_bytes()
    monkeypatch.setattr(saved_caches, "_SPARE_BYTES", 1 << 60)
    with pytest.raises(CacheFileError, match=r"cannot be saved in .*free on the disk"):
        prefixes.save(tmp_path)
    assert path_of(tmp_path).read_bytes() == before
    monkeypatch.undo()
    (tmp_path / "file").touch()
    with pytest.raises(CacheFileError, match="file"):
        prefixes.save(tmp_path / "file")


KILLED = """
import os, signal, sys
from pathlib import Path
from maglio.engine.base import Segment
from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile
from maglio.prefix_cache import PrefixCache

engine = NativeEngine(ModelFile(sys.argv[1]), threads=1)
prefixes = PrefixCache(engine, max_bytes=1 << 40)
cache = engine.new_cache()
engine.forward([Segment(cache, [1] * 100, 0)])
prefixes.put([1] * 100, cache, tenant="a")
write = engine.write_caches

def dying(caches, descriptor):
    write(caches, descriptor)
    os.ftruncate(descriptor, 5000)  # as far as it came
    os.kill(os.getpid(), signal.SIGKILL)

engine.write_caches = dying
prefixes.save(Path(sys.argv[2]))
"""


def test_a_save_that_is_killed_leaves_the_former_file(tiny: TinyModels, tmp_path: Path) -> None:
    engine = tiny.engine("llama", "Q4_0")
    saved(engine, tmp_path)
    path = path_of(tmp_path)
    before = path.read_bytes()
    model = tiny.path("llama", "Q4_0", None)
    done = subprocess.run([sys.executable, "-c", KILLED, str(model), str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2  # and one that the next save a while later removes
    assert path.read_bytes() == before
    assert PrefixCache(engine, max_bytes=PLENTY).load(tmp_path)


@pytest.fixture(scope="module")
def small(tiny: TinyModels, tmp_path_factory: pytest.TempPathFactory) -> tuple[NativeEngine, Path]:
    """A hybrid with a short file of two caches."""
    engine = tiny.engine("qwen35", "Q4_0")
    folder = tmp_path_factory.mktemp("caches")
    prefixes = PrefixCache(engine, max_bytes=PLENTY)
    talk(engine, prefixes, [1, 2, 3, 4, 5, 6, 7, 8])
    prefixes.save(folder)
    return engine, path_of(folder)


def refusal(engine: NativeEngine, data: bytes, tmp_path: Path) -> str:
    (tmp_path / engine.cache_file).write_bytes(data)
    (tmp_path / engine.cache_file).chmod(0o600)
    with pytest.warns(RuntimeWarning) as caught:
        assert not PrefixCache(engine, max_bytes=PLENTY).load(tmp_path)
    return str(caught[0].message)


def test_damaged_files_are_refused(small: tuple[NativeEngine, Path], tmp_path: Path) -> None:
    engine, path = small
    data, held = path.read_bytes(), engine.cache_bytes
    random = np.random.default_rng(5)
    index_ends = HEADER + struct.unpack_from("<Q", data, 40)[0]
    cuts = [*range(HEADER + 8), index_ends - 1, index_ends, len(data) - 1]
    for cut in cuts:
        assert "not used" in refusal(engine, data[:cut], tmp_path)
    assert "does not account for" in refusal(engine, data + b"\0", tmp_path)
    for at in [*range(index_ends), *random.integers(index_ends, len(data), 100)]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << random.integers(8)
        assert "not used" in refusal(engine, bytes(flipped), tmp_path)
    assert engine.cache_bytes == held


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, b"GGUF", "not a file of caches"),
        (8, b"\x01\x02\x03\x04", "byte order"),
        (12, b"\x63\0\0\0", "version 99"),
        (24, b"\xff", "another model"),
        (32, b"\xff", "does not account for"),
        (48, b"\xff", "another model"),
        (72, b"\xff\xff\xff\xff\xff\xff\xff\xff", "does not account for"),
        (96, b"\x07", "another model"),
        (100, b"\xff", "its index"),
    ],
)
def test_a_refusal_says_why(
    small: tuple[NativeEngine, Path], tmp_path: Path, at: int, value: bytes, reason: str
) -> None:
    engine, path = small
    data = path.read_bytes()
    assert reason in refusal(engine, data[:at] + value + data[at + len(value) :], tmp_path)


def with_checksum(data: bytes) -> bytes:
    """The same file with the checksum that its header and index ask for."""
    end = HEADER + min(struct.unpack_from("<Q", data, 40)[0], len(data))
    right = xxh64(data[HEADER:end], xxh64(data[CHECKED:HEADER]))
    return data[:16] + struct.pack("<Q", right) + data[CHECKED:]


def test_the_checksum_is_that_of_header_and_index(small: tuple[NativeEngine, Path]) -> None:
    data = small[1].read_bytes()
    assert with_checksum(data) == data


HOSTILE = st.one_of(
    st.integers(-3, 300), st.sampled_from([2**31 - 1, -(2**31), 2**30, 1 << 20, 64, 65])
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_hostile_content_with_a_right_checksum_is_refused_or_harmless(
    small: tuple[NativeEngine, Path], tmp_path: Path, data: st.DataObject
) -> None:
    engine, path = small
    hostile = bytearray(path.read_bytes())
    index_bytes = struct.unpack_from("<Q", hostile, 40)[0]
    words = (HEADER - CHECKED + index_bytes) // 4
    for _ in range(data.draw(st.integers(1, 3))):
        at = CHECKED + 4 * data.draw(st.integers(0, words - 1))
        hostile[at : at + 4] = struct.pack("<i", data.draw(HOSTILE))
    target = tmp_path / "hostile"
    target.write_bytes(with_checksum(bytes(hostile)))
    with target.open("rb") as file, little_memory():
        try:
            read = engine.read_caches(file.fileno(), PLENTY)
        except CacheFileError as error:
            assert len(str(error)) > 20  # noqa: PT017 - either outcome is right
            return
        for owner, tokens, cache in read:
            assert len(owner) == 32
            assert cache.floor <= cache.length == len(tokens)
            assert 0 <= tokens.min() <= tokens.max() < engine.n_vocab
            fork = cache.fork(cache.length)
            engine.forward([Segment(fork, [1, 2, 3], 3)])
            fork.keep()
            fork.truncate(fork.floor)
            engine.forward([Segment(fork, [1], 1)])
            fork.truncate(0)
