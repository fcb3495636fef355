// Conversations and settings, as this browser keeps them.
//
// A conversation is { id, title, changed, messages }. A message is { role, content } and, for an
// answer, { reasoning, runs, reasoningRuns, references, figures, compared, ended }.

const PREFIX = "maglio.conversation.";
const SETTINGS = "maglio.settings";
const KEY = "maglio.key";
const LARGEST_FILE = 32 << 20; // bytes of an imported file
const DEFAULTS = {
  system: "",
  temperature: 0,
  maxTokens: 1024,
  theme: "auto",
  colours: true,
  thinking: false,
  speculative: true,
};

/** Something could not be kept or read. */
export class StoreError extends Error {}

export function newConversation() {
  return { id: crypto.getRandomValues(new Uint32Array(3)).join("-"), title: "", changed: Date.now(), messages: [] };
}

/** All conversations, the one that changed last first. */
export function conversations() {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
  const kept = names.map((name) => parsed(localStorage.getItem(name))).filter(isConversation);
  return kept.sort((a, b) => b.changed - a.changed);
}

/** Keep a conversation; one without messages is forgotten instead. */
export function keep(conversation) {
  if (conversation.messages.length === 0) {
    forget(conversation);
    return;
  }
  conversation.changed = Date.now();
  conversation.title ||= conversation.messages[0].content.trim().replace(/\s+/g, " ").slice(0, 60);
  put(conversation);
}

export function forget(conversation) {
  localStorage.removeItem(PREFIX + conversation.id);
}

/** All conversations as the text of a file. */
export function exported() {
  return JSON.stringify({ maglio: 1, conversations: conversations() }, null, 1);
}

/** Add the conversations of an exported file, beside those there are. Returns how many. */
export async function importFrom(file) {
  if (file.size > LARGEST_FILE) throw new StoreError("The file is larger than 32 MB.");
  const content = parsed(await file.text());
  const found = content?.maglio === 1 && Array.isArray(content.conversations) ? content.conversations : null;
  if (!found?.every(isConversation)) {
    throw new StoreError(`${file.name} is not a file of conversations that this page exported.`);
  }
  for (const conversation of found) put({ ...conversation, id: newConversation().id });
  return found.length;
}

export function settings() {
  const kept = parsed(localStorage.getItem(SETTINGS)) ?? {};
  const known = Object.entries(DEFAULTS).map(([name, value]) => [
    name,
    typeof kept[name] === typeof value ? kept[name] : value,
  ]);
  return { ...Object.fromEntries(known), key: sessionStorage.getItem(KEY) ?? "" };
}

/** Keep settings; the key only as long as the tab is open. */
export function keepSettings({ key, ...others }) {
  sessionStorage.setItem(KEY, key);
  localStorage.setItem(SETTINGS, JSON.stringify(others));
}

function put(conversation) {
  try {
    localStorage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
  } catch {
    throw new StoreError(
      "This browser has no more room for conversations. Export them, then delete some.",
    );
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// What is read back may come from an imported file, so its shape is checked before it is shown.

function isConversation(value) {
  return (
    typeof value?.id === "string" &&
    typeof value.title === "string" &&
    Number.isFinite(value.changed) &&
    Array.isArray(value.messages) &&
    value.messages.length > 0 &&
    value.messages.every(isMessage)
  );
}

function isMessage(value) {
  if (typeof value?.content !== "string") return false;
  if (value.role === "user") return true;
  return (
    value.role === "assistant" &&
    typeof value.reasoning === "string" &&
    areRuns(value.runs) &&
    areRuns(value.reasoningRuns) &&
    Array.isArray(value.references) &&
    value.references.every((name) => typeof name === "string") &&
    areFigures(value.figures) &&
    (value.compared === undefined ||
      (areFigures(value.compared.figures) && typeof value.compared.content === "string")) &&
    typeof value.ended === "string"
  );
}

function areRuns(value) {
  return (
    Array.isArray(value) &&
    value.every((run) => typeof run?.[0] === "string" && Number.isSafeInteger(run[1]) && run[1] > 0)
  );
}

function areFigures(value) {
  const names = ["tokens", "timed", "forwards", "drafted", "accepted", "seconds", "wait", "prompt", "cached"];
  return names.every((name) => Number.isFinite(value?.[name]) && value[name] >= 0);
}
