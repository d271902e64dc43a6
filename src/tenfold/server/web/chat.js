import { render } from "./markdown.js";
import { chunks, models } from "./stream.js";
import { followTheme } from "./theme.js";
import { paragraph } from "./tokens.js";

const at = (id) => document.getElementById(id);
const log = at("log");
const input = at("input");
const system = at("system");
const temperature = at("temperature");
const maxTokens = at("max-tokens");
const key = at("key");

let messages = [];
let running = null;

// ---- settings: kept between visits, the key only as long as the tab ----

for (const field of [system, temperature, maxTokens]) {
  const kept = localStorage.getItem(field.id);
  if (kept !== null) field.value = kept;
  field.addEventListener("input", () => localStorage.setItem(field.id, field.value));
}
key.value = sessionStorage.getItem("key") ?? "";
key.addEventListener("input", () => sessionStorage.setItem("key", key.value));
key.addEventListener("change", showModel);

const showTemperature = () => (at("temperature-shown").value = Number(temperature.value).toFixed(2));
temperature.addEventListener("input", showTemperature);
showTemperature();

function showSettings(open) {
  at("settings").hidden = !open;
  at("toggle").setAttribute("aria-expanded", String(open));
}
at("toggle").addEventListener("click", () => showSettings(at("settings").hidden));

followTheme(at("theme"));

const probabilities = at("probabilities");
probabilities.checked = localStorage.getItem("probabilities") === "yes";
probabilities.addEventListener("change", () =>
  localStorage.setItem("probabilities", probabilities.checked ? "yes" : "no"));

async function showModel() {
  try {
    const all = await models(key.value);
    const kept = localStorage.getItem("model");
    at("models").replaceChildren(...all.map(({ id }) => new Option(id, id, false, id === kept)));
    at("choice").hidden = all.length < 2;
    nameModel(all);
    at("models").onchange = () => {
      localStorage.setItem("model", at("models").value);
      nameModel(all);
    };
  } catch (error) {
    at("model").textContent = error.status === 401 ? "needs an API key: see Settings" : "server not reachable";
  }
}

function nameModel(all) {
  const model = all.find(({ id }) => id === at("models").value) ?? all[0];
  at("model").textContent = `${model.id} · ${model.max_model_len.toLocaleString("en")} tokens of context`;
}
showModel();

// ---- messages ----

function make(name, className, ...children) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...children);
  return made;
}

function follow(change) {
  const near = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  change();
  if (near) log.scrollTop = log.scrollHeight;
}

function addMessage(role, text) {
  at("welcome").hidden = true;
  const shown = make("div", "text");
  if (text) shown.textContent = text;
  const box = make("article", `message ${role}`, shown);
  log.append(box);
  log.scrollTop = log.scrollHeight;
  return { box, shown };
}

class Figures {
  constructor(box) {
    this.start = performance.now();
    this.first = null;
    this.last = null;
    this.usage = null;
    this.list = make("dl", "figures");
    this.values = {};
    box.append(this.list);
  }

  take(chunk) {
    const now = performance.now();
    if (chunk.usage && chunk.usage.completion_tokens > 0) {
      if (this.first === null) {
        this.first = now;
        this.early = chunk.usage.completion_tokens;
      }
      if (chunk.choices.length) this.last = now;
      this.usage = chunk.usage;
    }
  }

  show() {
    if (this.usage === null) return;
    const { prompt_tokens, completion_tokens, prompt_tokens_details } = this.usage;
    const seconds = (this.last - this.first) / 1000;
    const later = completion_tokens - this.early;
    if (later > 0 && seconds > 0) this.set("speed", (later / seconds).toFixed(1), "tokens/s");
    this.set("ttft", this.duration(this.first - this.start), "to the first token");
    this.set("reply", String(completion_tokens), completion_tokens === 1 ? "token" : "tokens");
    this.set("prompt", String(prompt_tokens), "in the prompt");
    this.set("cached", String(prompt_tokens_details?.cached_tokens ?? 0), "of them cached");
  }

