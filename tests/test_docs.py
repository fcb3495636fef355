"""What the documentation shows, runs: the code of a page is one program, on a tiny model."""

from __future__ import annotations

import ctypes
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

import maglio
from maglio.engine.native.families import all_families
from support.chat_model import write_chat_model

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/python.md",
    "docs/chat.md",
    "docs/drafting.md",
    "docs/grammar.md",
    "docs/tool-calls.md",
    "docs/how-to/engine.md",
    "docs/how-to/draft-source.md",
    "docs/how-to/family.md",
)
FORMAT_PAGE = "docs/how-to/format.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def code(page: str, language: str) -> str:
    """The page's blocks in a language, each at the line that it has in the page."""
    text = (ROOT / page).read_text()
    lines = [""] * len(text.splitlines())
    for block in FENCE.finditer(text):
        if block[1] == language:
            first = text.count("\n", 0, block.start(2))
            body = block[2].splitlines()
            lines[first : first + len(body)] = body
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def text_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_chat_model(folder / "model.gguf", "llama")
    write_chat_model(folder / "gemma.gguf", "gemma")
    return folder


@pytest.fixture
def desk(text_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a page's program."""
    for model in text_models.iterdir():
        (tmp_path / model.name).symlink_to(model)
    (tmp_path / "notes.txt").write_text("The reading room opens at nine.\n")
    (tmp_path / "shapes.py").write_text("class Rectangle:\n    sides = 4\n")
    monkeypatch.chdir(tmp_path)
    # The family that a page adds is gone after it.
    monkeypatch.setitem(all_families(), "gemma", None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("maglio.sources.find.default_model_path", lambda: tmp_path / "model.gguf")
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, desk: Path):
    program = code(page, "python")
    assert program.strip(), "the page has no code"
    script = desk / f"{Path(page).stem.replace('-', '_').lower()}_page.py"
    script.write_text(program)
    runpy.run_path(str(script), run_name=script.stem)


def test_the_code_of_the_format_page_reads_what_gguf_reads(tmp_path: Path):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "page.cpp"
    source.write_text(
        '#include <cstring>\n#include "gguf/half.h"\n'
        '#include "simd/portable.h"\n#include "kernels/quantized.h"\n'
        "namespace maglio {\nnamespace {\n"
        "float read_half(const uint8_t* p) {\n"
        "  uint16_t h;\n  std::memcpy(&h, p, 2);\n  return half_to_float(h);\n}\n"
        + code(FORMAT_PAGE, "cpp").strip()
        + """
}}  // namespaces
using namespace maglio;
extern "C" void decode(const uint8_t* block, float* values) { decode_tq2_0(block, values); }
extern "C" void unpack(const uint8_t* unit, int lane, float* values) {
  FormatTQ2_0::Head head;
  FormatTQ2_0::open(unit, head);
  for (int i = 0; i < 256; ++i) {
    Block out;
    FormatTQ2_0::unpack(unit, head, i / 32, ByteVec(), out);
    uint8_t codes[64];
    std::memcpy(codes, &out.codes[i % 32 / 4], sizeof(codes));
    float scales[16];
    store(scales, out.scales[0]);
    const int code = codes[4 * lane + i % 4];
    values[i] = scales[lane] * static_cast<float>(code - (1 << FormatTQ2_0::kShift));
  }
}
"""
    )
    library = tmp_path / "page.so"
    command = [compiler, "-std=c++17", "-Wall", "-Werror", "-Wno-unused-function"]
    options = ["-shared", "-fPIC", f"-I{ROOT / 'csrc'}", str(source), "-o", str(library)]
    subprocess.run([*command, *options], check=True)
    rows = np.random.default_rng(5).integers(0, 256, (16, 66)).astype(np.uint8)
    rows[:, 64:] = np.array([0.01], np.float16).view(np.uint8)
    words = rows[:, :64].reshape(16, 16, 4).transpose(1, 0, 2)
    unit = np.concatenate([words.ravel(), rows[:, 64:].ravel()])
    page = ctypes.CDLL(str(library))
    values = np.empty(256, np.float32)
    out = values.ctypes.data_as(ctypes.c_void_p)
    for lane, expected in enumerate(dequantize(rows, GGMLQuantizationType.TQ2_0)):
        page.decode(rows[lane].ctypes.data_as(ctypes.c_void_p), out)
        np.testing.assert_array_equal(values, expected)
        page.unpack(unit.ctypes.data_as(ctypes.c_void_p), lane, out)
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("page", sorted(p.relative_to(ROOT) for p in ROOT.glob("docs/**/*.md")))
def test_links_lead_somewhere(page: Path):
    _check_links(ROOT / page)


def test_links_of_the_front_page_lead_somewhere():
    for name in ("README.md", "CHANGELOG.md"):
        _check_links(ROOT / name)


def _check_links(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    missing = {link for link in LINK.findall(text) if not (page.parent / link).exists()}
    assert missing == set()


def test_the_pages_name_the_version_that_runs():
    assert maglio.__version__ in (ROOT / "CHANGELOG.md").read_text()
