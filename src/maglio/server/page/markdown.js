// Markdown as answers use it, made into elements. Text only ever becomes text nodes, by the
// painter, which gets offsets into the source; so nothing in an answer can become markup.

const MAX_INLINE = 4000; // characters; longer paragraphs are shown as they are, to stay quick
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+/;
const QUOTE = /^ {0,3}> ?/;
const ROW = /^\s*\|.*\|\s*$/;
const DIVIDER = /^\s*\|(?:\s*:?-+:?\s*\|)+\s*$/;
const INLINE = new RegExp(
  [
    /(?<ticks>`+)(?<code>[^`]|[^`][\s\S]*?[^`])\k<ticks>(?!`)/,
    /(?<strong>\*\*(?=\S)(?<bold>[\s\S]*?\S)\*\*)/,
    /(?<emphasis>(?<![\w*])\*(?=[^\s*])(?<slanted>[^*\n]*[^\s*])\*(?!\*))/,
    /(?<under>(?<!\w)_(?=[^\s_])(?<slanted2>[^_\n]*[^\s_])_(?!\w))/,
    /\[(?<label>[^\]\n]+)\]\((?<target>https?:\/\/[^\s)]+)\)/,
    /(?<bare>https?:\/\/[^\s<>()]*[^\s<>().,;:!?'"*_`])/,
  ].map((part) => part.source).join("|"),
  "dg",
);

/** The blocks of `text` from the offset `from` on, each with its `start` and `end`. */
export function blocksOf(text, from = 0) {
  const lines = linesOf(text, from);
  const blocks = [];
  for (let i = 0; i < lines.length; ) {
    if (lines[i].text.trim() === "") {
      i += 1;
      continue;
    }
    const [kind, next] = blockAt(lines, i);
    blocks.push({ kind, lines: lines.slice(i, next), start: lines[i].start, end: lines[next - 1].end });
    i = next;
  }
  return blocks;
}

/** The element of a block; `painter` writes its text. */
export function elementOf(block, painter) {
  return MAKERS[block.kind](block.lines, painter);
}

function linesOf(text, from) {
  const lines = [];
  for (let start = from; start < text.length; ) {
    const found = text.indexOf("\n", start);
    const end = found < 0 ? text.length : found;
    lines.push({ text: text.slice(start, end), start, end });
    start = end + 1;
  }
  return lines;
}

function blockAt(lines, first) {
  const line = lines[first].text;
  const fence = FENCE.exec(line);
  if (fence) return ["fence", endOfFence(lines, first, fence[1])];
  if (HEADING.test(line)) return ["heading", first + 1];
  if (RULE.test(line)) return ["rule", first + 1];
  if (ROW.test(line) && DIVIDER.test(lines[first + 1]?.text ?? "")) {
    return ["table", endWhile(lines, first, (text) => ROW.test(text))];
  }
  if (QUOTE.test(line)) return ["quote", endWhile(lines, first, (text) => QUOTE.test(text))];
  if (ITEM.test(line)) return ["list", endOfList(lines, first)];
  return ["paragraph", endWhile(lines, first, (text, i) => i === first || !startsBlock(text))];
}

function startsBlock(text) {
  return [FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(text)) || text.trim() === "";
}

function endWhile(lines, first, belongs) {
  let i = first;
  while (i < lines.length && belongs(lines[i].text, i)) i += 1;
  return i;
}

