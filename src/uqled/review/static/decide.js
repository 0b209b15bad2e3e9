// Decisions: on one sample, on those selected, on many at once; and what others decide.

import { ask, send } from "./api.js";
import { pickClass, settle } from "./dialogs.js";
import { describeDecision, formatNumber } from "./drawing.js";
import { activate, load, move, redraw, select, showProgress } from "./list.js";
import { showAgreement } from "./opinions.js";
import { Saver } from "./saving.js";
import { forgetEvidence, showSingle } from "./single.js";
import { SIZE, announce, find, getName, state } from "./state.js";

const tab = sessionStorage.getItem("tab") ?? crypto.getRandomValues(new Uint32Array(2)).join("-");
sessionStorage.setItem("tab", tab);

export const reviewer = () => find("reviewer").value.trim();
let opinions = null; // changes with every second opinion, anybody's
let merged = null; // the classes that anybody merged, as this page last saw them
const listeners = []; // called with every sample that was decided or taken back

export const onDecisions = (listener) => listeners.push(listener);

export const saver = new Saver(
  () => ({ reviewer: reviewer(), tab, method: state.info.method }),
  {
    saved(answer, items) {
      learn(answer.decided, true);
      showProgress(answer);
      const texts = new Set(answer.decided.map((row) => describeDecision(row.action, row.label, state.info.classes)));
      const what = items.length === 1 ? getName(items[0].index) : `${items.length} samples`;
      announce(`Saved: ${what} ${[...texts].slice(0, 3).join(", ")}`, items.length > 1);
    },
    savedAll(answer) {
      announce(`Saved: ${formatNumber(answer.number_decided)} samples. Undo takes all of them back.`, true);
      load();
    },
    undone(answer) {
      if (answer.opinions.length) return forgetOpinions(answer.opinions);
      learn(answer.undone, false);
      showProgress(answer);
      const rows = answer.undone;
      if (answer.number_undone > SIZE) load({ from: state.samples[0]?.place ?? 0 });
      if (!rows.length) return announce("Nothing to take back in this tab", true);
      const place = state.samples.findIndex((sample) => sample.index === rows[0].index);
      if (place >= 0) activate(place);
      const decision = describeDecision(rows[0].action, rows[0].label, state.info.classes);
      announce(rows.length === 1 ? `Taken back: ${getName(rows[0].index)} is ${decision} again` : `Taken back: ${formatNumber(answer.number_undone)} decisions`, true);
    },
    conflict: (now, items) => settle(now, items, getName, state.info.classes),
    learnt: (now) => learn(now, true),
    failed(text, items) {
      for (const sample of state.samples) if (items.some((item) => item.index === sample.index)) sample.waiting = null;
      state.samples.forEach(redraw);
      showSingle();
      announce(`Not saved: ${text}`, true);
    },
    trouble(text, waiting) {
      find("trouble").hidden = text === null;
      if (text === null) return;
      const what = waiting === 1 ? "1 decision is" : `${waiting} decisions are`;
      find("trouble").firstElementChild.textContent = `${what} not saved yet: ${text}.`;
    },
  },
);

// Rows from the server: newer decisions on samples of this page, mine or somebody else's.
function learn(rows, isSaved) {
  if (rows.length) forgetEvidence();
  for (const row of rows) {
    const sample = state.samples.find((one) => one.index === row.index);
    if (!sample || row.version < sample.version) continue;
    Object.assign(sample, row);
    const hasLaterStep = saver.queue.slice(1).some((step) => step.items?.some((item) => item.index === row.index));
    if (isSaved && !hasLaterStep) sample.waiting = null;
    redraw(sample);
    if (state.samples[state.active] === sample) showSingle();
  }
  for (const listener of listeners) listener(rows);
}

// Merges of one's own: the page shows them at once, so that they are no news.
export const learnMerges = (pairs) => (merged = String(pairs));

