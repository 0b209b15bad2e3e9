// The list of samples: loading it, showing it, moving in it, selecting.

import { ask } from "./api.js";
import { card, describe, describeDecision, element, heatMap, mark, number } from "./drawing.js";
import { follow } from "./estimates.js";
import { showSingle } from "./single.js";
import { FILTERS, SIZE, find, isTyping, state } from "./state.js";

let loading = 0; // number of the last request for a list

export async function load({ from = null, previous = null, index = null, last = false } = {}) {
  const mine = ++loading;
  const query = { ...state.query, method: state.info.method, size: SIZE };
  if (previous !== null) query.before = previous;
  else query.from = from ?? startOfQueue();
  const answer = await ask("api/samples", query);
  if (mine !== loading) return; // another list was asked for meanwhile
  Object.assign(state, { samples: answer.samples, total: answer.total, before: answer.before });
  const place = state.samples.findIndex((sample) => sample.index === index);
  state.active = place >= 0 ? place : last ? Math.max(0, state.samples.length - 1) : 0;
  state.selected = new Set();
  state.anchor = null;
  find("list").className = `list kind-${state.info.kind}`;
  find("list").replaceChildren(...state.samples.map((sample) => card(sample, state.info)));
  state.samples.forEach(redraw);
  showProgress(answer);
  show();
  window.scrollTo(0, 0);
  if (state.byMouse && document.activeElement.matches("select")) document.activeElement.blur(); // keys decide again
  activate(state.active);
}

// Decided samples come first; a reviewer who comes back goes on behind them.
function startOfQueue() {
  const filtered = ["state", "reason", "given", "suggested"].some((name) => state.query[name]);
  return state.query.order === "suspect" && !filtered ? state.info.queue : 0;
}

// Put what follows the active sample into the order that the decisions so far suggest. What lies
// before it, and it itself, stay where they are.
export async function reorder() {
  const { samples, active } = state;
  if (state.view === "groups" || state.query.order !== "suspect" || !["", undefined, "undecided"].includes(state.query.state) || state.selected.size) return;
  const mine = loading;
  const passed = samples.slice(0, active + 1);
  const shown = new Set(passed.map((sample) => sample.index));
  const query = { ...state.query, state: "undecided", method: state.info.method, size: Math.min(500, SIZE + passed.length) };
  const answer = await ask("api/samples", query);
  if (mine !== loading || samples !== state.samples || active !== state.active || state.selected.size) return;
  const waiting = samples.slice(active + 1).filter((sample) => sample.waiting || sample.action);
  for (const sample of waiting) shown.add(sample.index);
  const rest = answer.samples.filter((sample) => !shown.has(sample.index));
  const place = (samples[active]?.place ?? -1) + 1;
  const tail = [...waiting, ...rest].slice(0, Math.max(0, SIZE - passed.length));
  tail.forEach((sample, at) => (sample.place = place + at));
  const cards = new Map([...find("list").children].map((item) => [Number(item.dataset.index), item]));
  state.samples = [...passed, ...tail];
  state.total = state.before + passed.length + waiting.length + rest.length + Math.max(0, answer.total - answer.samples.length);
  // Only what follows is replaced: the active card keeps the focus.
  for (const item of [...find("list").children].slice(passed.length)) item.remove();
  find("list").append(...tail.map((sample) => cards.get(sample.index) ?? card(sample, state.info)));
  state.samples.forEach(redraw);
  showWhere();
}

// A method's flags are another list with other counts.
export async function start(method) {
  state.info = await ask("api/start", { method });
  const { info } = state;
  state.known = Math.max(state.known, info.number);
  const form = find("filters").elements;
  fill(form.method, Object.entries(info.methods).map(([name, n]) => [name, `${name} (${number(n)})`]));
  form.method.value = info.method;
  fill(form.reason, [["", "any reason"], ...info.reasons.map((name, at) => [name, `${name} (${number(info.overview.reasons[at])})`])]);
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
}

export function show() {
  const { info, query, samples, view } = state;
  const none = samples.length === 0 && view !== "groups";
  find("list").hidden = view !== "grid" || none;
  find("single").hidden = view !== "single" || none;
  find("groups").hidden = view !== "groups";
  document.body.classList.toggle("one", view === "single");
  document.body.classList.toggle("grouped", view === "groups");
  for (const name of ["grid", "single", "groups"]) find(`as-${name}`).setAttribute("aria-pressed", String(view === name));
  find("empty").hidden = !none;
  if (none) find("empty").textContent = info.counts.flagged === 0 ? "This method flags no sample: there is nothing to review." : isDoneAtRandom() ? "All of these are decided. Choose “Show all” to see every flag." : "No flag fits these filters. Choose “Show all” to see every flag.";
  for (const name of FILTERS) {
    const field = find("filters").elements[name];
    if (field.tagName === "SELECT") field.value = query[name] ?? (name === "method" ? info.method : "");
    else field.textContent = query[name] ? info.classes[query[name]] : "any class";
  }
  const filtered = ["state", "reason", "given", "suggested"].some((name) => query[name]);
  find("filtered").hidden = !filtered;
  find("clear").disabled = !filtered && query.order === "suspect";
  showPairs();
  find("list").setAttribute("aria-label", query.order === "suspect" ? "Flagged samples, most suspect first" : "Flagged samples in random order");
}

