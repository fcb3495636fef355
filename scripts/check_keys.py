"""Try metadata keys on tiny files of every family, in llama.cpp and in the native engine.

The keys of ``tests/support/keys.py`` must change no logit of llama.cpp. Every other key that
llama.cpp's sources name (``src/llama-arch.cpp`` in the folder of ``MAGLIO_LLAMA_CPP``), with values
of each type, must change ours as it changes llama.cpp's, or be refused by name.

Needs llama-cpp-python and gguf (dependency group ``oracle``), and some six minutes. Run from the
repository root: ``python scripts/check_keys.py``, with names of families for those alone.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from llama_oracle import LlamaOracle

os.environ["GGML_NO_BACKTRACE"] = "1"  # it aborts on some values, which takes gdb seconds to tell

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from maglio.engine.native import NativeEngine  # noqa: E402
from maglio.engine.session import Session  # noqa: E402
from maglio.errors import ModelFileError  # noqa: E402
from maglio.gguf import ModelFile  # noqa: E402
from support.gguf_bytes import RawGguf, Value  # noqa: E402
from support.goldens import log_softmax  # noqa: E402
from support.keys import harmless_keys  # noqa: E402
from support.models import FAMILIES, tiny_shape, write_model  # noqa: E402

TOKENS = np.random.default_rng(1).integers(0, 300, 60).tolist()  # past gemma3's window
VALUES: list[Value] = [2, 0.5, True, "linear"]
NOT_TRIED = {"block_count", "context_length"}  # llama.cpp's context is as long as it is told
LIMIT = 1e-5  # mean KL

Logits = npt.NDArray[np.float32]


def theirs(path: Path) -> Logits | None:
    """Return llama.cpp's logits, or None where it refuses the file, which may be an abort."""
    out = path.with_suffix(".npy")
    out.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            with LlamaOracle(path, n_ctx=64) as oracle:
                np.save(out, oracle.forward(TOKENS))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return np.load(out) if out.exists() else None


def ours(path: Path) -> Logits | str:
    """Return our logits, or why the file is refused."""
    try:
        return Session(NativeEngine(ModelFile(path), threads=1)).forward(TOKENS)
    except ModelFileError as error:
        return str(error)


def problem(name: str, path: Path, theirs: Logits) -> str:
    """Return what is wrong where llama.cpp's logits changed, or an empty string."""
    rows = ours(path)
    if isinstance(rows, str):
        return "" if name in rows else f"is not what is refused: {rows}"
    expected = log_softmax(theirs)
    distance = (np.exp(expected) * (expected - log_softmax(rows))).sum(axis=1).mean()
    return "" if distance < LIMIT else f"is not applied: mean KL {distance:.1e}"


def check(family: str, path: Path, names: list[str]) -> int:
    """Check a family and return the number of problems."""
    write_model(path, family, tiny_shape(family, "F32"), "F32", 11)
    plain, harmless, expected = RawGguf.read(path), harmless_keys(ModelFile(path)), theirs(path)
    tried = [(name, value, True) for name, value in harmless.items()]
    tried += [(name, value, False) for name in names for value in VALUES]
    count = 0
    for name, value, must_be_harmless in tried:
        raw = RawGguf(list(plain.values), plain.tensors)
        raw.set(f"{family}.{name}", value)
        path.write_bytes(raw.to_bytes())
        got = theirs(path)
        if must_be_harmless:
            complaint = "" if np.array_equal(got, expected) else "is not harmless"
        else:
            same = got is None or np.array_equal(got, expected)
            complaint = "" if same else problem(name, path, got)
        if complaint:
            count += 1
            print(f"{family}.{name} = {value!r} {complaint}")
    return count


def main() -> None:
    sources = Path(os.environ["MAGLIO_LLAMA_CPP"])
    text = (sources / "src" / "llama-arch.cpp").read_text()
    names = sorted(set(re.findall(r'"%s\.([a-z0-9_.]+)"', text)) - NOT_TRIED)
    with tempfile.TemporaryDirectory() as folder:
        path, families = Path(folder) / "model.gguf", sys.argv[1:] or FAMILIES
        problems = sum(check(family, path, names) for family in families)
    print(f"{len(names)} keys, {problems} problems")
    sys.exit(problems > 0)


if __name__ == "__main__":
    main()
