// A little Markdown as DOM nodes: fenced code, lists, headings, bold, inline code.
// Model text only ever becomes text nodes, so that nothing it writes can run.

export function render(text) {
  const nodes = [];
  const lines = text.split("\n");
  let paragraph = [];
  let list = null;

  const flush = () => {
    const body = paragraph.join("\n").trim();
    if (body) nodes.push(element("p", inline(body)));
    paragraph = [];
    list = null;
  };

  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    const fence = line.match(/^\s*(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/);
    if (fence) {
      flush();
      const code = [];
      while (++at < lines.length && !lines[at].trim().startsWith(fence[1])) code.push(lines[at]);
      nodes.push(codeBlock(code.join("\n"), fence[2]));
      continue;
    }
    const heading = line.match(/^#{1,6}\s+(.+)$/);
    if (heading) {
      flush();
      nodes.push(element("h3", inline(heading[1])));
      continue;
    }
    const item = line.match(/^\s*(?:([-*+])|(\d{1,4})[.)])\s+(.*)$/);
    if (item) {
      const kind = item[1] ? "ul" : "ol";
      if (!list || list.localName !== kind) {
        flush();
        list = document.createElement(kind);
        if (kind === "ol") list.start = Number(item[2]);
        nodes.push(list);
      }
      list.append(element("li", inline(item[3])));
      continue;
    }
    if (list && line.trim() === "") continue;
    if (list) list = null;
    if (line.trim() === "") flush();
    else paragraph.push(line);
  }
  flush();
  return nodes;
}

function inline(text) {
  const nodes = [];
  const pattern = /`([^`\n]+)`|\*\*([^*\n]+)\*\*/g;
  let last = 0;
  for (const match of text.matchAll(pattern)) {
    nodes.push(text.slice(last, match.index));
    nodes.push(element(match[1] !== undefined ? "code" : "strong", [match[1] ?? match[2]]));
    last = match.index + match[0].length;
  }
  nodes.push(text.slice(last));
  return nodes;
}

function codeBlock(code, language) {
  const copy = element("button", ["Copy"]);
  copy.type = "button";
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Not allowed";
    }
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const bar = element("div", [element("span", [language || "code"]), copy]);
  const block = element("figure", [bar, element("pre", [element("code", [code])])]);
  block.className = "code";
  return block;
}

function element(name, children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}
