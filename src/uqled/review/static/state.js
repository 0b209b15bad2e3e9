// What the page knows: shared by its modules.

export const find = (id) => document.getElementById(id);

export const SIZE = 100; // samples on a page
export const FILTERS = ["state", "reason", "given", "suggested", "order", "method"]; // with a field
export const CHOSEN = ["lasso", "only", "second", "differ"]; // lists of samples that need not be flags
export const QUERY = [...FILTERS, "tier", ...CHOSEN]; // in the address

export const state = {
  info: null, // what the server says of the run and the method
  query: { order: "suspect" }, // filters
  samples: [], // of this page
  total: 0, // matching the filters
  before: 0, // of them, on earlier pages
  active: 0, // place in samples
  anchor: null, // where a range of selected samples begins
  selected: new Set(), // indices
  view: "grid", // or "single", "groups", "map" or "classes"
  byMouse: false, // the last thing done
  known: 0, // number of the last change seen by looking
};

export const isTyping = (target) => target?.matches?.("input, select, textarea");

export function getName(index) {
  return state.samples.find((sample) => sample.index === index)?.id ?? `sample ${index}`;
}

//  Filters that nothing is left of, and the usual order.
export const EVERYTHING = { state: "", reason: "", given: "", suggested: "", tier: "", lasso: "", only: "", second: "", differ: "", order: "suspect" };

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
