// The page: what is shown, what is chosen, and what keys and buttons do.

import { ask } from "./api.js";
import { pickClass, pickForAll, settle, showHelp } from "./dialogs.js";
import { card, decision, described, element, heatMap, mark, number, single } from "./drawing.js";
import { follow } from "./outlook.js";
import { Saver } from "./saving.js";

const find = (id) => document.getElementById(id);
const FILTERS = ["state", "reason", "given", "suggested", "order", "method"];
const SIZE = 100; // samples on a page
const LOOK = 4000; // milliseconds between looks at what others decided

let info = null; // what the server says of the run and the method
let asked = { order: "suspect" }; // filters
let samples = []; // of this page
let total = 0; // matching the filters
let open = 0; // of them, undecided when the list was loaded
let before = 0; // of them, on earlier pages
let active = 0; // place in samples
let anchor = null; // where a range of selected samples begins
let selected = new Set(); // indices
let view = "grid";
let loading = 0; // number of the last request for a list
let byMouse = false; // the last thing done
let known = 0; // number of the last change seen by looking

const tab = sessionStorage.getItem("tab") ?? crypto.getRandomValues(new Uint32Array(2)).join("-");
sessionStorage.setItem("tab", tab);

const saver = new Saver(
  () => ({ reviewer: reviewer(), tab, method: info.method, worth: Number(find("worth").value) }),
  {
    saved(answer, items) {
      learn(answer.decided, true);
      showProgress(answer);
      const said = new Set(answer.decided.map((row) => decision(row.action, row.label, info.classes)));
      const what = items.length === 1 ? nameOf(items[0].index) : `${items.length} samples`;
      tell(`Saved: ${what} ${[...said].slice(0, 3).join(", ")}`, false);
    },
    savedAll(answer) {
      tell(`Saved: ${number(answer.number_decided)} samples`, true);
      load();
    },
    undone(answer) {
      learn(answer.undone, false);
      showProgress(answer);
      const rows = answer.undone;
      if (answer.number_undone > SIZE) load({ from: samples[0]?.place ?? 0 });
      if (!rows.length) return tell("Nothing to take back in this tab", true);
      const place = samples.findIndex((sample) => sample.index === rows[0].index);
      if (place >= 0) activate(place);
      const now = decision(rows[0].action, rows[0].label, info.classes);
      tell(rows.length === 1 ? `Taken back: ${nameOf(rows[0].index)} is ${now} again` : `Taken back: ${number(answer.number_undone)} decisions`, true);
    },
    conflict: (now, items) => settle(now, items, nameOf, info.classes),
    learnt: (now) => learn(now, true),
    failed(text, items) {
      for (const sample of samples) if (items.some((item) => item.index === sample.index)) sample.waiting = null;
      samples.forEach(redraw);
      showSingle();
      tell(`Not saved: ${text}`, true);
    },
    trouble(text, waiting) {
      find("trouble").hidden = text === null;
      if (text === null) return;
      const what = waiting === 1 ? "1 decision is" : `${waiting} decisions are`;
      find("trouble").firstElementChild.textContent = `${what} not saved yet: ${text}.`;
    },
  },
);

// ---- what is shown

async function load({ from = null, previous = null, index = null, last = false } = {}) {
  const mine = ++loading;
  const query = { ...asked, method: info.method, size: SIZE, worth: find("worth").value };
  if (previous !== null) query.before = previous;
  else if (from !== null) query.from = from;
  const answer = await ask("api/samples", query);
  if (mine !== loading) return; // another list was asked for meanwhile
  ({ samples, total, before, undecided: open } = answer);
  const place = samples.findIndex((sample) => sample.index === index);
  active = place >= 0 ? place : last ? Math.max(0, samples.length - 1) : 0;
  selected = new Set();
  anchor = null;
  find("list").className = `list kind-${info.kind}`;
  find("list").replaceChildren(...samples.map((sample) => card(sample, info)));
  samples.forEach(redraw);
  showProgress(answer);
  show();
  window.scrollTo(0, 0);
  if (byMouse && document.activeElement.matches("select")) document.activeElement.blur(); // keys decide again
  activate(active);
}

