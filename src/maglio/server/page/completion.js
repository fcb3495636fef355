// Requests to the server, and what it streams back. Knows no document.

/** What the server, or the way to it, said was wrong. */
export class ServerError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** The name of the model that the server runs. */
export async function modelName(key) {
  const response = await fetch("v1/models", { headers: headers(key) });
  if (!response.ok) throw await refusal(response);
  return (await response.json()).data[0].id;
}

/**
 * Ask for an answer, and yield the chunks of it as they come.
 *
 * Aborting `signal` ends it with an AbortError.
 */
export async function* complete(request, { key, signal }) {
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers(key) },
    body: JSON.stringify(request),
    signal,
  }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached. Is it still running?");
  });
  if (!response.ok) throw await refusal(response);
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(chunk.error.message);
    yield chunk;
  }
  throw new ServerError("The server closed the connection before the answer had ended.");
}

/** The data of server-sent events, from the bytes of a response. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await read(reader);
      if (done) return;
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop();
      for (const part of parts) {
        const data = part.split(/\r?\n/).filter((line) => line.startsWith("data:"));
        if (data.length > 0) yield data.map((line) => line.slice(5).trimStart()).join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have failed already, which was reported
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The connection to the server was lost.");
  }
}

async function refusal(response) {
  if (response.status === 401) {
    return new ServerError("The server asks for an API key. Enter it in the settings.", 401);
  }
  const text = await response.text();
  try {
    return new ServerError(JSON.parse(text).error.message, response.status);
  } catch {
    return new ServerError(`The server answered ${response.status}: ${text.slice(0, 200)}`, response.status);
  }
}

function headers(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}
