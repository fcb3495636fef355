"""What the documentation shows, runs: the code of a page is one program, on a tiny model."""

from __future__ import annotations

import ctypes
import re
import runpy
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

import maglio
from support.chat_model import TEMPLATE, vocabulary
from support.gguf_bytes import RawGguf
from support.models import TINY, write_model

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/python.md",
    "docs/chat.md",
    "docs/drafting.md",
    "docs/how-to/engine.md",
    "docs/how-to/draft-source.md",
    "docs/how-to/family.md",
)
FORMAT_PAGE = "docs/how-to/format.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
SHAPE = replace(TINY["llama"], n_ctx=4096)


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


def write_text_model(path: Path, architecture: str) -> None:
    """A random model with a vocabulary of bytes and a chat template."""
    write_model(path, architecture, SHAPE, "Q8_0", seed=3)
    raw = RawGguf.read(path)
    for key, value in {**vocabulary(), "tokenizer.chat_template": TEMPLATE}.items():
        raw.set(key, value)
    path.write_bytes(raw.to_bytes())


@pytest.fixture(scope="session")
def text_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_text_model(folder / "model.gguf", "llama")
    write_text_model(folder / "gemma.gguf", "gemma")
    return folder


@pytest.fixture
def desk(text_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a page's program."""
    for model in text_models.iterdir():
        (tmp_path / model.name).symlink_to(model)
    (tmp_path / "notes.txt").write_text("The reading room opens at nine.\n")
    (tmp_path / "shapes.py").write_text("class Rectangle:\n    sides = 4\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("maglio.loading.default_model_path", lambda: tmp_path / "model.gguf")
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, desk: Path):
    program = code(page, "python")
    assert program.strip(), "the page has no code"
    script = desk / f"{Path(page).stem.replace('-', '_').lower()}_page.py"
    script.write_text(program)
    runpy.run_path(str(script), run_name=script.stem)


def test_the_decoder_of_the_format_page_reads_what_gguf_reads(tmp_path: Path):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "page.cpp"
    source.write_text(
        '#include <cstring>\n#include "gguf/block_codec.h"\n#include "gguf/half.h"\n'
        "using namespace maglio;\n"
        "static float read_half(const uint8_t* p) {\n"
        "  uint16_t h;\n  std::memcpy(&h, p, sizeof(h));\n  return half_to_float(h);\n}\n"
        "static\n" + code(FORMAT_PAGE, "cpp").strip() + "\n"
        'extern "C" void decode(const uint8_t* block, float* values) {\n'
        "  for (int j = 0; j < 8; ++j) {\n    CodedBlock out;\n    decode_q3_k(block, j, out);\n"
        "    for (int i = 0; i < 32; ++i)\n"
        "      *values++ = out.scales[i / 16] * static_cast<float>(out.codes[i] - 32);\n  }\n}\n"
    )
    library = tmp_path / "page.so"
    command = [compiler, "-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    block = np.random.default_rng(5).integers(0, 256, 110).astype(np.uint8)
    block[108:] = np.array([0.01], np.float16).view(np.uint8)
    values = np.empty(256, np.float32)
    ctypes.CDLL(str(library)).decode(
        block.ctypes.data_as(ctypes.c_void_p), values.ctypes.data_as(ctypes.c_void_p)
    )
    expected = dequantize(block[None], GGMLQuantizationType.Q3_K).reshape(-1)
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
