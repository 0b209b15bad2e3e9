// Classes: a list of all, and a page for each with its error rate, its confusions, typical and odd
// samples; merging and renaming.

import { ask, send } from "./api.js";
import { learnMerges } from "./decide.js";
import { pickClass } from "./dialogs.js";
import { breakName, drawStrip, formatNumber, formatPercent, formatRange, formatTime, makeElement } from "./drawing.js";
import { renewEstimates } from "./estimates.js";
import { announce, find, state } from "./state.js";

const ROWS = 100; // classes listed at a time: typing finds the others
let rows = [];
let current = null; // class number of the page, null: the list
let showPair = () => {};
let openSample = () => {};
let reviewerName = () => "";

export const isClasses = () => state.view === "classes";
export const onPair = (listener) => (showPair = listener);
export const onOpen = (listener) => (openSample = listener);
export const onReviewer = (getter) => (reviewerName = getter);

export async function showClasses() {
  current = null;
  rows = (await ask("api/classes", { method: state.info.method })).classes;
  drawList();
}

function drawList() {
  const names = state.info.classes;
  const search = makeElement("input", { type: "search", placeholder: "Find a class", "aria-label": "Find a class", autocomplete: "off" });
  const body = makeElement("tbody");
  const note = makeElement("p", { class: "note" });
  const fill = () => {
    const typedText = search.value.trim().toLowerCase();
    const matches = rows.filter(({ index }) => names[index].toLowerCase().includes(typedText));
    body.replaceChildren(...matches.slice(0, ROWS).map(drawRow));
    note.textContent = matches.length > ROWS ? `${formatNumber(matches.length - ROWS)} more: type a part of the name.` : "";
  };
  search.addEventListener("input", fill);
  const head = ["Class", "Labels", "Flagged", "Wrong, estimated", "Error rate"].map((text) => makeElement("th", { scope: "col" }, text));
  const box = find("classes");
  box.replaceChildren(makeElement("h2", {}, "Classes"), makeElement("p", { class: "note" }, "Most wrong labels first. Open a class to see which classes it is confused with, or to merge or rename it."), search, makeElement("table", { class: "class-table" }, makeElement("thead", {}, makeElement("tr", {}, ...head)), body), note);
  fill();
}

function drawRow({ index, given, flagged, wrong, decision }) {
  const name = makeElement("button", { type: "button", class: "link", onclick: () => openClass(index) }, ...breakName(state.info.classes[index]));
  const cells = [formatNumber(given), formatNumber(flagged), wrong === null ? "" : formatNumber(Math.round(wrong)), wrong === null || !given ? "" : formatPercent(wrong / given)];
  return makeElement("tr", {}, makeElement("th", { scope: "row" }, name, decision ? makeElement("span", { class: "note" }, ` ${describeClass(decision)}`) : null), ...cells.map((text) => makeElement("td", {}, text)));
}

function describeClass({ action, target, name, reviewer, at }) {
  const what = action === "merge" ? `merged into ${state.info.classes[target]}` : `renamed to ${name}`;
  return `${what} by ${reviewer}, ${formatTime(at)}`;
}

export async function openClass(index) {
  current = index;
  const about = await ask(`api/class/${index}`, { method: state.info.method });
  if (current === index) drawClass(about);
}

function drawClass({ index, given, flagged, rate, taken_for, taken_from, typical, oddest, decision }) {
  const names = state.info.classes;
  const value = rate && formatPercent(rate.value), range = rate && formatRange(rate.low, rate.high);
  const share = rate === null ? "" : ` About ${value} of the labels are wrong${range === value ? "" : ` (${range})`}.`;
  const drawPairs = (title, pairs, toPair) =>
    pairs.length ? makeElement("section", {}, makeElement("h3", {}, title), makeElement("ul", { class: "chips wrap" }, ...pairs.map(([k, n]) => makeElement("li", {}, makeElement("button", { type: "button", class: "chip", onclick: () => showPair(...toPair(k)) }, ...breakName(names[k]), ` ${formatNumber(n)}`))))) : null;
  const undo = decision ? makeElement("p", { class: "state relabel" }, `${describeClass(decision)}. `, makeElement("button", { type: "button", id: "class-undo", onclick: () => change(index, null) }, "Take it back")) : null;
  const heading = makeElement("h2", { tabindex: -1 }, ...breakName(names[index]));
  find("classes").replaceChildren(
    ...[
      makeElement("button", { type: "button", onclick: showClasses }, "All classes"),
      heading,
      makeElement("p", {}, `${formatNumber(given)} labels, ${formatNumber(flagged)} flagged.${share}`),
      undo,
      makeElement(
        "div",
        { class: "group-actions", role: "group", "aria-label": "Decide about the class" },
        makeElement("button", { type: "button", id: "class-merge", onclick: () => merge(index) }, "Merge into …"),
        makeElement("form", { class: "rename", onsubmit: (event) => rename(event, index) }, makeElement("input", { id: "class-name", maxlength: 200, "aria-label": "New name of the class", placeholder: "New name", autocomplete: "off" }), makeElement("button", { type: "submit" }, "Rename")),
      ),
      makeElement("p", { class: "note" }, "This changes all its labels when you export. Flags between merged classes leave the list. It can be taken back."),
      drawPairs("Its flags are taken for", taken_for, (k) => [index, k]),
      drawPairs("Labels that may belong to it", taken_from, (k) => [k, index]),
      oddest.length ? drawStrip("Oddest", oddest, state.info, "odd", openSample) : null,
      typical.length ? drawStrip("Typical", typical, state.info, "typical", openSample) : null,
    ].filter(Boolean),
  );
  if (!document.querySelector("dialog[open]")) heading.focus({ preventScroll: true }); // what was pressed is gone
}

async function merge(index) {
  const otherClasses = state.info.classes.map((_, k) => k).filter((k) => k !== index);
  const target = await pickClass(`Merge ${state.info.classes[index]} into which class?`, state.info.classes, [], { listed: otherClasses });
  if (target !== null) await change(index, "merge", { target });
}

async function rename(event, index) {
  event.preventDefault();
  const name = find("class-name").value.trim();
  if (name) await change(index, "rename", { name });
}

async function change(index, action, details = {}) {
  try {
    const answer = await send("api/class", { index, action, reviewer: reviewerName(), ...details });
    learnMerges(answer.merged);
    announce(action ? "Saved. It can be taken back here." : "Taken back", true);
    renewEstimates();
    await openClass(index);
  } catch (error) {
    announce(`Not saved: ${error.message}`, true);
  }
}

// Ctrl+Z: what was decided about the class on the page.
export function undoClass() {
  if (find("class-undo")) find("class-undo").click();
  else announce("Nothing to take back on this page", true);
}