  duration(ms) {
    return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`;
  }

  set(name, value, unit) {
    if (!this.values[name]) {
      this.values[name] = document.createElement("dd");
      this.list.append(make("div", name, make("dt", "", ""), this.values[name]));
      // A reply's speed comes first, though it is known last.
      if (name === "speed") this.list.prepend(this.list.lastChild);
    }
    this.values[name].textContent = value;
    this.values[name].previousSibling.textContent = unit;
  }
}

async function send(text) {
  const talk = messages; // a new chat starts another
  const question = { role: "user", content: text };
  addMessage("user", text);
  const reply = addMessage("assistant", "");
  reply.box.classList.add("live");
  reply.shown.append(make("p", ""));
  const figures = new Figures(reply.box);
  let content = "";
  const likely = probabilities.checked ? [] : null;
  let thought = "";
  let remark = "";
  let wrong = "";
  let frame = 0;
  const draw = () => {
    frame = 0;
    follow(() => {
      const thoughts = thought && !likely?.length ? [make("p", "thought", thought)] : [];
      const told = likely?.length ? [paragraph(likely)] : content ? render(content) : thought ? [] : [make("p", "")];
      reply.shown.replaceChildren(...thoughts, ...told);
      figures.show();
    });
  };

  running = new AbortController();
  at("send").hidden = true;
  at("stop").hidden = false;
  try {
    const setting = system.value.trim() ? [{ role: "system", content: system.value.trim() }] : [];
    const body = {
      messages: [...setting, ...talk, question],
      temperature: Number(temperature.value),
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    };
    if (at("models").value) body.model = at("models").value;
    if (likely) Object.assign(body, { logprobs: true, top_logprobs: 5 });
    if (Number(maxTokens.value) >= 1) body.max_tokens = Math.floor(Number(maxTokens.value));
    for await (const chunk of chunks(body, key.value, running.signal)) {
      figures.take(chunk);
      for (const choice of chunk.choices) {
        content += choice.delta.content ?? "";
        likely?.push(...(choice.logprobs?.content ?? []));
        thought += choice.delta.reasoning ?? "";
        if (choice.finish_reason === "length") remark = "The reply reached its limit of tokens.";
      }
      if (!frame) frame = requestAnimationFrame(draw);
    }
  } catch (error) {
    if (error.name === "AbortError") remark = "You stopped the reply.";
    else wrong = error.message;
    if (error.status === 401) {
      wrong = key.value
        ? "The server does not accept this API key; check it under Settings."
        : "This server needs an API key; write it under Settings.";
      showSettings(true);
      key.focus();
    }
  }
  cancelAnimationFrame(frame);
  draw();
  running = null;
  reply.box.classList.remove("live");
  follow(() => {
    if (!content && !thought) reply.shown.remove();
    if (remark) reply.box.append(make("p", "remark", remark));
    if (wrong) reply.box.append(make("p", "wrong", wrong));
  });
  // A question without an answer is not part of the talk: the next one would follow it without a turn between.
  if (content) talk.push(question, { role: "assistant", content });
  at("send").hidden = false;
  at("stop").hidden = true;
}

// ---- composing ----

function fit() {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight}px`;
  at("send").disabled = input.value.trim() === "";
}
input.addEventListener("input", fit);
fit();

function submit() {
  const text = input.value.trim();
  if (!text || running) return;
  input.value = "";
  fit();
  send(text);
}

input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
  if (event.key === "Escape" && running) running.abort();
});
at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
at("stop").addEventListener("click", () => running?.abort());
at("new").addEventListener("click", () => {
  running?.abort();
  messages = [];
  for (const message of log.querySelectorAll(".message")) message.remove();
  at("welcome").hidden = false;
  input.focus();
});
for (const idea of at("ideas").children) {
  idea.addEventListener("click", () => {
    if (!running) send(idea.textContent);
  });
}