// A method's flags are another list with other counts.
async function start(method) {
  info = await ask("api/start", { method, worth: find("worth").value });
  known = Math.max(known, info.number);
  fill(find("filters").elements.method, Object.entries(info.methods).map(([name, n]) => [name, `${name} (${number(n)})`]));
  find("filters").elements.method.value = info.method;
  const { given, suggested, reasons } = info.overview;
  const listed = (counts) => [["", "any class"], ...info.classes.map((name, k) => [k, `${name} (${number(counts[k])})`]).filter(([k]) => counts[k])];
  fill(find("filters").elements.given, listed(given));
  fill(find("filters").elements.suggested, listed(suggested));
  fill(find("filters").elements.reason, [["", "any reason"], ...info.reasons.map((name, at) => [name, `${name} (${number(reasons[at])})`])]);
  if (!reviewer()) find("reviewer").value = info.reviewer;
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
}

function show() {
  find("list").hidden = view !== "grid";
  find("single").hidden = view !== "single";
  document.body.classList.toggle("one", view === "single");
  find("as-grid").setAttribute("aria-pressed", String(view === "grid"));
  find("as-single").setAttribute("aria-pressed", String(view === "single"));
  const none = samples.length === 0;
  find("empty").hidden = !none;
  if (none) {
    find("list").hidden = find("single").hidden = true;
    find("empty").textContent = info.counts.flagged === 0 ? "This method flags no sample: there is nothing to review." : allOfQueue() ? "All of these are decided. Choose “Show all” to see every flag." : "No flag fits these filters. Choose “Show all” to see every flag.";
  }
  for (const name of FILTERS) find("filters").elements[name].value = asked[name] ?? (name === "method" ? info.method : "");
  const filtered = ["state", "reason", "given", "suggested"].some((name) => asked[name]);
  find("filtered").hidden = !filtered;
  find("all").disabled = open === 0;
  find("clear").disabled = !filtered && asked.order === "suspect";
  const choose = (i, j, pressed) => filter(pressed ? { given: "", suggested: "" } : { given: String(i), suggested: String(j) });
  find("pairs").replaceChildren(heatMap(info.overview.pairs, info, asked, choose));
  find("pairs-box").hidden = info.overview.pairs.length === 0;
  find("list").setAttribute("aria-label", asked.order === "suspect" ? "Flagged samples, most suspect first" : "Flagged samples in random order");
}

// Whether nothing is left of those chosen at random.
function allOfQueue() {
  return asked.order === "hundred" && asked.state === "undecided" && !["reason", "given", "suggested"].some((name) => asked[name]);
}

function showWhere() {
  const many = selected.size;
  const to = before + samples.length;
  const position = view === "single" ? number(before + active + 1) : `${number(before + 1)}–${number(to)}`;
  find("where").textContent = samples.length ? `${position} of ${number(total)}` : "";
  const one = view === "single";
  find("previous").disabled = one ? before + active === 0 : before === 0;
  find("next").disabled = one ? before + active + 1 >= total : to >= total;
  for (const button of find("actions").children) button.disabled = samples.length === 0;
  const sample = samples[active];
  find("accepted").textContent = many || !sample ? "suggestion" : info.classes[sample.suggested];
  find("chosen").textContent = many ? `${many} selected` : sample ? `${info.classes[sample.given]} → ${info.classes[sample.suggested]}?` : "";
  find("chosen").classList.toggle("many", many > 0);
}

function showProgress({ counts, advice, number: change }) {
  follow(info.method, change);
  info.counts = counts;
  const { flagged, undecided } = counts;
  const decided = flagged - undecided;
  const bar = find("progress");
  bar.setAttribute("aria-valuemax", flagged);
  bar.setAttribute("aria-valuenow", decided);
  bar.setAttribute("aria-valuetext", `${decided} of ${flagged} decided`);
  for (const part of bar.children) part.style.width = `${(100 * counts[part.className]) / Math.max(1, flagged)}%`;
  const part = (name, n, text) => element("span", { class: `count ${name}` }, element("b", {}, number(n)), ` ${text}`);
  find("counts").replaceChildren(
    part("decided", decided, `of ${number(flagged)} decided`),
    part("relabel", counts.relabel, "relabelled"),
    part("drop", counts.drop, "dropped"),
    part("keep", counts.keep, "kept"),
  );
  const verdicts = { begin: "Begin", "go on": "Go on", "accept in bulk": "Decide many at once", stop: "You can stop", done: "All decided" };
  find("verdict").textContent = verdicts[advice.verdict];
  find("verdict").className = `verdict ${advice.verdict.replaceAll(" ", "-")}`;
  const [share, ...rest] = advice.text;
  find("share").textContent = share;
  find("conclusion").textContent = rest.pop() ?? "";
  find("advice").replaceChildren(...rest.map((sentence) => element("li", {}, sentence)));
  find("advice-more").hidden = rest.length === 0;
}

