// What the page knows: shared by its modules.

export const find = (id) => document.getElementById(id);

export const SIZE = 100; // samples on a page
export const FILTERS = ["state", "reason", "given", "suggested", "order", "method"];

export const state = {
  info: null, // what the server says of the run and the method
  query: { order: "suspect" }, // filters
  samples: [], // of this page
  total: 0, // matching the filters
  before: 0, // of them, on earlier pages
  active: 0, // place in samples
  anchor: null, // where a range of selected samples begins
  selected: new Set(), // indices
  view: "grid", // or "single" or "groups"
  byMouse: false, // the last thing done
  known: 0, // number of the last change seen by looking
};

export const isTyping = (target) => target?.matches?.("input, select, textarea");

export function nameOf(index) {
  return state.samples.find((sample) => sample.index === index)?.id ?? `sample ${index}`;
}

let hiding = null;

// Say something to screen readers, and visibly where asked.
export function announce(text, visibly) {
  find("status").textContent = text;
  if (!visibly) return;
  find("toast").textContent = text;
  find("toast").hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (find("toast").hidden = true), 3500);
}