// What others decided meanwhile.
export async function lookForChanges() {
  if (document.hidden || !state.info) return;
  const { samples, active } = state;
  try {
    const answer = await ask("api/changes", { after: state.known, method: state.info.method });
    state.known = answer.number;
    if (answer.opinions !== opinions) {
      opinions = answer.opinions;
      await showAgreement(reviewer());
    }
    const mergedBefore = merged ?? String(state.info.merged);
    merged = String(answer.merged);
    const isMergeNew = merged !== mergedBefore;
    if (answer.many || isMergeNew) await load({ from: samples[0]?.place ?? 0, index: samples[active]?.index });
    else if (answer.changed.length) {
      learn(answer.changed, false);
      showProgress(answer);
    }
  } catch {
    // The next decision will say that the server does not answer.
  }
}

function listTargets() {
  const { samples, selected, active } = state;
  return selected.size ? samples.filter((sample) => selected.has(sample.index)) : samples.slice(active, active + 1);
}

// The decision as the server takes it: "accept" is relabelling with the suggested class.
export function makeItem(sample, action, label = null) {
  const k = action === "accept" ? sample.suggested : label;
  const isRelabel = action === "accept" || action === "relabel";
  if (!isRelabel) return { index: sample.index, action, label: null, version: sample.version };
  return { index: sample.index, action: k === sample.given ? "keep" : "relabel", label: k === sample.given ? null : k, version: sample.version };
}

// A second opinion decides nothing: it is stored beside the first decision.
async function giveOpinion(samples, action, label) {
  const items = samples.map((sample) => makeItem(sample, action, label)).map((item) => [item.index, item.action, item.label]);
  const lastPlace = state.samples.indexOf(samples[samples.length - 1]);
  try {
    await send("api/opinion", { items, reviewer: reviewer() });
    samples.forEach((sample, at) => Object.assign(sample, { action: items[at][1], label: items[at][2], reviewer: reviewer(), at: Date.now() / 1000 }));
    forgetEvidence();
    select([]);
    samples.forEach(redraw);
    announce("Opinion saved", false);
    showAgreement(reviewer()).catch(() => {});
    move(lastPlace + 1);
  } catch (error) {
    announce(`Not saved: ${error.message}`, true);
  }
}

// Opinions that were taken back can be given again where they stand.
function forgetOpinions(indices) {
  const samples = state.query.second ? state.samples.filter((sample) => indices.includes(sample.index)) : [];
  for (const sample of samples) Object.assign(sample, { action: null, label: null, reviewer: null });
  forgetEvidence();
  samples.forEach(redraw);
  if (samples.length) activate(state.samples.indexOf(samples[0]));
  announce(indices.length === 1 ? `Taken back: your opinion on ${getName(indices[0])}` : `Taken back: ${formatNumber(indices.length)} opinions`, true);
  showAgreement(reviewer()).catch(() => {});
}

export function decide(action, label = null) {
  const samples = listTargets();
  if (!samples.length) return;
  if (state.query.second) return giveOpinion(samples, action, label);
  const items = samples.map((sample) => makeItem(sample, action, label));
  samples.forEach((sample, at) => (sample.waiting = items[at]));
  const lastPlace = state.samples.indexOf(samples[samples.length - 1]);
  const isSelection = state.selected.size > 0;
  select([]);
  samples.forEach(redraw);
  saver.decide(items);
  if (isSelection && lastPlace + 1 >= state.samples.length) activate(lastPlace);
  else move(lastPlace + 1);
}

// One of the active sample's own candidates, by its number from 1.
export function decideCandidate(place) {
  if (state.selected.size) return announce("Press C to choose a class for all that are selected", true);
  const candidate = state.samples[state.active]?.classes[place - 1];
  if (candidate) decide("relabel", candidate[0]);
}

export async function decideOther() {
  const sample = state.samples[state.active];
  const k = await pickClass("Which class is right?", state.info.classes, sample?.classes.map(([one]) => one) ?? []);
  if (k !== null) decide("relabel", k);
  else activate(state.active);
}
