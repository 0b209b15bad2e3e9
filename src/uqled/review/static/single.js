// One sample large: its picture with zoom, its text or row, and what speaks for which class.

import { ask } from "./api.js";
import { drawSingle } from "./drawing.js";
import { find, state } from "./state.js";
import { watchZoom } from "./zoom.js";

const contents = new Map(); // texts and rows at full length, by index
let shown = null; // index of the sample whose picture is on the page
let decideClass = () => {};

export const onClass = (listener) => (decideClass = listener);

export async function showSingle() {
  const sample = state.samples[state.active];
  if (state.view !== "single" || !sample) return;
  const { kind } = state.info;
  if (kind === "images" || kind === "none") {
    draw(sample, null);
    const next = state.samples[state.active + 1];
    if (next && kind === "images") new Image().src = `picture/${next.index}`;
    return;
  }
  draw(sample, contents.get(sample.index) ?? sample.preview);
  if (contents.has(sample.index)) return;
  contents.set(sample.index, (await ask(`api/sample/${sample.index}`)).content);
  if (state.samples[state.active] === sample && state.view === "single") draw(sample, contents.get(sample.index));
}

function draw(sample, content) {
  const box = find("single");
  const [figure, about] = drawSingle(sample, state.info, { content, decide: decideClass });
  // A picture that is on the page stays, with its zoom.
  const same = shown === sample.index && state.info.kind === "images" && box.querySelector("figure");
  box.replaceChildren(same || figure, about);
  if (!same && state.info.kind === "images") watchZoom(figure);
  shown = sample.index;
}
