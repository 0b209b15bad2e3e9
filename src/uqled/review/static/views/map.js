// The map: every sample a point, alike ones side by side. Draw around points to see them in the
// grid, click one to see it large.

import { ask, askBytes } from "./api.js";
import { formatNumber, formatPercent, makeElement } from "./drawing.js";
import { makePainter } from "./painter.js";
import { find, state } from "./state.js";

const CLICK_RADIUS = 12; // pixels within which a click means a point
const DRAG_DISTANCE = 6; // pixels from which a press is no click
const STEP = 700; // milliseconds between looks at how far the map is
const CORNERS = 180; // of a lasso, sent to the server
const SLOW_FRAME = 34; // milliseconds: slower than thirty frames a second is seen as a stutter
const QUICK_FRAME = 20; // milliseconds: there is time for more points
const MIN_POINTS = 20_000; // points drawn while the map moves, however slow that is
const REST_TIME = 200; // milliseconds without a movement after which all points are drawn
const N_LISTED = 12; // classes in the legend

let painter = null;
let places = null; // [x, y, x, y, ...] from -1 to 1
let values = null; // what points are coloured by
let version = 0; // of the places
const view = { x: 0, y: 0, scale: 1 }; // the middle of the canvas, and pixels per half of it
let tool = "lasso";
let path = []; // of the lasso, in pixels
let chooseSamples = () => {};
let openSample = () => {};

export const onLasso = (listener) => (chooseSamples = listener);
export const onPoint = (listener) => (openSample = listener);
export const isMap = () => state.view === "map";

export async function showMap() {
  if (!painter) begin();
  fit();
  if (!state.byMouse) find("map-canvas").focus({ preventScroll: true });
  await checkMap(true);
}

async function checkMap(isReturn = false) {
  const about = await ask("api/map");
  find("map-note").textContent = describe(about);
  if (about.version > version) {
    places = new Float32Array(await askBytes("api/map/places"));
    version = about.version;
    painter.setPlaces(places);
    await colour();
  } else if (isReturn) await colour(); // decisions were made meanwhile
  if (!about.ready && !about.problem && isMap()) setTimeout(() => isMap() && checkMap().catch(() => {}), STEP);
}

function describe({ ready, basis, samples, laid_out, is_placing, share, seconds, seconds_left, problem }) {
  const basisNote = basis === "features" ? "" : " This run has no features, so samples are placed by their predicted probabilities. Runs of the default model have them.";
  if (problem) return `The map cannot be computed: ${problem}.`;
  const nPlaced = samples - laid_out;
  const placedNote = nPlaced ? ` ${formatNumber(laid_out)} of them are laid out by t-SNE; each of the others lies between the most similar of these.` : "";
  if (ready) return `${formatNumber(samples)} samples, with similar ones side by side. Draw around some to see them in the grid, click one to see it large.${placedNote}${basisNote}`;
  const step = is_placing && nPlaced ? `placing ${formatNumber(nPlaced)} samples between those` : `laying out ${formatNumber(laid_out)} samples`;
  const timeLeft = seconds_left === null ? "" : `, about ${formatDuration(seconds_left)} left`;
  return `This is a first draft. The map is being computed (${step}): ${formatPercent(share)}, ${formatDuration(seconds)} so far${timeLeft}.${basisNote}`;
}

