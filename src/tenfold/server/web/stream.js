// Asks the server for a chat and hands out its chunks as they arrive.

export class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export async function* chunks(body, key, signal) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch("/v1/chat/completions", { method: "POST", headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached. Is it still running?", 0);
  }
  if (!response.ok) throw new ServerError(await sentence(response), response.status);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      pending += value;
      const events = pending.split("\n\n");
      pending = events.pop();
      for (const event of events) {
        const data = event.replace(/^data: /, "");
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new ServerError(chunk.error.message, 500);
        yield chunk;
      }
    }
  } catch (error) {
    if (error instanceof ServerError || error.name === "AbortError") throw error;
    throw new ServerError("The connection to the server broke off.", 0);
  }
  throw new ServerError("The server ended the reply before it was done.", 0);
}

export async function models(key) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const response = await fetch("/v1/models", { headers });
  if (!response.ok) throw new ServerError(await sentence(response), response.status);
  return (await response.json()).data;
}

async function sentence(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered with status ${response.status}.`;
  }
}
