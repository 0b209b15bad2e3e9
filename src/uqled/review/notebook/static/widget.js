// The page of flagged samples in a notebook. Whatever comes from the data is set as text or as the
// address of a picture that the kernel made, never as HTML.

function make(tag, options = {}, ...children) {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...children);
  return element;
}

function showContent(sample) {
  if (sample.picture) {
    const picture = make("img", { alt: sample.id });
    if (sample.picture.startsWith("data:image/")) picture.src = sample.picture;
    return picture;
  }
  if (sample.fields) {
    const rows = sample.fields.map(([name, value]) =>
      make("tr", {}, make("th", { textContent: name }), make("td", { textContent: value })));
    return make("table", {}, ...rows);
  }
  return make("p", { className: "text", textContent: sample.text });
}

function describeDecision(sample, classes) {
  if (sample.action === "relabel") return `relabelled as ${classes[sample.label]}`;
  return { keep: "label kept", drop: "dropped" }[sample.action] ?? "not decided";
}

function showSample(sample, page, send) {
  const { classes } = page;
  const decide = (action, label = null) =>
    send({ kind: "decide", index: sample.index, action, label, version: sample.version });
  const button = (text, action, label = null) => {
    const isChosen = sample.action === action && sample.label === label;
    return make("button", {
      textContent: text,
      type: "button",
      ariaPressed: String(isChosen),
      onclick: () => decide(isChosen ? null : action, isChosen ? null : label),
    });
  };
  const others = make("select", { ariaLabel: "Relabel as another class" });
  others.append(make("option", { textContent: "another class…", value: "" }));
  classes.forEach((name, code) => {
    if (code !== sample.given) others.append(make("option", { textContent: name, value: String(code) }));
  });
  others.onchange = () => others.value !== "" && decide("relabel", Number(others.value));
  const sure = sample.probability === null ? "" : `${Math.round(100 * sample.probability)}% wrong`;
  return make("article", { className: sample.action ?? "open" },
    showContent(sample),
    make("p", { className: "labels" },
      make("b", { textContent: classes[sample.given] }), " → ",
      make("b", { textContent: classes[sample.suggested] })),
    make("p", { className: "soft", textContent: [sample.id, sure, sample.tier].filter(Boolean).join(" · ") }),
    make("p", { className: "decision", textContent: describeDecision(sample, classes) }),
    make("div", { className: "buttons" },
      button(`keep ${classes[sample.given]}`, "keep"),
      ...(sample.suggested === sample.given ? [] :
        [button(`relabel ${classes[sample.suggested]}`, "relabel", sample.suggested)]),
      button("drop", "drop"),
      others));
}

function showPage(page, send) {
  const last = Math.min(page.start + page.size, page.total);
  const step = (text, start, isPossible) =>
    make("button", { textContent: text, type: "button", disabled: !isPossible,
      onclick: () => send({ kind: "page", start }) });
  const header = make("header", {},
    make("span", { textContent: page.total
      ? `${page.start + 1} to ${last} of ${page.total} flagged samples, ${page.decided} decided`
      : "No sample is flagged." }),
    step("previous", page.start - page.size, page.start > 0),
    step("next", page.start + page.size, last < page.total),
    make("button", { textContent: "undo", type: "button", onclick: () => send({ kind: "undo" }) }));
  const parts = [header];
  if (page.error) parts.push(make("p", { className: "error", role: "alert", textContent: page.error }));
  parts.push(make("div", { className: "samples" },
    ...page.samples.map((sample) => showSample(sample, page, send))));
  return parts;
}

function render({ model, el }) {
  const root = make("div", { className: "uqled-review", textContent: "Waiting for the kernel…" });
  const send = (message) => model.send(message);
  const receive = (page) => {
    if (page?.kind === "page") root.replaceChildren(...showPage(page, send));
  };
  model.on("msg:custom", receive);
  el.append(root);
  send({ kind: "page", start: 0 });
  return () => model.off("msg:custom", receive);
}

export default { render };
