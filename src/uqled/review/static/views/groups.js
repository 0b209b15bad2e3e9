// Groups: a contact sheet of suspects with one question, answered with one key, exceptions by click.

import { ask } from "./api.js";
import { makeItem, onDecisions, saver } from "./decide.js";
import { breakName, describeDecision, drawContent, formatNumber, makeElement, markColumns } from "./drawing.js";
import { announce, find, state } from "./state.js";

const N_LARGE_TILES = 18; // samples that fit on a screen when they are shown larger

let groups = [];
let total = 0; // of groups, those behind the ones that are loaded among them
let at = 0; // the group on the sheet
let exceptions = new Set(); // indices that the group's answer leaves out

export const isGrouped = () => state.view === "groups";

export async function loadGroups({ place = 0, like = "" } = {}) {
  const answer = await ask("api/groups", { method: state.info.method, like });
  groups = answer.groups;
  total = answer.n_groups;
  at = Math.max(0, Math.min(place, groups.length - 1));
  exceptions = new Set();
  draw();
}

function draw() {
  const box = find("groups");
  const group = groups[at];
  if (!group) {
    box.replaceChildren(makeElement("p", { class: "empty" }, "Every flag is decided: there is no group left."));
    return;
  }
  const names = state.info.classes;
  const question = group.given === null ? ["Labelled otherwise. Are these all ", makeElement("b", {}, ...breakName(names[group.suggested])), "?"] : ["Labelled ", makeElement("b", {}, ...breakName(names[group.given])), ". Are these all ", makeElement("b", {}, ...breakName(names[group.suggested])), "?"];
  const errorsText = group.errors === null ? "" : ` About ${formatNumber(Math.round(group.errors))} of them are wrong labels.`;
  const moreText = group.n_more ? ` ${formatNumber(group.n_more)} more of this kind follow.` : "";
  const cards = group.samples.map((sample) => makeTile(sample, group));
  box.replaceChildren(
    makeElement("h2", {}, ...question),
    makeElement("p", { class: "note" }, `Group ${formatNumber(at + 1)} of ${formatNumber(Math.max(total, groups.length))}: ${formatNumber(group.samples.length)} samples.${errorsText}${moreText} Click those that do not belong: they stay undecided.`),
    makeElement(
      "div",
      { class: "group-actions", role: "group", "aria-label": "Decide the group" },
      makeElement("button", { type: "button", class: "relabel", onclick: () => decideGroup("accept") }, makeElement("kbd", {}, "W"), " Accept ", ...breakName(names[group.suggested])),
      makeElement("button", { type: "button", class: "keep", onclick: () => decideGroup("keep") }, makeElement("kbd", {}, "Q"), " Keep the labels"),
      makeElement("button", { type: "button", class: "drop", onclick: () => decideGroup("drop") }, makeElement("kbd", {}, "E"), " Drop"),
      makeElement("button", { type: "button", onclick: () => moveGroup(-1), disabled: at === 0 }, "Previous"),
      makeElement("button", { type: "button", onclick: () => moveGroup(1), disabled: at + 1 >= total }, "Skip"),
    ),
    makeElement("ul", { class: `sheet kind-${state.info.kind}${group.samples.length <= N_LARGE_TILES ? " few" : ""}`, "aria-label": "Samples of the group" }, ...cards),
  );
}

function makeTile(sample, group) {
  const isException = exceptions.has(sample.index);
  const name = group.given === null ? makeElement("span", { class: "caption" }, ...breakName(state.info.classes[sample.given])) : null;
  const decision = sample.action ? makeElement("span", { class: "caption" }, describeDecision(sample.action, sample.label, state.info.classes)) : null;
  const content = drawContent(sample, state.info, "thumbnail");
  markColumns(content, sample.telling ?? []);
  const button = makeElement("button", { type: "button", class: isException ? "tile out" : "tile", "aria-pressed": String(!isException), title: sample.id, "aria-label": `${sample.id}: ${isException ? "left out" : "in the group"}` }, content, name, decision);
  button.addEventListener("click", () => {
    if (exceptions.has(sample.index)) exceptions.delete(sample.index);
    else exceptions.add(sample.index);
    button.classList.toggle("out");
    button.setAttribute("aria-pressed", String(!button.classList.contains("out")));
  });
  return makeElement("li", {}, button);
}

// One answer for the whole sheet but its exceptions: one request, one undo.
export function decideGroup(action) {
  const group = groups[at];
  if (!group) return;
  const samples = group.samples.filter((sample) => !exceptions.has(sample.index));
  if (!samples.length) return announce("Every sample of this group is left out", true);
  saver.decide(samples.map((sample) => makeItem(sample, action)));
  groups.splice(at, 1);
  total -= 1;
  exceptions = new Set();
  if (at >= groups.length) loadGroups();
  else draw();
}

export async function moveGroup(step) {
  const place = at + step;
  if (place < 0 || place >= total) return;
  if (place >= groups.length) {
    const answer = await ask("api/groups", { method: state.info.method, from: groups.length });
    total = answer.n_groups;
    groups.push(...answer.groups);
    if (!answer.groups.length) return draw();
  }
  at = place;
  exceptions = new Set();
  draw();
}

// What is taken back, or decided by others, changes the groups.
onDecisions((rows) => {
  if (!isGrouped()) return;
  const samplesByIndex = new Map(groups.flatMap((group) => group.samples.map((sample) => [sample.index, sample])));
  const isReopened = rows.some((row) => row.action === null);
  for (const row of rows) if (samplesByIndex.has(row.index)) Object.assign(samplesByIndex.get(row.index), row);
  if (isReopened) loadGroups({ place: at });
});
