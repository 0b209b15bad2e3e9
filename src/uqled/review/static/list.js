// The list of samples: loading it, showing it, moving in it, selecting.

import { ask } from "./api.js";
import { breakName, describe, describeDecision, drawHeatMap, formatNumber, formatRange, makeCard, makeElement, updateCard } from "./drawing.js";
import { follow } from "./estimates.js";
import { showSingle } from "./single.js";
import { CHOSEN, FILTERS, SIZE, find, isTyping, state } from "./state.js";

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
  find("list").replaceChildren(...state.samples.map((sample) => makeCard(sample, state.info)));
  state.samples.forEach(redraw);
  showProgress(answer);
  show();
  window.scrollTo(0, 0);
  if (state.byMouse && document.activeElement.matches("select")) document.activeElement.blur(); // keys decide again
  activate(state.active);
}

// Decided samples come first; a reviewer who comes back goes on behind them.
function startOfQueue() {
  const isFiltered = ["state", "reason", "given", "suggested", ...CHOSEN].some((name) => state.query[name]);
  return isRanked() && !isFiltered ? "queue" : 0;
}

const isRanked = () => ["suspect", "worth"].includes(state.query.order);

// Put what follows the active sample into the order that the decisions so far suggest. What lies
// before it, and it itself, stay where they are.
export async function reorder() {
  const { samples, active } = state;
  if ((state.view !== "grid" && state.view !== "single") || !isRanked() || CHOSEN.some((name) => state.query[name]) || !["", undefined, "undecided"].includes(state.query.state) || state.selected.size) return;
  const mine = loading;
  const samplesBefore = samples.slice(0, active + 1);
  const indices = new Set(samplesBefore.map((sample) => sample.index));
  const query = { ...state.query, state: "undecided", method: state.info.method, size: Math.min(500, SIZE + samplesBefore.length) };
  const answer = await ask("api/samples", query);
  if (mine !== loading || samples !== state.samples || active !== state.active || state.selected.size) return;
  const waitingSamples = samples.slice(active + 1).filter((sample) => sample.waiting || sample.action);
  for (const sample of waitingSamples) indices.add(sample.index);
  const samplesAfter = answer.samples.filter((sample) => !indices.has(sample.index));
  const place = (samples[active]?.place ?? -1) + 1;
  const tail = [...waitingSamples, ...samplesAfter].slice(0, Math.max(0, SIZE - samplesBefore.length));
  tail.forEach((sample, at) => (sample.place = place + at));
  const cards = new Map([...find("list").children].map((item) => [Number(item.dataset.index), item]));
  state.samples = [...samplesBefore, ...tail];
  state.total = state.before + samplesBefore.length + waitingSamples.length + samplesAfter.length + Math.max(0, answer.total - answer.samples.length);
  // Only what follows is replaced: the active card keeps the focus.
  for (const item of [...find("list").children].slice(samplesBefore.length)) item.remove();
  find("list").append(...tail.map((sample) => cards.get(sample.index) ?? makeCard(sample, state.info)));
  state.samples.forEach(redraw);
  showWhere();
}

// A method's flags are another list with other counts.
export async function start(method) {
  state.info = await ask("api/start", { method });
  const { info } = state;
  document.body.dataset.kind = info.kind;
  find("source-notes").hidden = info.notes.length === 0;
  find("source-notes").firstElementChild.replaceChildren(...info.notes.map((note) => makeElement("li", {}, note)));
  state.known = Math.max(state.known, info.number);
  const form = find("filters").elements;
  fill(form.method, Object.entries(info.methods).map(([name, n]) => [name, `${name} (${formatNumber(n)})`]));
  form.method.value = info.method;
  fillReasons();
}

// The reasons with their numbers, which follow the decisions; a list that is open stays as it is.
export function fillReasons() {
  const { info, query } = state;
  const field = find("filters").elements.reason;
  if (document.activeElement === field) return;
  fill(field, [["", "any reason"], ...info.reasons.map((name, at) => [name, `${name} (${formatNumber(info.overview.reasons[at])})`])]);
  field.value = query.reason ?? "";
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => makeElement("option", { value }, text)));
}

