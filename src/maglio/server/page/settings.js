// The settings dialog, and what the settings change at once.

import { keepSettings, settings } from "./store.js";

/** The settings; `values` is current, and every change is kept. */
export class Settings {
  #dialog = document.getElementById("settings");
  #form = this.#dialog.querySelector("form");
  #speculative = document.getElementById("speculative");

  constructor() {
    this.values = settings();
    for (const field of this.#fields()) {
      if (field.type === "checkbox") field.checked = this.values[field.name];
      else field.value = this.values[field.name];
      field.addEventListener("input", () => this.#read(field));
    }
    this.#speculative.checked = this.values.speculative;
    this.#speculative.addEventListener("input", () => this.#set("speculative", this.#speculative.checked));
    document.getElementById("show-settings").addEventListener("click", () => this.#dialog.showModal());
    this.#show();
  }

  #fields() {
    return [...this.#form.elements].filter((field) => field.name);
  }

  #read(field) {
    if (!field.checkValidity()) return; // the form cannot be closed with it either
    const value = { checkbox: field.checked, number: Number(field.value) }[field.type] ?? field.value;
    this.#set(field.name, value);
  }

  #set(name, value) {
    this.values = { ...this.values, [name]: value };
    keepSettings(this.values);
    this.#show();
  }

  #show() {
    const { theme, colours } = this.values;
    const root = document.documentElement;
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    root.dataset.colours = colours ? "on" : "off";
  }
}
