// Elements of the page. Text only ever enters as text, never as HTML.

export function makeElement(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

const OUTSIDE_RATIO = 3; // so many times as many flags outside of the heat map as inside: a list says more
const N_LISTED_PAIRS = 12;
// Strengths of a colour from which black on it is easier to read than white in dark, and white than
// black in light: either has a contrast of at least 4.5 to 1 there.
const MIDDLE_STRENGTH = 0.63;
const HIGH_STRENGTH = 0.87;
const LONGEST_NAME = 24; // characters of a name that has room beside the heat map
const TINY_SIDE = 40; // pixels up to which every pixel of a picture is shown as a square: larger ones are told better smoothed
const LEAST_LARGE_SIDE = 320; // of a picture that is looked at alone, whose pixels are squares
const SMALL_SIDE = 128; // pixels up to which a picture is enlarged further

// A name that may be broken behind its separators, where it is too long for a line.
export function breakName(name) {
  return name.split(/(?<=[_\-/.])/).flatMap((part, at) => (at ? [makeElement("wbr"), part] : [part]));
}

export function formatPercent(share) {
  if (share > 0 && share < 0.01) return "<1%";
  if (share < 1 && share > 0.99) return ">99%";
  return `${Math.round(100 * share)}%`;
}

// An interval of shares; one number where both ends look the same.
export function formatRange(low, high) {
  const [from, to] = [formatPercent(low), formatPercent(high)];
  return from === to ? from : `${from} to ${to}`;
}

export function formatNumber(value) {
  return value.toLocaleString("en");
}

export function formatTime(seconds) {
  return new Date(1000 * seconds).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
}

// What a decision says, for people and for screen readers.
export function describeDecision(action, label, classes) {
  if (action === "keep") return "kept";
  if (action === "drop") return "dropped";
  return action === "relabel" ? `now ${classes[label]}` : "undecided";
}

export function makeCard(sample, info) {
  const names = info.classes;
  const label = (kind, tag, k) => makeElement("span", { class: kind }, makeElement("span", { class: "tag" }, tag), makeElement("span", { class: "name" }, ...breakName(names[k])));
  const content = drawContent(sample, info, "thumbnail");
  markColumns(content, sample.telling ?? []);
  const givenLabel = label("given", "given", sample.given);
  const suggestedLabel = sample.suggested === sample.given ? null : label("suggested", "→", sample.suggested);
  // On a picture; of a text or a row it would cover some, and takes the place of what was suggested.
  const decisionText = makeElement("span", { class: "state", "aria-hidden": "true" });
  return makeElement(
    "li",
    { role: "option", class: "card", "data-index": sample.index, tabindex: -1 },
    makeElement("span", { class: "tick", "aria-hidden": "true" }),
    ...(info.kind === "images"
      ? [makeElement("span", { class: "shown" }, content, decisionText), makeElement("span", { class: "labels", "aria-hidden": "true" }, givenLabel, suggestedLabel)]
      : [content, makeElement("span", { class: "labels", "aria-hidden": "true" }, givenLabel, makeElement("span", { class: "answer" }, suggestedLabel, decisionText))]),
  );
}

// Bring a card's state up to date.
export function updateCard(item, sample, info, { selected, active }) {
  const waiting = sample.waiting ?? null;
  const { action, label } = waiting ?? sample;
  item.className = `card ${action ?? "undecided"}${active ? " active" : ""}${waiting ? " waiting" : ""}`;
  item.setAttribute("aria-selected", String(selected));
  item.tabIndex = active ? 0 : -1;
  const text = waiting ? "saving …" : describeDecision(action, label, info.classes);
  item.querySelector(".state").textContent = action || waiting ? text : "";
  item.setAttribute("aria-label", describe(sample, info, text));
}

export function describe(sample, info, text) {
  const by = sample.action ? ` by ${sample.reviewer}` : "";
  return `${sample.id}: given ${info.classes[sample.given]}, suggested ${info.classes[sample.suggested]}, ${sample.reason}, ${text}${by}`;
}

export function drawSingle(sample, info, { content: text, decide }) {
  const names = info.classes;
  const decisionText = sample.waiting ? "saving …" : describeDecision(sample.action, sample.label, names);
  const chosenClass = sample.action === "keep" ? sample.given : sample.label;
  const largest = Math.max(...sample.classes.map(([, p]) => p), 1e-9);
  const bars = sample.classes.map(([k, p], at) => {
    const bar = makeElement("span", { class: "bar-fill" });
    bar.style.width = `${(100 * p) / largest}%`;
    const role = k === sample.given ? "given" : k === sample.suggested ? "suggested" : "";
    return makeElement(
      "li",
      {},
      makeElement(
        "button",
        { type: "button", class: role, "aria-pressed": String(k === chosenClass), title: k === sample.given ? "Keep this label" : "This class is right", onclick: () => decide(k) },
        bar,
        makeElement("kbd", {}, String(at + 1)),
        makeElement("span", { class: "name" }, ...breakName(names[k])),
        role ? makeElement("span", { class: "role" }, role) : null,
        makeElement("span", { class: "p" }, formatPercent(p)),
      ),
    );
  });
  const errorText = sample.wrong === null ? "" : `Its label is wrong with a probability of ${formatPercent(sample.wrong)}. `;
  return [
    makeElement("figure", {}, drawContent(sample, info, "picture", text)),
    makeElement(
      "div",
      { class: "about" },
      makeElement("h2", {}, "Labelled ", makeElement("b", {}, ...breakName(names[sample.given])), ...(sample.suggested === sample.given ? [". Is that right?"] : [". Is it ", makeElement("b", {}, ...breakName(names[sample.suggested])), "?"])),
      makeElement("p", { class: `state ${sample.action ?? "undecided"}`, hidden: !sample.action && !sample.waiting }, decisionText, sample.action && !sample.waiting ? makeElement("span", { class: "by" }, ` by ${sample.reviewer}, ${formatTime(sample.at)}`) : null),
      makeElement("ul", { class: "bars", "aria-label": "Most probable classes: click the right one" }, ...bars),
      makeElement("p", { class: "why" }, sample.tier && sample.tier !== sample.reason && !sample.action ? makeElement("span", { class: "badge tier" }, sample.tier) : null, " ", makeElement("span", { class: "badge" }, sample.reason), " ", errorText, ...breakName(sample.why)),
      makeElement("p", { class: "note id" }, /^\d+$/.test(sample.id) ? `sample ${sample.id}` : sample.id),
    ),
  ];
}

// What speaks for either class, beside the sample.
export function drawEvidence({ votes, typical, neighbours, duplicates, is_exact, columns, other }, sample, info) {
  const names = info.classes;
  const parts = [];
  if (duplicates.length) parts.push(drawStrip(`${is_exact ? "The same" : "Nearly the same"}, with another label`, duplicates, info, "duplicates"));
  if (votes.length) {
    const nVotes = votes.reduce((sum, [, n]) => sum + n, 0);
    const lines = votes.slice(0, 4).map(([k, n, who]) => makeElement("li", {}, makeElement("b", {}, ...breakName(names[k])), ` ${n} of ${nVotes} votes`, who.length ? makeElement("span", { class: "note" }, ` ${who.join(", ")}`) : null));
    parts.push(makeElement("section", { class: "votes" }, makeElement("h3", {}, "How the members vote"), makeElement("ul", {}, ...lines)));
  }
  if (columns.length) {
    const cell = (tag, content, scope) => makeElement(tag, scope ? { scope } : {}, ...[content].flat());
    const head = makeElement("tr", {}, cell("th", "Unusual for its label", "col"), cell("th", "value", "col"), ...[sample.given, sample.suggested].map((k) => cell("th", ["usual ", ...breakName(names[k])], "col")));
    const rows = columns.map(([name, ...values]) => makeElement("tr", {}, cell("th", name, "row"), ...values.map((value) => cell("td", value.replace("% have it", "%\u00a0have\u00a0it")))));
    parts.push(makeElement("table", { class: "unusual" }, makeElement("thead", {}, head), makeElement("tbody", {}, ...rows)));
  }
  const pairs = [["given", sample.given], ["suggested", other]];
  const strips = (rows, title) => {
    const sections = pairs.filter(([side]) => rows[side].length).map(([side, k]) => drawStrip([title, ...breakName(names[k])], rows[side], info, side));
    if (sections.length) parts.push(makeElement("div", { class: "sides" }, ...sections));
  };
  strips(neighbours, "Most like it: ");
  strips(typical, "Typical ");
  return makeElement("div", { class: "evidence" }, ...parts);
}

// Samples in a row, small, with what was decided about them; a click opens one, where `open` is given.
export function drawStrip(title, rows, info, kind, open = null) {
  const items = rows.map((row) => {
    const decisionText = row.action ? describeDecision(row.action, row.label, info.classes) : row.flagged ? (kind === "odd" ? "suspect" : "suspect too") : "";
    const label = kind === "duplicates" ? info.classes[row.given] : "";
    const caption = label || decisionText ? makeElement("span", { class: "caption" }, ...breakName([label, decisionText].filter(Boolean).join(", "))) : null;
    const content = drawContent(row, info, "thumbnail");
    markColumns(content, row.telling ?? []);
    const parts = [content, caption];
    if (!open) return makeElement("li", { title: row.id }, ...parts);
    return makeElement("li", {}, makeElement("button", { type: "button", class: "open", title: row.id, "aria-label": `Open ${row.id}`, onclick: () => open(row.index) }, ...parts));
  });
  return makeElement("section", { class: `strip ${kind}` }, makeElement("h3", {}, ...[title].flat()), makeElement("ul", { class: `kind-${info.kind}` }, ...items));
}

// The words of a text that speak for either class, marked; text stays text.
export function markWords(box, words) {
  if (!box || !words.length) return;
  const sides = new Map(words);
  const parts = box.textContent.split(/(\p{L}{2,}(?:['’]\p{L}+)*)/u);
  box.replaceChildren(...parts.map((part) => (sides.has(part.toLowerCase()) ? makeElement("mark", { class: sides.get(part.toLowerCase()), title: `speaks for the ${sides.get(part.toLowerCase())} class` }, part) : part)));
}

// The sample itself: a picture, a text or a row.
export function drawContent(sample, info, size, text = sample.preview) {
  if (info.kind === "images") {
    const isLarge = size === "picture";
    const image = makeElement("img", { src: `${size}/${sample.index}`, alt: isLarge ? `Sample ${sample.id}` : "", loading: isLarge ? "eager" : "lazy", decoding: "async", draggable: "false" });
    image.addEventListener("load", () => {
      const side = Math.max(image.naturalWidth, image.naturalHeight);
      image.classList.toggle("small", side <= TINY_SIDE);
      // A picture that is enlarged much further is a blur: Z does that for those who want it.
      const most = side <= TINY_SIDE ? LEAST_LARGE_SIDE / side : side <= SMALL_SIDE ? 6 : 2;
      if (isLarge) image.style.setProperty("--most", `${most * image.naturalWidth}px`);
    });
    return makeElement("span", { class: "picture" }, image);
  }
  if (info.kind === "texts") return makeElement("span", { class: "text" }, text);
  if (info.kind === "table") {
    const rows = text.map(([name, value]) => makeElement("span", { class: "field" }, makeElement("span", { class: "key" }, name), makeElement("span", { class: "value" }, value)));
    return makeElement("span", { class: "row" }, ...rows);
  }
  return makeElement("span", { class: "text none" }, sample.id);
}

// The columns of a row that are unusual for its label, marked.
export function markColumns(box, names) {
  const unusualNames = new Set(names);
  for (const field of box?.querySelectorAll(".field") ?? []) field.classList.toggle("telling", unusualNames.has(field.querySelector(".key").textContent));
}

// Where a table of some classes would be empty, or their names have no room: the most frequent pairs.
function listPairs(pairs, info, query, choose) {
  const frequentPairs = pairs.filter(([i, j]) => i !== j).slice(0, N_LISTED_PAIRS);
  const items = frequentPairs.map(([i, j, n]) => {
    const isPressed = query.given === String(i) && query.suggested === String(j);
    const label = `given ${info.classes[i]}, suggested ${info.classes[j]}: ${n} ${n === 1 ? "flag" : "flags"}`;
    return makeElement("li", {}, makeElement("button", { type: "button", "aria-label": label, "aria-pressed": String(isPressed), onclick: () => choose(i, j, isPressed) }, makeElement("span", {}, ...breakName(info.classes[i]), " → ", makeElement("b", {}, ...breakName(info.classes[j]))), makeElement("span", { class: "p" }, formatNumber(n))));
  });
  return { table: makeElement("ul", { class: "pair-list" }, ...items), note: "The most frequent pairs of classes. Click one to see only these flags." };
}

// Given classes down, suggested ones across; the classes that are confused most.
export function drawHeatMap(pairs, info, query, choose, nClasses = 12) {
  const weight = new Map();
  let total = 0;
  for (const [given, suggested, n] of pairs) {
    if (given === suggested) continue;
    total += n;
    for (const k of [given, suggested]) weight.set(k, (weight.get(k) ?? 0) + n);
  }
  const listedClasses = [...weight.keys()].sort((a, b) => weight.get(b) - weight.get(a)).slice(0, nClasses).sort((a, b) => a - b);
  const numbers = new Map(pairs.map(([given, suggested, n]) => [`${given} ${suggested}`, n]));
  const largest = Math.max(1, ...listedClasses.flatMap((i) => listedClasses.map((j) => (i === j ? 0 : (numbers.get(`${i} ${j}`) ?? 0)))));
  const head = makeElement("tr", {}, makeElement("td", {}), ...listedClasses.map((j) => makeElement("th", { scope: "col", title: info.classes[j] }, makeElement("span", {}, info.classes[j]))));
  const rows = listedClasses.map((i) =>
    makeElement(
      "tr",
      {},
      makeElement("th", { scope: "row", title: info.classes[i] }, makeElement("span", {}, ...breakName(info.classes[i]))),
      ...listedClasses.map((j) => {
        const n = i === j ? 0 : (numbers.get(`${i} ${j}`) ?? 0);
        if (!n) return makeElement("td", { class: i === j ? "same" : "" });
        const isPressed = query.given === String(i) && query.suggested === String(j);
        const label = `given ${info.classes[i]}, suggested ${info.classes[j]}: ${n} ${n === 1 ? "flag" : "flags"}`;
        const cell = makeElement("button", { type: "button", title: label, "aria-label": label, "aria-pressed": String(isPressed), onclick: () => choose(i, j, isPressed) }, n < 1000 ? String(n) : "");
        const strength = 0.12 + 0.88 * Math.sqrt(n / largest);
        cell.style.setProperty("--strength", `${Math.round(100 * strength)}%`);
        cell.classList.toggle("middling", strength > MIDDLE_STRENGTH);
        cell.classList.toggle("strong", strength > HIGH_STRENGTH);
        return makeElement("td", {}, cell);
      }),
    ),
  );
  const listedSet = new Set(listedClasses);
  const otherPairs = pairs.filter(([i, j]) => i !== j && !(listedSet.has(i) && listedSet.has(j)));
  const nOutside = otherPairs.reduce((sum, [, , n]) => sum + n, 0);
  const isLong = listedClasses.some((k) => info.classes[k].length > LONGEST_NAME);
  if (isLong || nOutside > OUTSIDE_RATIO * (total - nOutside)) return listPairs(pairs, info, query, choose);
  const scopeText = weight.size > listedClasses.length ? `The ${listedClasses.length} most confused of ${formatNumber(weight.size)} classes with flags; ${formatNumber(nOutside)} flags of other pairs are not shown. ` : "";
  return { table: makeElement("table", {}, makeElement("thead", {}, head), makeElement("tbody", {}, ...rows)), note: `${scopeText}Given classes down, suggested ones across. Click a number to see only these flags.` };
}
