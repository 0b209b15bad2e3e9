// Elements of the page. Text only ever enters as text, never as HTML.

export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

export function percent(share) {
  if (share > 0 && share < 0.01) return "<1%";
  if (share < 1 && share > 0.99) return ">99%";
  return `${Math.round(100 * share)}%`;
}

export function number(value) {
  return value.toLocaleString("en");
}

export function time(seconds) {
  return new Date(1000 * seconds).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
}

// What a decision says, for people and for screen readers.
export function describeDecision(action, label, classes) {
  if (action === "keep") return "kept";
  if (action === "drop") return "dropped";
  return action === "relabel" ? `now ${classes[label]}` : "undecided";
}

export function card(sample, info) {
  const names = info.classes;
  const label = (kind, tag, k) => element("span", { class: kind }, element("span", { class: "tag" }, tag), element("span", { class: "name" }, names[k]));
  return element(
    "li",
    { role: "option", class: "card", "data-index": sample.index, tabindex: -1 },
    element("span", { class: "tick", "aria-hidden": "true" }),
    element("span", { class: "shown" }, content(sample, info, "thumbnail"), element("span", { class: "state", "aria-hidden": "true" })),
    element("span", { class: "labels", "aria-hidden": "true" }, label("given", "given", sample.given), label("suggested", "→", sample.suggested)),
  );
}

// Bring a card's state up to date.
export function mark(item, sample, info, { selected, active }) {
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
  const decided = sample.waiting ? "saving …" : describeDecision(sample.action, sample.label, names);
  const chosen = sample.action === "keep" ? sample.given : sample.label;
  const largest = Math.max(...sample.classes.map(([, p]) => p), 1e-9);
  const bars = sample.classes.map(([k, p], at) => {
    const bar = element("span", { class: "bar-fill" });
    bar.style.width = `${(100 * p) / largest}%`;
    const role = k === sample.given ? "given" : k === sample.suggested ? "suggested" : "";
    return element(
      "li",
      {},
      element(
        "button",
        { type: "button", class: role, "aria-pressed": String(k === chosen), title: k === sample.given ? "Keep this label" : "This class is right", onclick: () => decide(k) },
        bar,
        element("kbd", {}, String(at + 1)),
        element("span", { class: "name" }, names[k]),
        role ? element("span", { class: "role" }, role) : null,
        element("span", { class: "p" }, percent(p)),
      ),
    );
  });
  const wrong = sample.wrong === null ? "" : `Its label is wrong with a probability of ${percent(sample.wrong)}. `;
  return [
    element("figure", {}, content(sample, info, "picture", text)),
    element(
      "div",
      { class: "about" },
      element("h2", {}, "Labelled ", element("b", {}, names[sample.given]), ". Is it ", element("b", {}, names[sample.suggested]), "?"),
      element("p", { class: `state ${sample.action ?? "undecided"}` }, decided, sample.action && !sample.waiting ? element("span", { class: "by" }, ` by ${sample.reviewer}, ${time(sample.at)}`) : null),
      element("ul", { class: "bars", "aria-label": "Most probable classes: click the right one" }, ...bars),
      element("p", { class: "why" }, sample.tier && !sample.action ? element("span", { class: "badge tier" }, sample.tier) : null, " ", element("span", { class: "badge" }, sample.reason), " ", wrong, sample.why),
      element("p", { class: "note id" }, sample.id),
    ),
  ];
}

// What speaks for either class, beside the sample.
export function drawEvidence({ votes, typical, neighbours, duplicates, columns }, sample, info) {
  const names = info.classes;
  const parts = [];
  if (duplicates.length) parts.push(strip("Nearly the same, with another label", duplicates, info, "duplicates"));
  if (votes.length) {
    const all = votes.reduce((sum, [, n]) => sum + n, 0);
    const text = votes.slice(0, 4).map(([k, n]) => `${n} of ${all} say ${names[k]}`).join(", ");
    parts.push(element("p", { class: "votes" }, element("b", {}, "Members: "), text));
  }
  for (const [name, value, usualGiven, usualSuggested] of columns) {
    parts.push(element("p", { class: "column" }, element("b", {}, name), ` ${value}: usual is ${usualGiven} for ${names[sample.given]}, ${usualSuggested} for ${names[sample.suggested]}`));
  }
  const pairs = [["given", sample.given], ["suggested", sample.suggested]];
  const strips = (rows, title) => {
    const shown = pairs.filter(([side]) => rows[side].length).map(([side, k]) => strip(title(names[k]), rows[side], info, side));
    if (shown.length) parts.push(element("div", { class: "sides" }, ...shown));
  };
  strips(neighbours, (name) => `Most like it: ${name}`);
  strips(typical, (name) => `Typical ${name}`);
  return element("div", { class: "evidence" }, ...parts);
}

