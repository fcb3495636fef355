// One answer while it comes: its text with sources, and its figures. Knows no document.

import { extend } from "./sources.js";

const REASONS = {
  length: "The answer ended at the most tokens allowed, or the context is full.",
  stopped: "Stopped.",
  tool_calls: "The model asked for a tool, and this page has none.",
};

/** What a message of the assistant is before anything was said. */
export function emptyAnswer(references) {
  return {
    role: "assistant",
    content: "",
    reasoning: "",
    runs: [],
    reasoningRuns: [],
    references,
    figures: { tokens: 0, timed: 0, forwards: 0, drafted: 0, accepted: 0, seconds: 0, wait: 0, prompt: 0, cached: 0 },
    ended: "",
  };
}

/** Why an answer ended, for people; empty when it simply had ended. */
export function endingOf(answer) {
  return REASONS[answer.ended] ?? (answer.ended === "stop" ? "" : answer.ended);
}

/** Tokens per second, from the first tokens to the last; 0 while that cannot be told. */
export function rateOf({ timed, seconds }) {
  return seconds > 0 ? timed / seconds : 0;
}

/** Takes the chunks of one answer. */
export class Collector {
  #asked = performance.now();
  #first = null;

  constructor(answer) {
    this.answer = answer;
  }

  /** Take a chunk. Returns the forward that it tells of, if any: { sources, drafted, accepted }. */
  take(chunk) {
    if (chunk.usage) this.#usage(chunk.usage);
    const choice = chunk.choices?.[0];
    if (!choice) return null;
    const { delta = {}, sources = [] } = choice;
    if (delta.reasoning_content) this.#add("reasoning", "reasoningRuns", delta.reasoning_content, sources);
    if (delta.content) this.#add("content", "runs", delta.content, sources);
    if (choice.forward) this.#count(choice.forward);
    if (choice.finish_reason) this.answer.ended = choice.finish_reason;
    return choice.forward ?? null;
  }

  #add(part, runs, text, sources) {
    this.answer[part] += text;
    const pieces = sources.filter((piece) => piece.text !== "");
    extend(this.answer[runs], pieces.map((piece) => [piece.source, piece.text.length]));
  }

  #count({ sources, drafted, accepted }) {
    this.#clock(sources.length);
    const { figures } = this.answer;
    figures.forwards += 1;
    figures.drafted += drafted;
    figures.accepted += accepted;
  }

  #clock(count) {
    const now = performance.now();
    const { figures } = this.answer;
    figures.tokens += count;
    if (this.#first === null) {
      this.#first = now; // what came until now took the time of the prompt too
      figures.wait = (now - this.#asked) / 1000;
    } else {
      figures.timed += count;
      figures.seconds = (now - this.#first) / 1000;
    }
  }

  #usage({ prompt_tokens, prompt_tokens_details }) {
    this.answer.figures.prompt = prompt_tokens;
    this.answer.figures.cached = prompt_tokens_details?.cached_tokens ?? 0;
  }
}
