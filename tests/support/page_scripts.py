"""What the page's tests have a server say, and how they open the page."""

from __future__ import annotations

from collections.abc import Callable

from support.browser import Page
from support.scripted_server import Forward, Script

ENTER, TAB, ESCAPE = "\ue007", "\ue004", "\ue00c"
SHIFT_ENTER = "\ue008\ue007\ue000"  # pressed, and let go
SHIFT_TAB = "\ue008\ue004\ue000"

Open = Callable[[Script], Page]


def words(*pieces: tuple[str, str], drafted: int = 0) -> Forward:
    return Forward(pieces, drafted=drafted)


MIXED = (
    words(("The ", "model")),
    words(("cache ", "reference:0"), ("keeps ", "reference:0"), ("pages", "model"), drafted=5),
    words((", it ", "conversation"), ("says.", "model"), drafted=2),
)

DROP = """
const data = new DataTransfer();
for (const [name, content] of arguments[0]) {
  data.items.add(new File([Uint8Array.from(content)], name));
}
for (const type of ["dragover", "drop"]) {
  const event = new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true });
  document.body.dispatchEvent(event);
  if (!event.defaultPrevented) return "the browser would open the file";
}
return "";
"""

MARKDOWN = """\
# Title
A *word*, **two words**, `code <i>`, and
https://example.org/a_b.

1. one
2. two
   - in two

> said

```python
def f():
    return "**no**"
```

| a | b |
|---|---|
| 1 | 2 |

---
"""