export function show() {
  const { info, query, samples, view } = state;
  const isList = view === "grid" || view === "single";
  const isEmpty = samples.length === 0 && isList;
  find("list").hidden = view !== "grid" || isEmpty;
  find("single").hidden = view !== "single" || isEmpty;
  find("groups").hidden = view !== "groups";
  find("map").hidden = view !== "map";
  find("classes").hidden = view !== "classes";
  document.body.classList.toggle("one", view === "single");
  document.body.classList.toggle("grouped", !isList);
  for (const name of ["grid", "single", "groups", "map", "classes"]) find(`as-${name}`).setAttribute("aria-pressed", String(view === name));
  find("empty").hidden = !isEmpty;
  if (isEmpty) find("empty").textContent = info.counts.flagged === 0 ? "This method flags no sample: there is nothing to review." : info.counts.undecided === 0 ? "Every flag is decided. Export writes the corrected labels; “Previous” shows what was decided." : isDoneAtRandom() ? "All of these are decided. Choose “Show all” to see every flag." : "No flag fits these filters. Choose “Show all” to see every flag.";
  for (const name of FILTERS) {
    const field = find("filters").elements[name];
    if (field.tagName === "SELECT") field.value = query[name] ?? (name === "method" ? info.method : "");
    else field.textContent = query[name] ? info.classes[query[name]] : "any class";
  }
  const isFiltered = ["state", "reason", "given", "suggested", "tier", ...CHOSEN].some((name) => query[name]);
  find("filtered").hidden = !isFiltered;
  find("clear").disabled = !isFiltered && query.order === "suspect";
  showPairs();
  showTiers();
  showOrder();
  find("list").setAttribute("aria-label", query.order === "suspect" ? "Flagged samples, most suspect first" : "Flagged samples");
}

export function showPairs() {
  const { info, query } = state;
  const choose = (i, j, isPressed) => filter(isPressed ? { given: "", suggested: "" } : { given: String(i), suggested: String(j) });
  const { table, note } = drawHeatMap(info.overview.pairs, info, query, choose);
  find("pairs").replaceChildren(table);
  find("pairs-note").textContent = note;
  find("pairs-box").hidden = info.overview.pairs.length === 0;
}

// How sure it is that a label is wrong, in steps; each shows only its samples.
export function showTiers() {
  const { info, query } = state;
  const box = find("tiers");
  const isFlagList = !CHOSEN.some((name) => query[name]) && query.order !== "audit";
  const chip = (name, text, title) => makeElement("button", { type: "button", class: "chip", title, "aria-pressed": String(isFlagList && (query.tier ?? "") === name), onclick: () => filter({ tier: name, lasso: "", only: "", second: "", differ: "" }) }, text);
  const tiers = info.overview.tiers.map(({ name, n, share }) => chip(name, `${name} ${formatNumber(n)}`, share ? `${formatRange(share.low, share.high)} of them are wrong, estimated` : "All of them are decided"));
  box.replaceChildren(chip("", "all flags", "Every flag, whatever its tier"), ...tiers);
  box.hidden = tiers.length === 0;
}

const ORDER_NOTES = {
  suspect: "Most suspect first. The order follows your decisions.",
  worth: "Most informative first: labels that may be right or wrong, and that many similar samples share.",
  audit: "Drawn at random for an audit, flagged or not: they tell how many labels are wrong, however good the model is.",
  random: "All flags in a random order.",
  hundred: "A hundred flags at random: they tell how many of all flags are real.",
};

// Which order it is and why, and what the last decisions changed.
export function showOrder(changeText = "") {
  const listNote = state.query.second ? "Second opinions: decided by others. Their decisions are hidden until you have given yours, and stay as they are." : state.query.differ ? "Two reviewers differ on these. What you decide now replaces both." : state.query.only ? "One sample by itself." : state.query.lasso ? "What the lasso on the map holds, most suspect first." : null;
  const tierNote = state.query.tier === "worth a look" ? " These are not flagged: at least one in five is wrong." : "";
  find("order-note").textContent = `${listNote ?? ORDER_NOTES[state.query.order]}${listNote ? "" : tierNote}${changeText}`;
}

