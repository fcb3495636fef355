// The page: joins the parts, and answers what the user does.

import { Answering } from "./answering.js";
import { modelName } from "./completion.js";
import { DraftsView } from "./drafts.js";
import { AnswerView, button, make, userMessage } from "./messages.js";
import { References, UnfitFileError } from "./references.js";
import { Settings } from "./settings.js";
import { StoreError, conversations, exported, forget, importFrom, keep, newConversation } from "./store.js";

const byId = (id) => document.getElementById(id);
const log = byId("log");
const message = byId("message");
const drafts = new DraftsView();
const references = new References(insertIntoMessage);
const settings = new Settings();

const INTRODUCTION = "Write a message. Coloured text was drafted from earlier text, and the model confirmed it.";

let conversation = newConversation();
let answering = null; // the answer that is coming, if one is

// Conversations

function openConversation(opened) {
  conversation = opened;
  log.replaceChildren(...conversation.messages.map(shown));
  if (conversation.messages.length === 0) log.append(make("p", "empty", INTRODUCTION));
  showConversations();
  say("");
  complain("");
  log.scrollTop = log.scrollHeight;
}

function shown(said) {
  if (said.role === "user") return userMessage(said);
  const view = answerView(said);
  view.end();
  return view.node;
}

function answerView(answer) {
  return new AnswerView(answer, { showThinking: settings.values.thinking, again: answerAgain });
}

function showConversations() {
  byId("conversation-list").replaceChildren(...conversations().map(conversationItem));
}

function conversationItem(other) {
  const opening = button(other.title, () => leaveFor(other), "name");
  if (other.id === conversation.id) opening.setAttribute("aria-current", "true");
  const deleting = button("×", () => deleteConversation(other));
  deleting.setAttribute("aria-label", `Delete ${other.title}`);
  return make("li", "", opening, deleting);
}

async function leaveFor(other) {
  await answering?.stop();
  openConversation(other);
  showNavigation(false);
  message.focus();
}

async function deleteConversation(other) {
  if (!confirm(`Delete “${other.title}”?`)) return;
  if (other.id === conversation.id) await leaveFor(newConversation());
  forget(other);
  showConversations();
  byId("new-conversation").focus();
}

function downloadConversations() {
  const url = URL.createObjectURL(new Blob([exported()], { type: "application/json" }));
  const link = make("a");
  link.href = url;
  link.download = "maglio-conversations.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

async function importConversations({ target }) {
  await attempt(async () => {
    const count = await importFrom(target.files[0]);
    say(`${count} conversations imported`);
  });
  target.value = "";
  showConversations();
}

// Messages

async function send({ isComparison = false } = {}) {
  const text = message.value.trim();
  if (text === "" || answering) return;
  log.querySelector(".empty")?.remove();
  const said = { role: "user", content: text };
  conversation.messages.push(said);
  log.append(userMessage(said));
  message.value = "";
  fitMessage();
  await answer({ isComparison });
}

async function answerAgain() {
  if (answering) return;
  conversation.messages.pop();
  log.lastElementChild.remove();
  await answer({});
}

async function answer({ isComparison }) {
  complain("");
  const { messages } = conversation;
  answering = new Answering({
    model: byId("model").textContent || "default",
    messages,
    settings: settings.values,
    references: { names: references.names, texts: references.texts },
    drafts,
    onUpdate: () => stayAtEnd(() => view.update()),
    onPlain: (plain) => stayAtEnd(() => view.updatePlain(plain)),
  });
  const view = answerView(answering.answer);
  log.append(view.node);
  log.scrollTop = log.scrollHeight;
  showBusy(true);
  say("Answering");
  const problem = await answering.run({ isComparison });
  const ended = answering.answer;
  answering = null;
  showBusy(false);
  if (ended.content === "" && ended.reasoning === "" && (problem || ended.ended === "stopped")) {
    takeBack(view);
  } else {
    messages.push(ended);
    stayAtEnd(() => view.end());
  }
  say(problem ? "" : ended.content);
  await attempt(async () => keep(conversation));
  if (problem) complain(problem);
  showConversations();
}

/** Nothing came: the message goes back to where it was written, so that it can be sent again. */
function takeBack(view) {
  const said = conversation.messages.pop();
  view.node.previousElementSibling.remove();
  view.node.remove();
  if (message.value === "") message.value = said.content;
  fitMessage();
}

function stayAtEnd(change) {
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  change();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

function insertIntoMessage({ name, text }) {
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)));
  const before = message.value === "" || message.value.endsWith("\n") ? "" : "\n";
  message.value += `${before}${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}\n`;
  fitMessage();
  message.focus();
}

async function addReferences(files) {
  await attempt(() => references.add(files));
  message.focus();
}

/** Do something, and say what is wrong if it cannot be done. */
async function attempt(action) {
  complain("");
  try {
    await action();
  } catch (error) {
    if (!(error instanceof StoreError || error instanceof UnfitFileError)) throw error;
    complain(error.message);
  }
}

// What is shown

function say(text) {
  byId("status").textContent = text;
}

function complain(text) {
  byId("problem").textContent = text;
}

function showBusy(isBusy) {
  log.setAttribute("aria-busy", String(isBusy));
  const hadFocus = document.activeElement === byId("stop");
  byId("send").hidden = isBusy;
  byId("compare").disabled = isBusy;
  byId("stop").hidden = !isBusy;
  if (hadFocus) message.focus();
}

function fitMessage() {
  message.style.height = "auto";
  message.style.height = `${message.scrollHeight + 2}px`;
}

function showNavigation(isOpen) {
  byId("conversations").classList.toggle("open", isOpen);
  byId("show-conversations").setAttribute("aria-expanded", String(isOpen));
}

async function showModel() {
  try {
    byId("model").textContent = await modelName(settings.values.key);
    complain("");
  } catch (error) {
    complain(error.message);
  }
}

// What the user does

const isTouch = matchMedia("(pointer: coarse)").matches;

message.addEventListener("input", fitMessage);
message.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || isTouch) return;
  event.preventDefault();
  send();
});
byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("compare").addEventListener("click", () => send({ isComparison: true }));
byId("stop").addEventListener("click", () => answering?.stop());
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || byId("settings").open) return;
  showNavigation(false);
  answering?.stop();
});

byId("new-conversation").addEventListener("click", () => leaveFor(newConversation()));
byId("show-conversations").addEventListener("click", () => {
  showNavigation(!byId("conversations").classList.contains("open"));
});
byId("export").addEventListener("click", downloadConversations);
byId("import").addEventListener("click", () => byId("import-file").click());
byId("import-file").addEventListener("change", importConversations);
byId("settings").addEventListener("close", showModel);

byId("add-reference").addEventListener("click", () => byId("reference-file").click());
byId("reference-file").addEventListener("change", async ({ target }) => {
  await addReferences([...target.files]);
  target.value = "";
});
addEventListener("dragover", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  byId("drop").hidden = false;
});
addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) byId("drop").hidden = true;
});
addEventListener("drop", (event) => {
  byId("drop").hidden = true;
  if (event.dataTransfer.files.length === 0) return;
  event.preventDefault();
  addReferences([...event.dataTransfer.files]);
});

if (matchMedia("(max-width: 68rem)").matches) byId("drafts").open = false;
if (isTouch) byId("keys").hidden = true;
openConversation(conversation);
showModel();
if (!isTouch) message.focus();
