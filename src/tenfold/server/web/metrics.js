// Prometheus text into numbers, and two moments' numbers into rates and quantiles.

// {name: [{labels: "...", value}]} of a scrape.
export function parse(text) {
  const found = {};
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const match = /^([^{ ]+)(?:\{(.*)\})? (.+)$/.exec(line);
    if (match) (found[match[1]] ??= []).push({ labels: match[2] ?? "", value: Number(match[3]) });
  }
  return found;
}

export function total(scrape, name) {
  return (scrape[name] ?? []).reduce((sum, each) => sum + each.value, 0);
}

// What a counter grew by, a second; null without an earlier scrape, or after a restart.
export function rate(before, now, name, seconds) {
  const grown = total(now, name) - total(before, name);
  return seconds > 0 && grown >= 0 ? grown / seconds : null;
}

// The share-th quantile of what a histogram took in between two scrapes, by a straight line within its bucket; null if
// there was nothing.
export function quantile(before, now, name, share) {
  const edges = (scrape) =>
    new Map((scrape[`${name}_bucket`] ?? []).map(({ labels, value }) => [/le="([^"]+)"/.exec(labels)[1], value]));
  const old = edges(before);
  const grown = [...edges(now)].map(([edge, value]) => [edge === "+Inf" ? Infinity : Number(edge), value - (old.get(edge) ?? 0)]);
  grown.sort((a, b) => a[0] - b[0]);
  const all = grown.length ? grown[grown.length - 1][1] : 0;
  if (!(all > 0)) return null;
  const wanted = share * all;
  let low = 0;
  let below = 0;
  for (const [edge, count] of grown) {
    if (count >= wanted) {
      if (edge === Infinity) return low;
      return low + (edge - low) * ((wanted - below) / Math.max(count - below, 1e-12));
    }
    low = edge;
    below = count;
  }
  return low;
}
