// A reply's tokens with their probabilities: the likelier, the paler; hover, tap or focus one for its rivals.

const DECODER = new TextDecoder("utf-8", { fatal: true });

// Groups entries of logprobs.content so that each group is whole characters: a character may be cut between tokens.
export function groups(entries) {
  const found = [];
  let open = null;
  for (const entry of entries) {
    open ??= { bytes: [], entries: [] };
    open.bytes.push(...(entry.bytes ?? new TextEncoder().encode(entry.token)));
    open.entries.push(entry);
    try {
      found.push({ text: DECODER.decode(new Uint8Array(open.bytes)), entries: open.entries });
      open = null;
    } catch {
      // more bytes will come
    }
  }
  if (open) found.push({ text: "\ufffd", entries: open.entries });
  return found;
}

const percent = (logprob) => {
  const share = 100 * Math.exp(logprob);
  return share >= 10 ? `${share.toFixed(0)} %` : share >= 0.1 ? `${share.toFixed(1)} %` : "< 0.1 %";
};

const visible = (text) => text.replace(/\n/g, "⏎").replace(/ /g, "␣") || "(nothing)";

function rivals(entry) {
  const list = document.createElement("ol");
  const top = entry.top_logprobs ?? [];
  const all = top.some((each) => each.token === entry.token) ? top : [...top, entry];
  for (const each of all) {
    const line = document.createElement("li");
    if (each.token === entry.token) line.className = "chosen";
    const name = document.createElement("code");
    name.textContent = visible(each.token);
    const bar = document.createElement("meter");
    bar.max = 1;
    bar.value = Math.exp(each.logprob);
    const share = document.createElement("span");
    share.textContent = percent(each.logprob);
    line.append(name, bar, share);
    list.append(line);
  }
  return list;
}

// One paragraph of the tokens.
export function paragraph(entries) {
  const made = document.createElement("p");
  made.className = "tokens";
  for (const { text, entries: within } of groups(entries)) {
    const token = document.createElement("span");
    token.className = "token";
    token.tabIndex = 0;
    const least = Math.min(...within.map((entry) => entry.logprob));
    token.style.setProperty("--doubt", (1 - Math.exp(least)).toFixed(3));
    token.textContent = text;
    token.setAttribute("aria-label", `${visible(text)}, ${percent(least)}`);
    token.addEventListener("pointerenter", () => open(token, within));
    token.addEventListener("focus", () => open(token, within));
    token.addEventListener("pointerleave", close);
    token.addEventListener("blur", close);
    made.append(token);
  }
  return made;
}

let card = null;

function open(token, entries) {
  close();
  card = document.createElement("div");
  card.className = "rivals";
  card.setAttribute("role", "tooltip");
  card.append(...entries.map(rivals));
  document.body.append(card);
  const place = token.getBoundingClientRect();
  const left = Math.max(8, Math.min(place.left, innerWidth - card.offsetWidth - 8));
  const under = place.bottom + 6 + card.offsetHeight < innerHeight;
  card.style.left = `${left}px`;
  card.style.top = `${under ? place.bottom + 6 : Math.max(8, place.top - card.offsetHeight - 6)}px`;
}

function close() {
  card?.remove();
  card = null;
}