const contents = new Map(); // texts and rows at full length, by index

async function showSingle() {
  const sample = samples[active];
  if (view !== "single" || !sample) return;
  const draw = (content) => find("single").replaceChildren(...single(sample, info, { content, decide: (k) => decide("relabel", k) }));
  if (info.kind === "images" || info.kind === "none") {
    draw(null);
    const next = samples[active + 1];
    if (next && info.kind === "images") new Image().src = `picture/${next.index}`;
    return;
  }
  draw(contents.get(sample.index) ?? sample.preview);
  if (contents.has(sample.index)) return;
  contents.set(sample.index, (await ask(`api/sample/${sample.index}`)).content);
  if (samples[active] === sample && view === "single") draw(contents.get(sample.index));
}

function redraw(sample) {
  const place = samples.indexOf(sample);
  const item = find("list").children[place];
  if (item) mark(item, sample, info, { selected: selected.has(sample.index), active: place === active });
}

function activate(place) {
  if (!samples.length) return showWhere();
  const was = samples[active];
  active = place;
  if (was) redraw(was);
  redraw(samples[active]);
  showWhere();
  remember();
  if (view === "single") {
    showSingle();
    const sample = samples[active];
    if (!document.querySelector("dialog[open]")) find("single").focus({ preventScroll: true });
    find("status").textContent = described(sample, info, decision(sample.action, sample.label, info.classes));
    return;
  }
  const item = find("list").children[active];
  if (!document.querySelector("dialog[open]") && !isTyping(document.activeElement)) item.focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

// Rows from the server: newer decisions on samples of this page, mine or somebody else's.
function learn(rows, settled) {
  for (const row of rows) {
    const sample = samples.find((one) => one.index === row.index);
    if (!sample || row.version < sample.version) continue;
    Object.assign(sample, row);
    const later = saver.queue.slice(1).some((step) => step.items?.some((item) => item.index === row.index));
    if (settled && !later) sample.waiting = null;
    redraw(sample);
    if (samples[active] === sample) showSingle();
  }
}

async function look() {
  if (document.hidden || !info) return;
  try {
    const answer = await ask("api/changes", { after: known, method: info.method, worth: find("worth").value });
    known = answer.number;
    if (answer.many) await load({ from: samples[0]?.place ?? 0, index: samples[active]?.index });
    else if (answer.changed.length) {
      learn(answer.changed, false);
      showProgress(answer);
    }
  } catch {
    // The next decision will say that the server does not answer.
  }
}

// ---- what is chosen

function filter(change) {
  asked = { ...asked, ...change };
  return load();
}

function targets() {
  return selected.size ? samples.filter((sample) => selected.has(sample.index)) : samples.slice(active, active + 1);
}

function decide(action, label = null) {
  const chosen = targets();
  if (!chosen.length) return;
  const items = chosen.map((sample) => {
    const k = action === "accept" ? sample.suggested : label;
    if (action !== "accept" && action !== "relabel") return { index: sample.index, action, label: null, version: sample.version };
    return { index: sample.index, action: k === sample.given ? "keep" : "relabel", label: k === sample.given ? null : k, version: sample.version };
  });
  chosen.forEach((sample, at) => (sample.waiting = items[at]));
  const last = samples.indexOf(chosen[chosen.length - 1]);
  const many = selected.size > 0;
  select([]);
  chosen.forEach(redraw);
  saver.decide(items);
  if (many && last + 1 >= samples.length) activate(last);
  else move(last + 1);
}

async function decideOther() {
  const k = await pickClass(info.classes, info.digits);
  if (k !== null) decide("relabel", k);
  else activate(active);
}

async function decideAll() {
  const names = [];
  if (asked.given) names.push(`given ${info.classes[asked.given]}`);
  if (asked.suggested) names.push(`suggested ${info.classes[asked.suggested]}`);
  if (asked.reason) names.push(asked.reason);
  if (asked.order === "hundred") names.push("of 100 at random");
  const { undecided } = await ask("api/samples", { ...asked, state: "undecided", method: info.method, size: 1 });
  const which = names.length ? ` (${names.join(", ")})` : "";
  const action = undecided ? await pickForAll(`${number(undecided)} undecided ${undecided === 1 ? "flag" : "flags"} of ${info.method}${which}.`) : null;
  if (!undecided) tell("All of these are decided", true);
  if (action === null) return activate(active);
  const filters = Object.fromEntries(["given", "suggested", "reason", "order"].filter((name) => asked[name]).map((name) => [name, asked[name]]));
  saver.decideAll({ action, number: undecided, ...filters });
}

// To a place on this page, or over its end to the next one.
function move(place) {
  if (place < 0) return before > 0 ? load({ previous: samples[0].place, last: true }) : activate(0);
  if (place < samples.length) return activate(place);
  if (before + samples.length < total) return load({ from: samples[samples.length - 1].place + 1 });
  return activate(samples.length - 1);
}

function select(indices) {
  const was = selected;
  selected = new Set(indices);
  samples.filter((sample) => was.has(sample.index) !== selected.has(sample.index)).forEach(redraw);
  showWhere();
}

function selectRange(place) {
  anchor ??= active;
  const [first, last] = [Math.min(anchor, place), Math.max(anchor, place)];
  select(samples.slice(first, last + 1).map((sample) => sample.index));
}

function toggle(place) {
  const { index } = samples[place];
  anchor = place;
  select(selected.has(index) ? [...selected].filter((one) => one !== index) : [...selected, index]);
}

function setView(wanted) {
  view = wanted;
  select([]);
  show();
  activate(active);
}

function perRow() {
  const items = [...find("list").children];
  const row = items.findIndex((item) => item.offsetTop !== items[0].offsetTop);
  return row < 0 ? items.length : row;
}

function turn(direction) {
  if (view === "single") return move(active + direction);
  if (direction > 0) return load({ from: samples[samples.length - 1].place + 1 });
  return load({ previous: samples[0].place });
}

// ---- keys

const isTyping = (target) => target?.matches?.("input, select, textarea");

function key(event) {
  if (document.querySelector("dialog[open]") || isTyping(event.target)) return;
  const letter = /^[a-z]$/i.test(event.key) || !event.code.startsWith("Key") ? event.key.toLowerCase() : event.code.slice(3).toLowerCase();
  const ctrl = event.ctrlKey || event.metaKey;
  if (event.altKey) return;
  if (ctrl) {
    if (letter === "z" && !event.shiftKey) saver.undo();
    else if (letter === "a" && view === "grid") select(samples.map((sample) => sample.index));
    else return;
    return event.preventDefault();
  }
  const onButton = event.target.matches("button, summary, a");
  const arrows = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: view === "grid" ? perRow() : 1, ArrowUp: view === "grid" ? -perRow() : -1 };
  if (letter === "?") showHelp(info.classes, info.digits);
  else if (!samples.length) return;
  else if (letter === "q") decide("keep");
  else if (letter === "w") decide("accept");
  else if (letter === "e") decide("drop");
  else if (letter === "n") decide(null);
  else if (letter === "c" || letter === "/") decideOther();
  else if (event.key in info.digits) decide("relabel", info.digits[event.key]);
  else if (event.key in arrows) {
    const place = active + arrows[event.key];
    if (event.shiftKey && view === "grid") {
      const within = Math.max(0, Math.min(samples.length - 1, place));
      selectRange(within);
      activate(within);
    } else {
      anchor = null;
      if (Math.abs(arrows[event.key]) > 1 && place < 0 && before === 0) return;
      move(place);
    }
  } else if (event.key === "Home") activate(0);
  else if (event.key === "End") activate(samples.length - 1);
  else if (event.key === "PageDown" && before + samples.length < total) turn(1);
  else if (event.key === "PageUp" && before > 0) turn(-1);
  else if (event.key === " " && view === "grid" && !onButton) toggle(active);
  else if (event.key === "Enter" && view === "grid" && !onButton) setView("single");
  else if (event.key === "Escape" && selected.size) select([]);
  else if (event.key === "Escape" && view === "single") setView("grid");
  else return;
  event.preventDefault();
}

