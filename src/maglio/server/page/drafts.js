// The live view of drafts: one column for each forward, and sums by source.

import { rateOf } from "./answer.js";
import { make, percent, tenths, whole } from "./messages.js";
import { kindOf, nameOf } from "./sources.js";

const MOST_COLUMNS = 80;

export class DraftsView {
  #columns = document.getElementById("drafts-steps");
  #rows = document.getElementById("drafts-sources");
  #summary = document.getElementById("drafts-summary");
  #counts = new Map();
  #references = [];

  /** Begin a new answer. */
  begin(references) {
    this.#references = references;
    this.#counts = new Map();
    this.#columns.replaceChildren();
    this.#rows.replaceChildren();
    this.#summary.value = "Reading the prompt";
  }

  /** A forward gave tokens. */
  push({ sources, drafted, accepted }) {
    for (const source of sources) this.#counts.set(source, (this.#counts.get(source) ?? 0) + 1);
    const column = make("div", "step");
    const source = sources.find((name) => name !== "model");
    if (source) column.dataset.source = kindOf(source);
    column.append(
      cells("own", Math.max(0, sources.length - accepted)),
      cells("accepted", accepted),
      cells("rejected", drafted - accepted),
    );
    this.#columns.append(column);
    if (this.#columns.childElementCount > MOST_COLUMNS) this.#columns.firstElementChild.remove();
  }

  /** Show the sums. */
  update(figures) {
    const rate = rateOf(figures);
    const width = figures.forwards > 0 ? figures.tokens / figures.forwards : 0;
    figure("rate", rate > 0 ? tenths(rate) : "–");
    figure("width", width > 0 ? tenths(width) : "–");
    figure("accepted", percent(figures.accepted, figures.drafted));
    const parts = [rate > 0 ? `${tenths(rate)} tokens/s` : "–"];
    if (figures.drafted > 0) parts.push(`${percent(figures.accepted, figures.drafted)} accepted`);
    this.#summary.value = parts.join(" · ");
    const all = [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
    const rows = [...this.#counts].sort((a, b) => b[1] - a[1]).map(([source, count]) => this.#row(source, count, all));
    this.#rows.replaceChildren(...rows);
  }

  #row(source, count, all) {
    const sample = make("span", "sample", nameOf(source, this.#references));
    sample.dataset.source = kindOf(source);
    const head = make("th", "", sample);
    head.scope = "row";
    return make("tr", "", head, make("td", "", whole(count)), make("td", "", percent(count, all)));
  }
}

function cells(className, count) {
  const node = make("span", className);
  node.style.setProperty("--count", count);
  return node;
}

function figure(name, text) {
  document.querySelector(`[data-figure="${name}"]`).textContent = text;
}
