import { parse, quantile, rate, total } from "./metrics.js";
import { followTheme } from "./theme.js";

const PERIOD = 1000; // milliseconds between two looks
const LENGTH = 300; // looks that a graph shows at most
const SHORTEST = 60; // and has room for from the start
const WINDOW = 10; // looks that quantiles are taken over

const at = (id) => document.getElementById(id);
const plain = (digits) => (value) => value.toLocaleString("en", { maximumFractionDigits: digits });
const percent = (value) => `${Math.round(100 * value)} %`;
const time = (value) => (value < 1 ? `${plain(value < 0.01 ? 1 : 0)(1000 * value)} ms` : `${plain(2)(value)} s`);
const name = (short) => `tenfold:${short}`;

const gauge = (short) => ({ now }) => total(now, name(short));
const perSecond = (short) => ({ before, now, seconds }) => rate(before, now, name(short), seconds);
const latency = (short, share) => ({ earlier, now }) => quantile(earlier, now, name(short), share);

const GRAPHS = [
  { title: "Tokens a second", format: plain(0), lines: { output: perSecond("generation_tokens_total"), prompt: perSecond("prompt_tokens_total") } },
  { title: "Requests", format: plain(0), lines: { running: gauge("num_requests_running"), waiting: gauge("num_requests_waiting") } },
  { title: "Time to first token, last 10 s", format: time, lines: { p50: latency("time_to_first_token_seconds", 0.5), p99: latency("time_to_first_token_seconds", 0.99) } },
  { title: "Between two tokens, last 10 s", format: time, lines: { p50: latency("inter_token_latency_seconds", 0.5), p99: latency("inter_token_latency_seconds", 0.99) } },
  { title: "KV cache in use", format: percent, most: 1, lines: { "KV blocks": gauge("kv_cache_usage_perc") } },
  { title: "Prompt tokens found in the prefix cache", format: percent, most: 1, lines: { hits: hits } },
  { title: "Failures a second", format: plain(1), lines: { errors: perSecond("request_errors_total"), "clients gone": perSecond("request_disconnects_total") } },
  { title: "Preemptions a second", format: plain(1), lines: { preemptions: perSecond("num_preemptions_total") } },
];

function hits({ earlier, now }) {
  const asked = total(now, name("prefix_cache_queries_total")) - total(earlier, name("prefix_cache_queries_total"));
  const found = total(now, name("prefix_cache_hits_total")) - total(earlier, name("prefix_cache_hits_total"));
  return asked > 0 && found >= 0 ? found / asked : null;
}

function make(tag, className, text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

class Graph {
  constructor({ title, lines, format, most }) {
    this.format = format;
    this.fixed = most;
    this.box = make("article", "graph");
    this.most = make("div", "most");
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.svg.setAttribute("aria-label", `${title}, over time`);
    const list = make("dl");
    this.lines = Object.entries(lines).map(([label, read], number) => {
      const className = number ? "second" : "first";
      const value = make("dd", "", "–");
      const entry = make("div", className);
      entry.append(make("dt", "", label), value);
      list.append(entry);
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", className);
      this.svg.append(path);
      return { read, value, path, points: [] };
    });
    this.box.append(make("h2", "", title), list, this.most, this.svg);
  }

  add(moment) {
    for (const line of this.lines) {
      const value = line.read(moment);
      line.points.push(value);
      if (line.points.length > LENGTH) line.points.shift();
      line.value.textContent = value === null ? "–" : this.format(value);
    }
    const all = this.lines.flatMap((line) => line.points).filter((value) => value !== null);
    const most = this.fixed ?? Math.max(...all, 0);
    this.most.textContent = all.length ? this.format(most) : "";
    const shown = Math.max(SHORTEST, this.lines[0].points.length);
    this.svg.setAttribute("viewBox", `0 0 ${shown - 1} 100`);
    for (const { path, points } of this.lines) path.setAttribute("d", this.draw(points, shown, most || 1));
  }

  draw(points, shown, most) {
    let drawn = "";
    let up = true; // the pen: nothing is drawn where nothing was measured
    points.forEach((value, number) => {
      if (value === null) up = true;
      else {
        const x = shown - points.length + number;
        drawn += `${up ? "M" : "L"}${x} ${(99 - 97 * Math.min(1, value / most)).toFixed(1)}`;
        if (up) drawn += "h0.5";
        up = false;
      }
    });
    return drawn;
  }
}

followTheme(at("theme"));
const graphs = GRAPHS.map((each) => new Graph(each));
at("graphs").append(...graphs.map((graph) => graph.box));

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", at("key").value);
  at("ask").hidden = true;
});

const seen = []; // {at, scrape} of the last WINDOW looks

async function look() {
  const key = sessionStorage.getItem("key");
  try {
    const response = await fetch("/metrics", { headers: key ? { Authorization: `Bearer ${key}` } : {} });
    if (response.status === 401 || response.status === 403) {
      at("ask").hidden = false;
      at("state").textContent = "needs an API key";
      return;
    }
    if (!response.ok) throw new Error(String(response.status));
    const now = { at: performance.now(), scrape: parse(await response.text()) };
    const before = seen[seen.length - 1];
    if (before) {
      const seconds = (now.at - before.at) / 1000;
      const moment = { before: before.scrape, earlier: seen[0].scrape, now: now.scrape, seconds };
      for (const graph of graphs) graph.add(moment);
    }
    seen.push(now);
    if (seen.length > WINDOW) seen.shift();
    at("state").textContent = "live";
  } catch {
    at("state").textContent = "server not reachable";
  }
}

async function forever() {
  for (;;) {
    if (!document.hidden) await look();
    await new Promise((done) => setTimeout(done, PERIOD));
  }
}
forever();