function click(event) {
  const item = event.target.closest(".card");
  if (!item) return;
  const place = [...find("list").children].indexOf(item);
  if (event.shiftKey) selectRange(place);
  else if (event.target.closest(".tick") || event.ctrlKey || event.metaKey) toggle(place);
  else anchor = null;
  activate(place);
}

// ---- small things

function reviewer() {
  return find("reviewer").value.trim();
}

function nameOf(index) {
  return samples.find((sample) => sample.index === index)?.id ?? `sample ${index}`;
}

let toasting = null;
function tell(text, visibly) {
  find("status").textContent = text;
  if (!visibly) return;
  find("toast").textContent = text;
  find("toast").hidden = false;
  clearTimeout(toasting);
  toasting = setTimeout(() => (find("toast").hidden = true), 3000);
}

// The place survives a reload; what follows the # is not sent anywhere.
function remember() {
  const place = { ...asked, view, from: samples[0]?.place ?? 0, sample: samples[active]?.index ?? "" };
  const given = Object.entries(place).filter(([, value]) => value !== "" && value != null);
  history.replaceState(null, "", `#${new URLSearchParams(given)}`);
}

async function begin() {
  const place = new URLSearchParams(location.hash.slice(1));
  find("reviewer").value = localStorage.getItem("reviewer") ?? "";
  find("worth").value = localStorage.getItem("worth") ?? "0.1";
  if (!find("worth").value) find("worth").value = "0.1";
  if (window.matchMedia("(max-width: 900px)").matches) for (const box of ["outlook-box", "advice-box", "filter-box"]) find(box).open = false;
  try {
    await start(place.get("method"));
  } catch {
    await start(null);
  }
  for (const name of FILTERS) if (place.get(name)) asked[name] = place.get(name);
  if (asked.method !== info.method) delete asked.method;
  view = place.get("view") === "single" ? "single" : "grid";
  try {
    await load({ from: Number(place.get("from")) || 0, index: Number(place.get("sample") ?? -1) });
  } catch {
    asked = { order: "suspect" };
    await load();
  }
  if (!localStorage.getItem("helped")) {
    localStorage.setItem("helped", "yes");
    showHelp(info.classes, info.digits);
  }
  setInterval(look, LOOK);
}