function endOfFence(lines, first, mark) {
  const close = lines.findIndex(({ text }, i) => i > first && text.trim().startsWith(mark) && /^[`~]+$/.test(text.trim()));
  return close < 0 ? lines.length : close + 1;
}

function endOfList(lines, first) {
  let i = first + 1;
  for (; i < lines.length; i++) {
    const { text } = lines[i];
    if (ITEM.test(text) || (text.trim() !== "" && /^\s{2,}/.test(text))) continue;
    const next = lines[i + 1]?.text ?? "";
    if (text.trim() === "" && (ITEM.test(next) || /^\s{2,}\S/.test(next))) continue;
    if (text.trim() === "" || startsBlock(text)) break;
  }
  return i;
}

const MAKERS = {
  paragraph(lines, painter) {
    const node = document.createElement("p");
    inline(node, painter, lines[0].start, lines.at(-1).end);
    return node;
  },
  heading([line], painter) {
    const [mark, hashes] = HEADING.exec(line.text);
    const level = Math.min(6, hashes.length + 2); // the page's own headings come first
    const node = document.createElement(`h${level}`);
    inline(node, painter, line.start + mark.length, line.end);
    return node;
  },
  rule() {
    return document.createElement("hr");
  },
  quote(lines, painter) {
    const node = document.createElement("blockquote");
    for (const line of lines) {
      const row = node.appendChild(document.createElement("p"));
      inline(row, painter, line.start + QUOTE.exec(line.text)[0].length, line.end);
    }
    return node;
  },
  fence(lines, painter) {
    const [, mark, language] = FENCE.exec(lines[0].text);
    const isClosed = lines.length > 1 && lines.at(-1).text.trim().startsWith(mark);
    const body = lines.slice(1, isClosed ? -1 : undefined);
    const node = document.createElement("div");
    node.className = "code";
    node.dataset.language = language;
    const pre = node.appendChild(document.createElement("pre"));
    pre.tabIndex = 0; // so that a keyboard can scroll it
    const code = pre.appendChild(document.createElement("code"));
    if (body.length > 0) painter.paint(code, body[0].start, body.at(-1).end);
    return node;
  },
  table(lines, painter) {
    const node = document.createElement("table");
    lines.forEach((line, i) => {
      if (i === 1) return;
      const row = node.appendChild(document.createElement("tr"));
      let start = line.start + line.text.indexOf("|") + 1;
      for (const cell of line.text.trim().slice(1, -1).split("|")) {
        const data = row.appendChild(document.createElement(i === 0 ? "th" : "td"));
        inline(data, painter, start, start + cell.length);
        start += cell.length + 1;
      }
    });
    return node;
  },
  list(lines, painter) {
    const root = document.createElement("div");
    const open = []; // the lists around the current item, with their indents
    let item = null;
    for (const line of lines) {
      const found = ITEM.exec(line.text);
      if (!found) {
        if (item && line.text.trim() !== "") {
          item.append("\n");
          inline(item, painter, line.start, line.end);
        }
        continue;
      }
      const [mark, blanks, bullet] = found;
      while (open.length > 0 && open.at(-1).indent > blanks.length) open.pop();
      if (open.length === 0 || open.at(-1).indent < blanks.length) {
        const list = document.createElement(/\d/.test(bullet) ? "ol" : "ul");
        if (/\d/.test(bullet)) list.start = parseInt(bullet, 10);
        (open.at(-1)?.list.lastElementChild ?? root).append(list);
        open.push({ list, indent: blanks.length });
      }
      item = open.at(-1).list.appendChild(document.createElement("li"));
      inline(item, painter, line.start + mark.length, line.end);
    }
    return root;
  },
};

function inline(node, painter, start, end) {
  const text = painter.slice(start, end);
  let done = 0;
  if (text.length <= MAX_INLINE) {
    for (const match of text.matchAll(INLINE)) {
      painter.paint(node, start + done, start + match.index);
      styled(node, painter, start, match);
      done = match.index + match[0].length;
    }
  }
  painter.paint(node, start + done, end);
}

function styled(node, painter, offset, match) {
  const { code, bold, slanted, slanted2, label, target, bare } = match.groups;
  const at = (name) => match.indices.groups[name].map((index) => offset + index);
  if (code !== undefined) {
    painter.paint(node.appendChild(document.createElement("code")), ...at("code"));
  } else if (bold !== undefined) {
    inline(node.appendChild(document.createElement("strong")), painter, ...at("bold"));
  } else if (slanted !== undefined || slanted2 !== undefined) {
    const name = slanted === undefined ? "slanted2" : "slanted";
    inline(node.appendChild(document.createElement("em")), painter, ...at(name));
  } else {
    const link = node.appendChild(document.createElement("a"));
    link.href = target ?? bare;
    link.rel = "noopener noreferrer";
    link.target = "_blank";
    painter.paint(link, ...at(label === undefined ? "bare" : "label"));
  }
}