// Samples in a row, small, with what was decided about them.
function strip(title, rows, info, kind) {
  const items = rows.map((row) => {
    const decided = row.action ? describeDecision(row.action, row.label, info.classes) : "";
    const label = kind === "duplicates" ? info.classes[row.given] : "";
    return element("li", { title: row.id }, content(row, info, "thumbnail"), label || decided ? element("span", { class: "caption" }, [label, decided].filter(Boolean).join(", ")) : null);
  });
  return element("section", { class: `strip ${kind}` }, element("h3", {}, title), element("ul", { class: `kind-${info.kind}` }, ...items));
}

// The words of a text that speak for either class, marked; text stays text.
export function markWords(box, words) {
  if (!box || !words.length) return;
  const sides = new Map(words);
  const parts = box.textContent.split(/(\p{L}{2,})/u);
  box.replaceChildren(...parts.map((part) => (sides.has(part.toLowerCase()) ? element("mark", { class: sides.get(part.toLowerCase()), title: `speaks for the ${sides.get(part.toLowerCase())} class` }, part) : part)));
}

// The sample itself: a picture, a text or a row.
export function content(sample, info, size, text = sample.preview) {
  if (info.kind === "images") {
    const large = size === "picture";
    const image = element("img", { src: `${size}/${sample.index}`, alt: large ? `Sample ${sample.id}` : "", loading: large ? "eager" : "lazy", decoding: "async", draggable: "false" });
    image.addEventListener("load", () => image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) <= 96));
    return element("span", { class: "picture" }, image);
  }
  if (info.kind === "texts") return element("span", { class: "text" }, text);
  if (info.kind === "table") {
    const rows = text.map(([name, value]) => element("span", { class: "field" }, element("span", { class: "key" }, name), element("span", { class: "value" }, value)));
    return element("span", { class: "row" }, ...rows);
  }
  return element("span", { class: "text none" }, sample.id);
}

// Given classes down, suggested ones across; the classes that are confused most.
export function heatMap(pairs, info, query, choose, most = 12) {
  const weight = new Map();
  for (const [given, suggested, n] of pairs) {
    if (given === suggested) continue;
    for (const k of [given, suggested]) weight.set(k, (weight.get(k) ?? 0) + n);
  }
  const shown = [...weight.keys()].sort((a, b) => weight.get(b) - weight.get(a)).slice(0, most).sort((a, b) => a - b);
  const numbers = new Map(pairs.map(([given, suggested, n]) => [`${given} ${suggested}`, n]));
  const largest = Math.max(1, ...shown.flatMap((i) => shown.map((j) => (i === j ? 0 : (numbers.get(`${i} ${j}`) ?? 0)))));
  const head = element("tr", {}, element("td", {}), ...shown.map((j) => element("th", { scope: "col", title: info.classes[j] }, element("span", {}, info.classes[j]))));
  const rows = shown.map((i) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", title: info.classes[i] }, element("span", {}, info.classes[i])),
      ...shown.map((j) => {
        const n = i === j ? 0 : (numbers.get(`${i} ${j}`) ?? 0);
        if (!n) return element("td", { class: i === j ? "same" : "" });
        const pressed = query.given === String(i) && query.suggested === String(j);
        const label = `given ${info.classes[i]}, suggested ${info.classes[j]}: ${n} ${n === 1 ? "flag" : "flags"}`;
        const cell = element("button", { type: "button", title: label, "aria-label": label, "aria-pressed": String(pressed), onclick: () => choose(i, j, pressed) }, n < 1000 ? String(n) : "");
        const strength = 0.12 + 0.88 * Math.sqrt(n / largest);
        cell.style.setProperty("--strength", `${Math.round(100 * strength)}%`);
        cell.classList.toggle("strong", strength > 0.55);
        return element("td", {}, cell);
      }),
    ),
  );
  const inside = new Set(shown);
  const hidden = pairs.filter(([i, j]) => i !== j && !(inside.has(i) && inside.has(j)));
  const left = hidden.reduce((sum, [, , n]) => sum + n, 0);
  const which = weight.size > shown.length ? `The ${shown.length} most confused of ${number(weight.size)} classes with flags; ${number(left)} flags of other pairs are not shown. ` : "";
  return { table: element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)), note: `${which}Numbers of flags. Click one to see only these.` };
}
