// The page: its keys and buttons.

import { decide, decideCandidate, decideOther, look, reviewer, saver } from "./decide.js";
import { pickBulk, pickClass, showHelp } from "./dialogs.js";
import { latest, onEstimates } from "./estimates.js";
import { decideGroup, isGrouped, loadGroups, moveGroup } from "./groups.js";
import { activate, filter, load, move, perRow, reorder, select, selectRange, setView, showPairs, start, toggle, turn } from "./list.js";
import { onClass } from "./single.js";
import { FILTERS, find, isTyping, state } from "./state.js";
import { toggleZoom } from "./zoom.js";

const LOOK = 4000; // milliseconds between looks at what others decided

function key(event) {
  if (document.querySelector("dialog[open]") || isTyping(event.target)) return;
  const letter = /^[a-z]$/i.test(event.key) || !event.code.startsWith("Key") ? event.key.toLowerCase() : event.code.slice(3).toLowerCase();
  const ctrl = event.ctrlKey || event.metaKey;
  const { samples, view, active, before, total } = state;
  if (event.altKey) return;
  if (ctrl) {
    if (letter === "z" && !event.shiftKey) saver.undo();
    else if (letter === "a" && view === "grid") select(samples.map((sample) => sample.index));
    else return;
    return event.preventDefault();
  }
  const onButton = event.target.matches("button, summary, a");
  const arrows = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: view === "grid" ? perRow() : 1, ArrowUp: view === "grid" ? -perRow() : -1 };
  if (letter === "?") showHelp();
  else if (letter === "g") isGrouped() ? leaveGroups() : showGroups();
  else if (isGrouped()) {
    const actions = { q: "keep", w: "accept", e: "drop" };
    if (letter in actions) decideGroup(actions[letter]);
    else if (event.key === "ArrowRight" && !onButton) moveGroup(1);
    else if (event.key === "ArrowLeft" && !onButton) moveGroup(-1);
    else if (event.key === "Escape") leaveGroups();
    else return;
  }
  else if (!samples.length) return;
  else if (letter === "q") decide("keep");
  else if (letter === "w") decide("accept");
  else if (letter === "e") decide("drop");
  else if (letter === "n") decide(null);
  else if (letter === "c" || letter === "/") decideOther();
  else if (/^[1-6]$/.test(event.key)) decideCandidate(Number(event.key));
  else if (letter === "z" && view === "single") toggleZoom();
  else if (event.key in arrows) {
    const place = active + arrows[event.key];
    if (event.shiftKey && view === "grid") {
      const within = Math.max(0, Math.min(samples.length - 1, place));
      selectRange(within);
      activate(within);
    } else {
      state.anchor = null;
      if (Math.abs(arrows[event.key]) > 1 && place < 0 && before === 0) return;
      move(place);
    }
  } else if (event.key === "Home") activate(0);
  else if (event.key === "End") activate(samples.length - 1);
  else if (event.key === "PageDown" && before + samples.length < total) turn(1);
  else if (event.key === "PageUp" && before > 0) turn(-1);
  else if (event.key === " " && view === "grid" && !onButton) toggle(active);
  else if (event.key === "Enter" && view === "grid" && !onButton) setView("single");
  else if (event.key === "Escape" && state.selected.size) select([]);
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
  else state.anchor = null;
  activate(place);
}

async function showGroups() {
  setView("groups");
  await loadGroups();
}

// What was decided in groups is not on the page of the list: it is loaded anew.
async function leaveGroups(view = "grid") {
  setView(view);
  state.info.queue = state.info.counts.flagged - state.info.counts.undecided;
  await load();
}

// Accept many suggestions without a look at each, where the estimate carries it.
async function decideBulk() {
  const offer = await pickBulk(latest());
  if (offer === null) return activate(state.active);
  saver.decideAll({ kind: offer.kind, n: offer.n, number: latest().number });
}

async function begin() {
  const place = new URLSearchParams(location.hash.slice(1));
  find("reviewer").value = localStorage.getItem("reviewer") ?? "";
  if (window.matchMedia("(max-width: 900px)").matches) for (const box of ["estimates-box", "filter-box"]) find(box).open = false;
  try {
    await start(place.get("method"));
  } catch {
    await start(null);
  }
  if (!reviewer()) find("reviewer").value = state.info.reviewer;
  for (const name of FILTERS) if (place.get(name)) state.query[name] = place.get(name);
  if (state.query.method !== state.info.method) delete state.query.method;
  state.view = place.get("view") === "single" ? "single" : "grid";
  try {
    await load({ from: place.has("from") ? Number(place.get("from")) || 0 : null, index: Number(place.get("sample") ?? -1) });
  } catch {
    state.query = { order: "suspect" };
    await load();
  }
  if (!localStorage.getItem("helped")) {
    localStorage.setItem("helped", "yes");
    showHelp();
  }
  setInterval(look, LOOK);
}

onClass((k) => decide("relabel", k));
onEstimates(async (answer, changed) => {
  state.info.overview = answer.overview;
  showPairs();
  if (changed) await reorder();
});
document.addEventListener("pointerdown", () => (state.byMouse = true), true);
document.addEventListener("keydown", () => (state.byMouse = false), true);
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
find("filters").addEventListener("click", async (event) => {
  const { name } = event.target;
  if (name !== "given" && name !== "suggested") return;
  const counts = state.info.overview[name];
  const listed = state.info.classes.map((_, k) => k).filter((k) => counts[k]);
  const k = await pickClass(`Which ${name} class?`, state.info.classes, [], { listed, counts, any: true });
  if (k !== null) filter({ [name]: k === "" ? "" : String(k) });
});
find("filters").addEventListener("submit", (event) => event.preventDefault());
find("clear").addEventListener("click", () => filter({ state: "", reason: "", given: "", suggested: "", order: "suspect" }));
find("hundred").addEventListener("click", () => filter({ state: "undecided", reason: "", given: "", suggested: "", order: "hundred" }));
for (const name of ["grid", "single"]) find(`as-${name}`).addEventListener("click", () => (isGrouped() ? leaveGroups(name) : setView(name)));
find("as-groups").addEventListener("click", showGroups);
find("previous").addEventListener("click", () => turn(-1));
find("next").addEventListener("click", () => turn(1));
find("bulk-button").addEventListener("click", decideBulk);
find("undo").addEventListener("click", () => saver.undo());
find("help").addEventListener("click", showHelp);
find("keys").addEventListener("close", () => state.samples.length && activate(state.active));
find("trouble").querySelector("button").addEventListener("click", () => saver.run());
find("reviewer").addEventListener("change", () => {
  if (!reviewer()) find("reviewer").value = state.info.reviewer;
  localStorage.setItem("reviewer", reviewer());
});
window.addEventListener("beforeunload", (event) => saver.waiting && event.preventDefault());

begin().catch((error) => {
  find("trouble").hidden = false;
  find("trouble").firstElementChild.textContent = `The page cannot be shown: ${error.message}.`;
});
