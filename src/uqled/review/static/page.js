// The page: its keys and buttons.

import { RefusedRequest, UnreachableServer, send } from "./api.js";
import { decide, decideCandidate, decideOther, lookForChanges, reviewer, saver } from "./decide.js";
import { isClasses, onOpen, onPair, onReviewer, openClass, showClasses, undoClass } from "./classes.js";
import { pickBulk, pickClass, showHelp } from "./dialogs.js";
import { getEstimates, onEstimates, showAudit } from "./estimates.js";
import { decideGroup, isGrouped, loadGroups, moveGroup } from "./groups.js";
import { activate, countPerRow, fillReasons, filter, load, move, reorder, select, selectRange, setView, showCounts, showOrder, showPairs, showTiers, start, toggle, turn } from "./list.js";
import { colour, isMap, onLasso, onPoint, showMap } from "./map.js";
import { onDiffer, onSecond, showAgreement } from "./opinions.js";
import { watchRubberBand } from "./rubber_band.js";
import { onClass } from "./single.js";
import { EVERYTHING, QUERY, announce, find, isTyping, state } from "./state.js";
import { toggleZoom } from "./zoom.js";

const LOOK = 4000; // milliseconds between looks at what others decided

function handleKey(event) {
  if (document.querySelector("dialog[open]") || isTyping(event.target)) return;
  const letter = /^[a-z]$/i.test(event.key) || !event.code.startsWith("Key") ? event.key.toLowerCase() : event.code.slice(3).toLowerCase();
  const ctrl = event.ctrlKey || event.metaKey;
  const { samples, view, active, before, total } = state;
  if (event.altKey) return;
  if (ctrl) {
    if (letter === "z" && !event.shiftKey) undo();
    else if (letter === "a" && view === "grid") select(samples.map((sample) => sample.index));
    else return;
    return event.preventDefault();
  }
  const onButton = event.target.matches("button, summary, a");
  const arrows = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: view === "grid" ? countPerRow() : 1, ArrowUp: view === "grid" ? -countPerRow() : -1 };
  if (letter === "?") showHelp();
  else if (isClasses() && event.key === "Escape") leaveGroups();
  else if (letter === "k") isClasses() ? leaveGroups() : openClasses();
  else if (isClasses()) return;
  else if (letter === "m") isMap() ? leaveGroups() : openMap();
  else if (isMap() && event.key === "Escape") leaveGroups();
  else if (isMap()) return;
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
  else if (letter === "l") showLike();
  else if (/^[1-5]$/.test(event.key)) decideCandidate(Number(event.key));
  else if (letter === "z" && view === "single") toggleZoom();
  else if (event.key in arrows) {
    const place = active + arrows[event.key];
    if (event.shiftKey && view === "grid") {
      const placeInList = Math.max(0, Math.min(samples.length - 1, place));
      selectRange(placeInList);
      activate(placeInList);
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

const undo = () => (isClasses() ? undoClass() : saver.undo());

function handleClick(event) {
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

async function openClasses(k = null) {
  setView("classes");
  await (k === null ? showClasses() : openClass(k));
}

// All like the active sample, as one group.
async function showLike() {
  const sample = state.samples[state.active];
  if (!sample) return;
  setView("groups");
  await loadGroups({ like: sample.index });
}

async function openMap() {
  setView("map");
  try {
    await showMap();
  } catch (error) {
    find("map-note").textContent = `The map cannot be shown: ${error.message}.`;
  }
}

// What was decided in groups is not on the page of the list: it is loaded anew.
async function leaveGroups(view = "grid") {
  setView(view);
  state.info.queue = state.info.counts.flagged - state.info.counts.undecided;
  await load();
}

// The audit's samples are drawn once and kept with the run.
async function beginAudit() {
  try {
    showAudit((await send("api/audit", { method: state.info.method })).audit);
    await filter({ ...EVERYTHING, order: "audit" });
  } catch (error) {
    announce(error.message, true);
    await filter({ order: "suspect" });
  }
}

// Accept many suggestions without a look at each, where the estimate carries it.
async function decideBulk() {
  const offer = await pickBulk(getEstimates());
  if (offer === null) return activate(state.active);
  saver.decideAll({ kind: offer.kind, n: offer.n, number: getEstimates().number });
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
  for (const name of QUERY) if (place.get(name)) state.query[name] = place.get(name);
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
  setInterval(lookForChanges, LOOK);
}

onClass((k) => decide("relabel", k));
onEstimates(async (answer, hasChanged) => {
  state.info.overview = answer.overview;
  if (answer.isLatest) showCounts(answer.counts);
  fillReasons();
  showPairs();
  showTiers();
  showAudit(answer.audit);
  showAgreement(reviewer()).catch(() => {});
  if (hasChanged && isMap()) await colour();
  if (hasChanged) {
    showOrder(answer.changed);
    await reorder();
  }
});
document.addEventListener("pointerdown", () => (state.byMouse = true), true);
document.addEventListener("keydown", () => (state.byMouse = false), true);
document.addEventListener("keydown", handleKey);
document.addEventListener("visibilitychange", lookForChanges);
find("list").addEventListener("click", handleClick);
find("list").addEventListener("dblclick", (event) => event.target.closest(".card") && !event.target.closest(".tick") && setView("single"));
find("actions").addEventListener("click", (event) => {
  const action = event.target.closest("button")?.dataset.action;
  if (action === "other") decideOther();
  else if (action) decide(action === "undecided" ? null : action);
});
find("filters").addEventListener("change", async (event) => {
  const { name, value } = event.target;
  if (name === "method") await start(value);
  if (name === "order" && value === "audit") return beginAudit();
  filter({ [name]: value });
});
find("filters").addEventListener("click", async (event) => {
  const { name } = event.target;
  if (name !== "given" && name !== "suggested") return;
  const counts = state.info.overview[name];
  const listedClasses = state.info.classes.map((_, k) => k).filter((k) => counts[k]);
  const k = await pickClass(`Which ${name} class?`, state.info.classes, [], { listed: listedClasses, counts, any: true });
  if (k !== null) filter({ [name]: k === "" ? "" : String(k) });
});
find("filters").addEventListener("submit", (event) => event.preventDefault());
find("clear").addEventListener("click", () => filter(EVERYTHING));
find("hundred").addEventListener("click", () => filter({ ...EVERYTHING, state: "undecided", order: "hundred" }));
for (const name of ["grid", "single"]) find(`as-${name}`).addEventListener("click", () => (isGrouped() || isMap() || isClasses() ? leaveGroups(name) : setView(name)));
find("audit").addEventListener("click", beginAudit);
watchRubberBand(document.querySelector("main"));
find("as-groups").addEventListener("click", showGroups);
find("as-map").addEventListener("click", openMap);
find("as-classes").addEventListener("click", () => openClasses());
find("like").addEventListener("click", showLike);
onReviewer(reviewer);
onPair(async (given, suggested) => {
  state.view = "grid";
  await filter({ ...EVERYTHING, given: String(given), suggested: String(suggested) });
});
onSecond(async (name) => {
  state.view = "single";
  await filter({ ...EVERYTHING, second: name });
});
onDiffer(async () => {
  state.view = "single";
  await filter({ ...EVERYTHING, differ: "1" });
});
onLasso(async (lasso) => {
  setView("grid");
  await filter({ ...EVERYTHING, lasso });
});
// One sample by itself, flagged or not.
async function openSample(index) {
  state.view = "single";
  await filter({ ...EVERYTHING, only: String(index) });
}
onPoint(openSample);
onOpen(openSample);
find("previous").addEventListener("click", () => turn(-1));
find("next").addEventListener("click", () => turn(1));
find("bulk-button").addEventListener("click", decideBulk);
find("source-notes").querySelector("button").addEventListener("click", () => (find("source-notes").hidden = true));
find("undo").addEventListener("click", undo);
find("help").addEventListener("click", showHelp);
find("keys").addEventListener("close", () => state.samples.length && activate(state.active));
find("trouble").querySelector("button").addEventListener("click", () => saver.run());
find("reviewer").addEventListener("change", () => {
  if (!reviewer()) find("reviewer").value = state.info.reviewer;
  localStorage.setItem("reviewer", reviewer());
});
// A screen that cannot be loaded stays as it is; what was decided is kept by the saver.
window.addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof RefusedRequest || event.reason instanceof UnreachableServer)) return;
  event.preventDefault();
  announce(`Not loaded: ${event.reason.message}`, true);
});
window.addEventListener("beforeunload", (event) => saver.waiting && event.preventDefault());

begin().catch((error) => {
  find("trouble").hidden = false;
  find("trouble").firstElementChild.textContent = `The page cannot be shown: ${error.message}.`;
});
