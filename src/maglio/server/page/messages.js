// Messages as they are shown: text in the colours of its sources, figures, buttons.

import { endingOf, rateOf } from "./answer.js";
import { blocksOf, elementOf } from "./markdown.js";
import { Painter } from "./sources.js";

const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export function whole(number) {
  return WHOLE.format(number);
}

export function tenths(number) {
  return number < 100 ? TENTHS.format(number) : whole(number);
}

export function percent(part, all) {
  return all > 0 ? `${Math.round((100 * part) / all)}%` : "–";
}

/** An element with a class and content. */
export function make(name, className = "", ...content) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

/** A button that calls `action` with itself. */
export function button(text, action, className = "") {
  const node = make("button", className, text);
  node.type = "button";
  node.addEventListener("click", () => action(node));
  return node;
}

/** What the user said. */
export function userMessage(message) {
  const node = make("article", "user", make("h2", "unseen", "You"), make("p", "text", message.content));
  return node;
}

/** Text in Markdown that grows; what cannot change any more is not made again. */
export class GrowingText {
  #starts = []; // of the blocks in the text

  constructor(node) {
    this.node = node;
  }

  update(text, runs, references) {
    const painter = new Painter(text, runs, references);
    // A line that grows can turn from a block of its own into a part of the one before.
    const [from = 0] = this.#starts.splice(-2);
    while (this.node.childElementCount > this.#starts.length) this.node.lastElementChild.remove();
    for (const block of blocksOf(text, from)) {
      const element = elementOf(block, painter);
      if (block.kind === "fence") addCopy(element);
      this.node.append(element);
      this.#starts.push(block.start);
    }
  }
}

function addCopy(block) {
  const code = block.querySelector("code");
  const copying = button("Copy", (self) => copy(code.textContent, self), "copy");
  copying.setAttribute("aria-label", "Copy code");
  block.prepend(make("div", "bar", make("span", "", block.dataset.language || "code"), copying));
}

/** Copy text, and say so on the button. */
async function copy(text, self) {
  const before = self.textContent;
  self.textContent = (await copied(text)) ? "Copied" : "Not copied";
  setTimeout(() => (self.textContent = before), 1500);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedBySelection(text); // browsers keep the clipboard for https and this machine
  }
}

function copiedBySelection(text) {
  const area = make("textarea", "unseen");
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  return isDone;
}

/** An answer. `update` shows what was added to it; `end` shows what is known when it has ended. */
export class AnswerView {
  #thinking = make("details", "thinking", make("summary", "", "Thinking"));
  #thought = make("div", "text");
  #versions = make("div", "versions");
  #text;
  #plain = null;

  /**
   * @param answer the message
   * @param showThinking whether thinking is opened
   * @param again called to answer again; null where that cannot be
   */
  constructor(answer, { showThinking, again }) {
    this.answer = answer;
    this.again = again;
    this.node = make("article", "answer", make("h2", "unseen", "Answer"));
    this.#thinking.open = showThinking;
    this.#thinking.hidden = true;
    this.#thinking.append(this.#thought);
    const content = make("div", "content");
    this.#text = new GrowingText(content);
    this.#versions.append(make("section", "", content));
    this.node.append(this.#thinking, this.#versions);
    this.update();
  }

  update() {
    const { content, runs, reasoning, reasoningRuns, references } = this.answer;
    if (reasoning !== "") {
      this.#thinking.hidden = false;
      this.#thought.replaceChildren();
      new Painter(reasoning, reasoningRuns, references).paint(this.#thought, 0, reasoning.length);
    }
    this.#text.update(content, runs, references);
  }

  /** Show the same answer beside it, as it comes without speculation. */
  updatePlain(plain) {
    if (this.#plain === null) {
      const content = make("div", "content");
      this.#plain = new GrowingText(content);
      this.#versions.firstElementChild.prepend(make("h3", "", "With speculation"));
      this.#versions.append(make("section", "", make("h3", "", "Without speculation"), content));
    }
    this.#plain.update(plain.content, [], []);
  }

  end() {
    const { answer } = this;
    this.update();
    const isSame = answer.compared?.content === answer.content;
    if (this.#plain !== null && (isSame || !answer.compared)) {
      this.#versions.lastElementChild.remove();
      this.#versions.querySelector("h3").remove();
    } else if (answer.compared && this.#plain === null && !isSame) {
      this.updatePlain(answer.compared);
    }
    if (answer.compared) this.node.append(comparison(answer));
    const ending = endingOf(answer);
    if (ending !== "") this.node.append(make("p", "ending", ending));
    const buttons = make("span", "buttons", button("Copy", (self) => copy(answer.content, self)));
    if (this.again) buttons.append(button("Answer again", this.again, "again"));
    this.node.append(make("footer", "", make("span", "figures", figuresOf(answer)), buttons));
  }
}

function figuresOf({ figures }) {
  const parts = [`${whole(figures.tokens)} tokens`];
  if (rateOf(figures) > 0) parts.push(`${tenths(rateOf(figures))} per second`);
  if (figures.drafted > 0) {
    parts.push(`${whole(figures.accepted)} of ${whole(figures.drafted)} draft tokens accepted`);
  }
  if (figures.prompt > 0) parts.push(`prompt ${whole(figures.prompt)}, ${whole(figures.cached)} from the cache`);
  parts.push(`first token after ${tenths(figures.wait)} s`);
  return parts.join(" · ");
}

function comparison({ content, figures, compared }) {
  const [fast, plain] = [rateOf(figures), rateOf(compared.figures)];
  const table = make("table", "comparison");
  table.append(
    make("caption", "", "Tokens per second"),
    rateRow("With speculation", fast, Math.max(fast, plain)),
    rateRow("Without", plain, Math.max(fast, plain)),
  );
  const ratio = plain > 0 && fast > 0 ? `${tenths(fast / plain)} times as fast. ` : "";
  const at = firstDifference(content, compared.content);
  const same = at < 0
    ? `The texts are identical (${whole(content.length)} characters).`
    : `The texts differ from character ${whole(at + 1)} on.`;
  return make("div", at < 0 ? "compared same" : "compared differ", table, make("p", "verdict", ratio + same));
}

function rateRow(name, rate, most) {
  const bar = make("span", "bar");
  bar.style.setProperty("--share", most > 0 ? rate / most : 0);
  const head = make("th", "", name);
  head.scope = "row";
  const drawn = make("td", "drawn", bar);
  drawn.setAttribute("aria-hidden", "true");
  return make("tr", "", head, make("td", "number", tenths(rate)), drawn);
}

/** Where two texts differ first; -1 if they do not. */
function firstDifference(a, b) {
  if (a === b) return -1;
  let i = 0;
  while (i < a.length && a[i] === b[i]) i += 1;
  return i;
}