// Whether nothing is left of those chosen at random.
function isDoneAtRandom() {
  const { query } = state;
  return query.order === "hundred" && query.state === "undecided" && !["reason", "given", "suggested"].some((name) => query[name]);
}

export function showWhere() {
  const { samples, active, before, total, view, info } = state;
  const nSelected = state.selected.size;
  const end = before + samples.length;
  const isSingle = view === "single";
  const position = isSingle ? formatNumber(before + active + 1) : `${formatNumber(before + 1)}–${formatNumber(end)}`;
  find("where").textContent = view !== "grid" && !isSingle ? "" : samples.length ? `${position} of ${formatNumber(total)}` : "";
  find("previous").disabled = isSingle ? before + active === 0 : before === 0;
  find("next").disabled = isSingle ? before + active + 1 >= total : end >= total;
  for (const button of find("actions").children) button.disabled = samples.length === 0;
  const sample = samples[active];
  find("accepted").replaceChildren(...(nSelected || !sample ? ["suggestion"] : breakName(info.classes[sample.suggested])));
  find("chosen").replaceChildren(...(nSelected ? [`${nSelected} selected`] : sample ? describePair(sample, info) : []));
  find("chosen").classList.toggle("many", nSelected > 0);
}

function describePair({ given, suggested }, { classes }) {
  const change = given === suggested ? [] : [" → ", ...breakName(classes[suggested])];
  return [...breakName(classes[given]), ...change, "?"];
}

export function showProgress({ counts, number: change }) {
  follow(state.info.method, change);
  showCounts(counts);
}

export function showCounts(counts) {
  state.info.counts = counts;
  const { flagged, undecided } = counts;
  const option = find("filters").elements.method.querySelector(`[value="${CSS.escape(state.info.method)}"]`);
  if (option) option.textContent = `${state.info.method} (${formatNumber(flagged)})`;
  const nDecided = flagged - undecided;
  const bar = find("progress");
  bar.setAttribute("aria-valuemax", flagged);
  bar.setAttribute("aria-valuenow", nDecided);
  bar.setAttribute("aria-valuetext", `${nDecided} of ${flagged} decided`);
  for (const part of bar.children) part.style.width = `${(100 * counts[part.className]) / Math.max(1, flagged)}%`;
  const part = (name, n, text) => makeElement("span", { class: `count ${name}` }, makeElement("b", {}, formatNumber(n)), ` ${text}`);
  find("counts").replaceChildren(
    part("decided", nDecided, `of ${formatNumber(flagged)} decided`),
    part("relabel", counts.relabel, "relabelled"),
    part("drop", counts.drop, "dropped"),
    part("keep", counts.keep, "kept"),
  );
}

export function redraw(sample) {
  const place = state.samples.indexOf(sample);
  const item = find("list").children[place];
  if (item) updateCard(item, sample, state.info, { selected: state.selected.has(sample.index), active: place === state.active });
}

export function activate(place) {
  const { samples } = state;
  if (!samples.length) return showWhere();
  const previousSample = samples[state.active];
  state.active = place;
  if (previousSample) redraw(previousSample);
  redraw(samples[place]);
  showWhere();
  remember();
  if (state.view !== "grid" && state.view !== "single") return;
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
  return load({ previous: samples[0]?.place ?? state.before }); // of an empty page: everything is decided
}

export function select(indices) {
  const previousSelection = state.selected;
  state.selected = new Set(indices);
  state.samples.filter((sample) => previousSelection.has(sample.index) !== state.selected.has(sample.index)).forEach(redraw);
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

export function setView(view) {
  state.view = view;
  select([]);
  show();
  activate(state.active);
}

export function countPerRow() {
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
