// Selecting in the grid by drawing a box around samples with the mouse.

import { select } from "./list.js";
import { find, state } from "./state.js";

const DRAG_DISTANCE = 8; // pixels from which a press is a box and no click

export function watchRubberBand(area) {
  let start = null; // where the box begins, on the page
  let selectionBefore = []; // what was selected: Ctrl and Shift add to it
  let isBox = false;
  const band = find("band");
  area.addEventListener("pointerdown", (event) => {
    const isFree = event.pointerType === "mouse" && event.button === 0 && state.view === "grid" && !event.target.closest("button, select, input, a, .tick");
    if (!isFree) return;
    start = [event.pageX, event.pageY];
    selectionBefore = event.ctrlKey || event.shiftKey || event.metaKey ? [...state.selected] : [];
    isBox = false;
  });
  window.addEventListener("pointermove", (event) => {
    if (!start) return;
    const [x, y] = [event.pageX, event.pageY];
    if (!isBox && Math.hypot(x - start[0], y - start[1]) < DRAG_DISTANCE) return;
    isBox = true;
    const box = { left: Math.min(x, start[0]), top: Math.min(y, start[1]), right: Math.max(x, start[0]), bottom: Math.max(y, start[1]) };
    Object.assign(band.style, { left: `${box.left}px`, top: `${box.top}px`, width: `${box.right - box.left}px`, height: `${box.bottom - box.top}px` });
    band.hidden = false;
    select([...new Set([...selectionBefore, ...listInside(box)])]);
  });
  window.addEventListener("pointerup", () => {
    start = null;
    band.hidden = true;
  });
  // The click that ends a box is none on a sample.
  area.addEventListener("click", (event) => {
    if (!isBox) return;
    isBox = false;
    event.stopPropagation();
  }, true);
}

function listInside({ left, top, right, bottom }) {
  const items = [...find("list").children].filter((item) => {
    const box = item.getBoundingClientRect();
    const [x, y] = [box.left + window.scrollX, box.top + window.scrollY];
    return x < right && x + box.width > left && y < bottom && y + box.height > top;
  });
  return items.map((item) => Number(item.dataset.index));
}
