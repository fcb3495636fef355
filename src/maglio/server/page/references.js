// Texts to draft from: chosen or dropped, kept while the page is open.

import { button, make } from "./messages.js";

const MOST_FILES = 16;
const MOST_BYTES = 4 << 20; // of all together

/** A file that cannot be a reference. */
export class UnfitFileError extends Error {}

export class References {
  #list = document.getElementById("references");
  #hint = document.getElementById("references-hint");
  #files = [];
  #insert;

  /** `insert` is called with a { name, text } to put into the message. */
  constructor(insert) {
    this.#insert = insert;
  }

  get names() {
    return this.#files.map(({ name }) => name);
  }

  get texts() {
    return this.#files.map(({ text }) => text);
  }

  /** Add files. Raises for the first that cannot be one; those before it stay. */
  async add(files) {
    for (const file of files) await this.#add(file);
  }

  async #add(file) {
    const size = this.#files.reduce((sum, { bytes }) => sum + bytes, file.size);
    if (this.#files.length >= MOST_FILES) throw new UnfitFileError(`At most ${MOST_FILES} references can be used at a time.`);
    if (size > MOST_BYTES) throw new UnfitFileError(`${file.name}: references can have 4 MB in all.`);
    const text = textOf(await file.arrayBuffer());
    if (text === null) throw new UnfitFileError(`${file.name} is not a text file in UTF-8.`);
    if (text.trim() === "") throw new UnfitFileError(`${file.name} is empty.`);
    this.#files = this.#files.filter(({ name }) => name !== file.name);
    this.#files.push({ name: file.name, text, bytes: file.size });
    this.#show();
  }

  #remove(file) {
    this.#files = this.#files.filter((other) => other !== file);
    this.#show();
  }

  #show() {
    this.#list.replaceChildren(...this.#files.map((file) => this.#chip(file)));
    this.#hint.hidden = this.#files.length === 0;
  }

  #chip(file) {
    const inserting = button("insert", () => this.#insert(file));
    inserting.setAttribute("aria-label", `Insert ${file.name} into the message`);
    const removing = button("×", () => this.#remove(file));
    removing.setAttribute("aria-label", `Remove ${file.name}`);
    return make("li", "", make("span", "name", file.name), inserting, removing);
  }
}

function textOf(buffer) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(buffer);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}
