"""Run ``maglio demo`` and draw what it writes on a terminal as a picture (SVG).

The answers without drafts are left out, as they have the same text; the numbers are those of this
run. What is measured should be measured alone: end other programs first.

    python scripts/make_picture.py docs/demo.svg
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 96
DEMO = ("-m", "maglio", "demo", "--color", "on")
PLAIN_ANSWER = re.compile(r"\x1b\[2m\[without drafts\].*?(?=\x1b\[2m\[with drafts\])", re.DOTALL)
REMOTE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def written() -> str:
    """What the demo writes, with its colours."""
    environment = os.environ | {"COLUMNS": str(COLUMNS)}
    run = subprocess.run(
        [sys.executable, *DEMO], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return run.stdout


def drawn(text: str) -> str:
    """The picture of a terminal that shows ``text``."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    console.print(Text.from_ansi(text))
    svg = console.export_svg(title="maglio demo", unique_id="demo")
    return REMOTE_FONTS.sub("", svg)  # a picture loads nothing


def main() -> None:
    text, cuts = PLAIN_ANSWER.subn("", written())
    if cuts == 0:
        sys.exit("make_picture: the demo did not say which answers are without drafts")
    Path(sys.argv[1]).write_text(drawn(text))


if __name__ == "__main__":
    main()