document.addEventListener("pointerdown", () => (byMouse = true), true);
document.addEventListener("keydown", () => (byMouse = false), true);
document.addEventListener("keydown", key);
document.addEventListener("visibilitychange", look);
find("list").addEventListener("click", click);
find("list").addEventListener("dblclick", (event) => event.target.closest(".card") && !event.target.closest(".tick") && setView("single"));
find("actions").addEventListener("click", (event) => {
  const action = event.target.closest("button")?.dataset.action;
  if (action === "other") decideOther();
  else if (action) decide(action === "undecided" ? null : action);
});
find("filters").addEventListener("change", async (event) => {
  const { name, value } = event.target;
  if (name === "method") await start(value);
  filter({ [name]: value });
});
find("filters").addEventListener("submit", (event) => event.preventDefault());
find("clear").addEventListener("click", () => filter({ state: "", reason: "", given: "", suggested: "", order: "suspect" }));
find("hundred").addEventListener("click", () => filter({ state: "undecided", reason: "", given: "", suggested: "", order: "hundred" }));
find("as-grid").addEventListener("click", () => setView("grid"));
find("as-single").addEventListener("click", () => setView("single"));
find("previous").addEventListener("click", () => turn(-1));
find("next").addEventListener("click", () => turn(1));
find("all").addEventListener("click", decideAll);
find("undo").addEventListener("click", () => saver.undo());
find("help").addEventListener("click", () => showHelp(info.classes, info.digits));
find("keys").addEventListener("close", () => samples.length && activate(active));
find("trouble").querySelector("button").addEventListener("click", () => saver.run());
find("reviewer").addEventListener("change", () => {
  if (!reviewer()) find("reviewer").value = info.reviewer;
  localStorage.setItem("reviewer", reviewer());
});
find("worth").addEventListener("change", async () => {
  localStorage.setItem("worth", find("worth").value);
  showProgress(await ask("api/changes", { after: known, method: info.method, worth: find("worth").value }));
});
window.addEventListener("beforeunload", (event) => saver.waiting && event.preventDefault());

begin().catch((error) => {
  find("trouble").hidden = false;
  find("trouble").firstElementChild.textContent = `The page cannot be shown: ${error.message}.`;
});
