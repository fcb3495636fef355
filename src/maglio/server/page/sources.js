// Which source predicted which part of a text.
//
// A text goes with its runs: pairs [source, length] whose lengths add up to that of the text.

/** Sources that have a colour of their own; others share one. */
const KNOWN = new Set(["model", "conversation", "reference", "history", "recycling", "prediction", "grammar"]);

/** The kind that a source is coloured as: "reference" for "reference:2". */
export function kindOf(source) {
  const kind = source.split(":")[0];
  return KNOWN.has(kind) ? kind : "other";
}

/** The name of a source for people; `references` are the names of the documents. */
export function nameOf(source, references = []) {
  const [kind, number] = source.split(":");
  return kind === "reference" && references[number] ? `reference ${references[number]}` : source;
}

/** Add runs at the end of others. */
export function extend(runs, more) {
  for (const [source, length] of more) {
    const last = runs.at(-1);
    if (last && last[0] === source) last[1] += length;
    else runs.push([source, length]);
  }
}

/** Writes parts of a text, each run of it in the colour of its source. */
export class Painter {
  #text;
  #ends = [];
  #sources = [];
  #references;

  constructor(text, runs, references) {
    this.#text = text;
    this.#references = references;
    let end = 0;
    for (const [source, length] of runs) {
      this.#ends.push((end += length));
      this.#sources.push(source);
    }
  }

  slice(start, end) {
    return this.#text.slice(start, end);
  }

  /** Append the text from `start` to `end` to a node. */
  paint(node, start, end) {
    for (let i = this.#run(start); start < end; i++) {
      const stop = Math.min(end, this.#ends[i] ?? end);
      node.append(this.#piece(this.#text.slice(start, stop), this.#sources[i] ?? "model"));
      start = stop;
    }
  }

  #piece(text, source) {
    if (source === "model") return text;
    const span = document.createElement("span");
    span.dataset.source = kindOf(source);
    span.title = nameOf(source, this.#references);
    span.textContent = text;
    return span;
  }

  #run(offset) {
    let low = 0;
    let high = this.#ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#ends[middle] > offset) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
