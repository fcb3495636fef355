// One answer from the request to its end, or two of them to compare.

import { Collector, emptyAnswer } from "./answer.js";
import { ServerError, complete } from "./completion.js";

export class Answering {
  #abort = new AbortController();
  #finished;
  #options;

  /**
   * @param model the name of the model
   * @param messages the conversation so far
   * @param settings the values of the settings
   * @param references their { names, texts }
   * @param drafts where forwards are shown
   * @param onUpdate called when there is more of the answer, at most once a frame
   * @param onPlain called in the same way with the answer without speculation
   */
  constructor(options) {
    this.#options = options;
    this.answer = emptyAnswer(options.references.names);
  }

  /** Get the answer. Returns what went wrong, or an empty text. */
  async run({ isComparison }) {
    this.#finished = this.#run(isComparison);
    return this.#finished;
  }

  /** End it; what came stays. */
  async stop() {
    this.#abort.abort();
    await this.#finished;
  }

  async #run(isComparison) {
    if (!isComparison) return this.#draft(this.#request());
    // With speculation first: it must not draft from the text of the other.
    const seed = crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
    const request = { ...this.#request(), seed };
    const problem = await this.#draft({ ...request, speculative: true });
    if (problem || this.answer.ended === "stopped") return problem;
    return this.#compare({ ...request, speculative: false });
  }

  /** Collect the answer, and show its drafts. */
  async #draft(request) {
    const { drafts, onUpdate } = this.#options;
    const show = () => {
      onUpdate();
      drafts.update(this.answer.figures);
    };
    drafts.begin(this.answer.references);
    return this.#collect(request, this.answer, show, (forward) => drafts.push(forward));
  }

  /** Collect the same answer without speculation, to compare the two. */
  async #compare(request) {
    const plain = emptyAnswer([]);
    const problem = await this.#collect(request, plain, () => this.#options.onPlain(plain));
    if (!problem && plain.ended !== "stopped") {
      this.answer.compared = { figures: plain.figures, content: plain.content };
    }
    return problem;
  }

  #request() {
    const { model, messages, settings, references } = this.#options;
    const system = settings.system.trim() === "" ? [] : [{ role: "system", content: settings.system }];
    const request = {
      model,
      messages: [...system, ...messages.map(sent)],
      temperature: settings.temperature,
      max_tokens: settings.maxTokens,
      stream: true,
      stream_options: { include_usage: true },
      speculative: settings.speculative,
      token_sources: true,
    };
    if (references.texts.length > 0) request.references = references.texts;
    return request;
  }

  async #collect(request, answer, onUpdate, onForward = () => {}) {
    const collector = new Collector(answer);
    const update = oncePerFrame(onUpdate);
    const options = { key: this.#options.settings.key, signal: this.#abort.signal };
    try {
      for await (const chunk of complete(request, options)) {
        const forward = collector.take(chunk);
        if (forward) onForward(forward);
        update.soon();
      }
      return "";
    } catch (error) {
      if (error.name === "AbortError") {
        answer.ended = "stopped";
        return "";
      }
      if (!(error instanceof ServerError)) throw error;
      answer.ended = error.message;
      return error.message;
    } finally {
      update.now();
    }
  }
}

/** A message as it is sent. */
function sent({ role, content, reasoning }) {
  return reasoning ? { role, content, reasoning_content: reasoning } : { role, content };
}

function oncePerFrame(action) {
  let frame = 0;
  const now = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    action();
  };
  return { now, soon: () => (frame ||= requestAnimationFrame(now)) };
}