export function showPairs() {
  const { info, query } = state;
  const choose = (i, j, pressed) => filter(pressed ? { given: "", suggested: "" } : { given: String(i), suggested: String(j) });
  const { table, note } = heatMap(info.overview.pairs, info, query, choose);
  find("pairs").replaceChildren(table);
  find("pairs-note").textContent = note;
  find("pairs-box").hidden = info.overview.pairs.length === 0;
}

// Whether nothing is left of those chosen at random.
function isDoneAtRandom() {
  const { query } = state;
  return query.order === "hundred" && query.state === "undecided" && !["reason", "given", "suggested"].some((name) => query[name]);
}

export function showWhere() {
  const { samples, active, before, total, view, info } = state;
  const many = state.selected.size;
  const to = before + samples.length;
  const one = view === "single";
  const position = one ? number(before + active + 1) : `${number(before + 1)}–${number(to)}`;
  find("where").textContent = view === "groups" ? "" : samples.length ? `${position} of ${number(total)}` : "";
  find("previous").disabled = one ? before + active === 0 : before === 0;
  find("next").disabled = one ? before + active + 1 >= total : to >= total;
  for (const button of find("actions").children) button.disabled = samples.length === 0;
  const sample = samples[active];
  find("accepted").textContent = many || !sample ? "suggestion" : info.classes[sample.suggested];
  find("chosen").textContent = many ? `${many} selected` : sample ? `${info.classes[sample.given]} → ${info.classes[sample.suggested]}?` : "";
  find("chosen").classList.toggle("many", many > 0);
}

export function showProgress({ counts, number: change }) {
  follow(state.info.method, change);
  state.info.counts = counts;
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
}

export function redraw(sample) {
  const place = state.samples.indexOf(sample);
  const item = find("list").children[place];
  if (item) mark(item, sample, state.info, { selected: state.selected.has(sample.index), active: place === state.active });
}

export function activate(place) {
  const { samples } = state;
  if (!samples.length) return showWhere();
  const was = samples[state.active];
  state.active = place;
  if (was) redraw(was);
  redraw(samples[place]);
  showWhere();
  remember();
  if (state.view === "groups") return;
  if (state.view === "single") {
    showSingle();
    const sample = samples[place];
    if (!document.querySelector("dialog[open]")) find("single").focus({ preventScroll: true });
    find("status").textContent = describe(sample, state.info, describeDecision(sample.action, sample.label, state.info.classes));
    return;
  }
  const item = find("list").children[place];
  if (!document.querySelector("dialog[open]") && !isTyping(document.activeElement)) item.focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

export function filter(change) {
  state.query = { ...state.query, ...change };
  return load();
}

// To a place on this page, or over its end to the next one.
export function move(place) {
  const { samples, before, total } = state;
  if (place < 0) return before > 0 ? load({ previous: samples[0].place, last: true }) : activate(0);
  if (place < samples.length) return activate(place);
  if (before + samples.length < total) return load({ from: samples[samples.length - 1].place + 1 });
  return activate(samples.length - 1);
}

export function turn(direction) {
  const { samples, active } = state;
  if (state.view === "single") return move(active + direction);
  if (direction > 0) return load({ from: samples[samples.length - 1].place + 1 });
  return load({ previous: samples[0].place });
}

export function select(indices) {
  const was = state.selected;
  state.selected = new Set(indices);
  state.samples.filter((sample) => was.has(sample.index) !== state.selected.has(sample.index)).forEach(redraw);
  showWhere();
}

export function selectRange(place) {
  state.anchor ??= state.active;
  const [first, last] = [Math.min(state.anchor, place), Math.max(state.anchor, place)];
  select(state.samples.slice(first, last + 1).map((sample) => sample.index));
}

export function toggle(place) {
  const { index } = state.samples[place];
  state.anchor = place;
  select(state.selected.has(index) ? [...state.selected].filter((one) => one !== index) : [...state.selected, index]);
}

export function setView(wanted) {
  state.view = wanted;
  select([]);
  show();
  activate(state.active);
}

export function perRow() {
  const items = [...find("list").children];
  const row = items.findIndex((item) => item.offsetTop !== items[0].offsetTop);
  return row < 0 ? items.length : row;
}

// The place survives a reload; what follows the # is not sent anywhere.
function remember() {
  const { query, view, samples, active } = state;
  const place = { ...query, view, from: samples[0]?.place ?? 0, sample: samples[active]?.index ?? "" };
  const entries = Object.entries(place).filter(([, value]) => value !== "" && value != null);
  history.replaceState(null, "", `#${new URLSearchParams(entries)}`);
}