const formatDuration = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`);

// ---- colours

const GREY = [150, 158, 168];
const isDark = window.matchMedia("(prefers-color-scheme: dark)");
const DECISIONS = [GREY, [43, 111, 190], [216, 112, 10], [128, 84, 200]];

function chooseClassColour(k) {
  const hue = (k * 137.508) % 360; // neighbouring numbers far apart
  const light = (isDark.matches ? 0.58 : 0.42) + 0.14 * (Math.floor(k / 12) % 2);
  const part = (n) => {
    const at = (n + hue / 30) % 12;
    return Math.round(255 * (light - 0.62 * Math.min(light, 1 - light) * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return [part(0), part(8), part(4)];
}

function chooseColour(by, value) {
  if (by === "decision") return DECISIONS[value] ?? GREY;
  if (by !== "probability") return chooseClassColour(value);
  if (value === 255) return GREY;
  const p = value / 250;
  return [Math.round(120 + 95 * p), Math.round(150 - 110 * p), Math.round(190 - 150 * p)];
}

const packColour = ([red, green, blue]) => red | (green << 8) | (blue << 16);

export async function colour() {
  if (!places) return;
  const by = find("map-by").value;
  const bytes = await askBytes("api/map/values", { by, method: state.info.method });
  values = by === "given" || by === "suggested" ? new Uint32Array(bytes) : new Uint8Array(bytes);
  let largest = 0;
  for (let at = 0; at < values.length; at += 1) if (values[at] > largest) largest = values[at];
  const palette = Uint32Array.from({ length: largest + 1 }, (_, value) => packColour(chooseColour(by, value)));
  const counts = new Uint32Array(largest + 1);
  const colours = new Uint32Array(values.length);
  for (let at = 0; at < values.length; at += 1) {
    counts[values[at]] += 1;
    colours[at] = palette[values[at]];
  }
  painter.setColours(colours);
  drawLegend(by, [...counts.entries()].filter(([, n]) => n));
  drawMoving();
}

function drawLegend(by, counts) {
  const names = { decision: ["undecided", "kept", "relabelled", "dropped"] }[by] ?? state.info.classes;
  const entry = (rgb, text) => {
    const dot = makeElement("span", { class: "dot" });
    dot.style.background = `rgb(${rgb.join(" ")})`;
    return makeElement("li", {}, dot, text);
  };
  if (by === "probability") {
    const steps = [0, 0.25, 0.5, 0.75, 1].map((p) => entry(chooseColour(by, Math.round(250 * p)), formatPercent(p)));
    return find("map-legend").replaceChildren(...steps);
  }
  const largestFirst = counts.sort((a, b) => b[1] - a[1]);
  const entries = largestFirst.slice(0, N_LISTED).map(([k, n]) => entry(chooseColour(by, k), `${names[k]} ${formatNumber(n)}`));
  if (largestFirst.length > N_LISTED) entries.push(makeElement("li", {}, `and ${formatNumber(largestFirst.length - N_LISTED)} more`));
  find("map-legend").replaceChildren(...entries);
}

// ---- drawing and moving

let isFrameWaiting = false;
let budget = MIN_POINTS; // points that are drawn while the map moves
let lastMove = 0; // when that was last done, 0: the map rests
let restTimer = null; // draws all points when it has not moved for a while

function draw() {
  if (isFrameWaiting) return;
  isFrameWaiting = true;
  requestAnimationFrame(() => {
    isFrameWaiting = false;
    painter.draw(view, Infinity);
    drawAbove();
  });
}

// A frame of a movement, or the first one: as many points as can be drawn without a stutter, all of
// them when it rests.
function drawMoving() {
  clearTimeout(restTimer);
  restTimer = setTimeout(() => {
    lastMove = 0;
    draw();
  }, REST_TIME);
  if (isFrameWaiting) return;
  isFrameWaiting = true;
  requestAnimationFrame((now) => {
    isFrameWaiting = false;
    const n = places ? places.length / 2 : 0;
    const frame = lastMove ? now - lastMove : QUICK_FRAME; // milliseconds
    lastMove = now;
    if (frame > SLOW_FRAME) budget = Math.max(MIN_POINTS, Math.min(n, budget) * Math.max(0.1, QUICK_FRAME / frame));
    else if (frame < QUICK_FRAME) budget = Math.min(n, 1.05 * budget);
    painter.draw(view, budget);
    drawAbove();
  });
}

const isByKeyboard = () => find("map-canvas").matches(":focus-visible");

// The lasso; by keyboard a cross, and what is nearest to it.
function drawAbove() {
  painter.drawAbove(path, isByKeyboard());
  if (places && isByKeyboard()) showHint(findNearest(painter.width / 2, painter.height / 2, Infinity), painter.width / 2, painter.height / 2);
}

function fit() {
  const box = find("map-canvas").getBoundingClientRect();
  painter.resize(box.width, box.height);
  drawMoving();
}

const measureHalf = () => Math.min(painter.width, painter.height) * 0.47 * view.scale;
const toMap = (x, y) => [view.x + (x - painter.width / 2) / measureHalf(), view.y - (y - painter.height / 2) / measureHalf()];

function zoom(factor, x, y) {
  const [mapX, mapY] = toMap(x, y);
  view.scale = Math.min(400, Math.max(0.5, view.scale * factor));
  view.x = mapX - (x - painter.width / 2) / measureHalf();
  view.y = mapY + (y - painter.height / 2) / measureHalf();
  drawMoving();
}

function pan(dx, dy) {
  view.x -= dx / measureHalf();
  view.y += dy / measureHalf();
  drawMoving();
}

// The nearest point to a place on the canvas, so many pixels from it at the most; or -1.
function findNearest(x, y, radius = CLICK_RADIUS) {
  const [mapX, mapY] = toMap(x, y);
  let nearestPoint = -1;
  let smallestDistance = (radius / measureHalf()) ** 2;
  for (let i = 0; i < places.length / 2; i += 1) {
    const d = (places[2 * i] - mapX) ** 2 + (places[2 * i + 1] - mapY) ** 2;
    if (d < smallestDistance) [smallestDistance, nearestPoint] = [d, i];
  }
  return nearestPoint;
}

// Corners in whole thousandths, as the server takes them.
function choose(corners) {
  const step = Math.ceil(corners.length / CORNERS);
  const text = corners.filter((_, at) => at % step === 0).map(([x, y]) => toMap(x, y).map((one) => Math.round(1000 * one)).join(",")).join(",");
  path = [];
  chooseSamples(text);
}

const isFar = ([x, y], [otherX, otherY]) => Math.hypot(x - otherX, y - otherY) > DRAG_DISTANCE;

function begin() {
  const canvas = find("map-canvas");
  painter = makePainter(canvas, find("map-lasso"));
  const pointers = new Map();
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / (event.deltaMode ? 25 : 400)), ...at(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (!places) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    path = pointers.size === 1 ? [at(event)] : [];
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return event.pointerType === "mouse" && places && showHint(findNearest(...at(event)), ...at(event));
    const [x, y] = at(event);
    if (pointers.size === 2) {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
      const distance = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
      zoom(distance([x, y]) / distance(before), (x + other[0]) / 2, (y + other[1]) / 2);
    } else if (tool === "move" || event.buttons === 4 || event.shiftKey) {
      if (path.length && isFar(path[0], [x, y])) path = []; // no click
      pan(x - before[0], y - before[1]);
    } else {
      path.push([x, y]);
      drawAbove();
    }
    pointers.set(event.pointerId, [x, y]);
  });
  canvas.addEventListener("pointerup", (event) => {
    pointers.delete(event.pointerId);
    if (path.length && !path.some((corner) => isFar(path[0], corner))) {
      const point = findNearest(...path[0]);
      path = [];
      if (point >= 0) openSample(point);
    } else if (tool === "lasso" && path.length > 2) choose(path);
    path = [];
    draw();
  });
  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => (find("map-hint").hidden = true));
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.key in moves) pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.4, painter.width / 2, painter.height / 2);
    else if (event.key === "-") zoom(1 / 1.4, painter.width / 2, painter.height / 2);
    else if (event.key === "Enter" && places) openSample(findNearest(painter.width / 2, painter.height / 2, Infinity));
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => {
    find("map-hint").hidden = true;
    draw();
  });
  window.addEventListener("resize", () => isMap() && fit());
  find("map-by").addEventListener("change", () => colour());
  isDark.addEventListener("change", () => colour());
  for (const name of ["lasso", "move"]) find(`map-${name}-tool`).addEventListener("click", () => setTool(name));
  find("map-in").addEventListener("click", () => zoom(1.6, painter.width / 2, painter.height / 2));
  find("map-out").addEventListener("click", () => zoom(1 / 1.6, painter.width / 2, painter.height / 2));
  find("map-all").addEventListener("click", () => {
    Object.assign(view, { x: 0, y: 0, scale: 1 });
    draw();
  });
  find("map-view").addEventListener("click", () => places && choose([[0, 0], [painter.width, 0], [painter.width, painter.height], [0, painter.height]]));
}

function setTool(name) {
  tool = name;
  for (const one of ["lasso", "move"]) find(`map-${one}-tool`).setAttribute("aria-pressed", String(one === name));
}

// What lies under the pointer or the cross.
function showHint(point, x, y) {
  const box = find("map-hint");
  box.hidden = point < 0 || !values; // the colours come after the places
  if (box.hidden || Number(box.dataset.index) === point) return placeHint(box, x, y);
  box.dataset.index = point;
  const by = find("map-by").value;
  const name = by === "given" || by === "suggested" ? `${by} ${state.info.classes[values[point]]}` : by === "probability" ? `wrong with ${values[point] === 255 ? "unknown probability" : formatPercent(values[point] / 250)}` : ["undecided", "kept", "relabelled", "dropped"][values[point]];
  const picture = state.info.kind === "images" ? makeElement("img", { src: `thumbnail/${point}`, alt: "" }) : null;
  box.replaceChildren(...[picture, makeElement("span", {}, name)].filter(Boolean));
  if (isByKeyboard()) find("status").textContent = `Nearest to the cross: sample ${formatNumber(point)}, ${name}`;
  placeHint(box, x, y);
}

function placeHint(box, x, y) {
  box.style.left = `${Math.min(x + 14, painter.width - 150)}px`;
  box.style.top = `${Math.min(y + 14, painter.height - 130)}px`;
}
