// How many labels are wrong, how many flags are real, how many errors are left: estimates that
// follow the decisions. They are asked for apart from the decisions, which never wait for them.

import { ask } from "./api.js";
import { element, number, percent } from "./drawing.js";
import { find } from "./state.js";

const PAUSE = 400; // milliseconds after a decision, so that quick ones share one estimate
const PATIENCE = 4000; // milliseconds until it is asked for again where the server does not answer
const WORTH = 0.1; // going on is worth it while at least this share of the next ones are errors

let wanted = null; // { method, number }: the flags and the last change that the page knows of
let shown = null; // the estimates on the page
let coming = false; // they were asked for
let none = false; // no method estimated anything: there is nothing to follow
let listener = () => {};

export const latest = () => shown;
export const onEstimates = (call) => (listener = call);

// Bring the estimates up to a change.
export function follow(method, change) {
  wanted = { method, number: change };
  if (none || isUpToDate()) return;
  find("estimates-box").setAttribute("aria-busy", "true");
  if (coming) return;
  coming = true;
  setTimeout(renew, shown?.method === method ? PAUSE : 0);
}

function isUpToDate() {
  return shown !== null && shown.method === wanted.method && shown.number >= wanted.number;
}

async function renew() {
  try {
    const answer = await ask("api/estimates", { method: wanted.method });
    const { estimates } = answer;
    none = find("estimates-box").hidden = estimates === null;
    find("bulk-button").hidden = none || estimates.bulk.length === 0;
    if (none) return;
    const before = shown;
    shown = estimates;
    draw(estimates);
    const changed = before?.method === estimates.method && before.number !== estimates.number;
    if (changed) tellChange(before, estimates);
    await listener(answer, changed);
  } catch {
    setTimeout(() => follow(wanted.method, wanted.number), PATIENCE);
    return;
  } finally {
    coming = false;
  }
  if (isUpToDate()) find("estimates-box").setAttribute("aria-busy", "false");
  else follow(wanted.method, wanted.number); // decisions were made meanwhile
}

// What the last decisions changed, beside the list.
function tellChange(before, after) {
  const more = after.flagged - before.flagged;
  const text = more === 0 ? "" : ` ${number(Math.abs(more))} ${more > 0 ? "more" : "fewer"} flagged after the last decisions.`;
  find("order-note").textContent = `Most suspect first, after ${count(after.verdicts)}.${text}`;
}

const count = (n) => `${number(n)} ${n === 1 ? "decision" : "decisions"}`;
const whole = (value) => number(Math.max(0, Math.round(value)));

function draw(estimates) {
  const { verdicts, samples, flagged, wrong, real, left, left_flagged, next_errors } = estimates;
  const scale = Math.max(1, flagged, 1.5 * wrong.value); // labels at the right end of the bars
  find("estimates-head").textContent = `about ${whole(wrong.value)} (${whole(wrong.low)}–${whole(wrong.high)})`;
  const rows = [row(`Of ${number(samples)} labels`, wrong, whole, scale), row("Not decided yet", left, whole, scale)];
  if (real !== null) rows.splice(1, 0, row(`Of ${number(flagged)} ${flagged === 1 ? "flag" : "flags"}`, real, percent, 1));
  find("estimates").replaceChildren(...rows.flat());
  const [n, errors] = next_errors;
  const done = n === 0;
  const stop = !done && errors < WORTH * n;
  find("verdict").textContent = done ? "All decided" : stop ? "You can stop" : verdicts ? "Go on" : "Begin";
  find("verdict").className = `verdict ${done || stop ? "done" : ""}`;
  find("next-errors").textContent = done ? "Every flag is decided." : `Of the next ${n}, about ${whole(errors)} are wrong.`;
  const after = verdicts ? `after ${count(verdicts)}` : "before any decision";
  find("estimates-basis").textContent = `Estimated ${after}. About ${whole(left.value - left_flagged)} of the undecided wrong labels are not flagged.`;
  if (!find("order-note").textContent) find("order-note").textContent = "Most suspect first. The order follows your decisions.";
  drawDoubt(estimates);
}

function drawDoubt({ unsure, flagged, open_hundred }) {
  find("unsure-box").hidden = unsure === null;
  find("estimates-box").classList.toggle("vague", unsure !== null);
  if (unsure !== null) find("unsure").replaceChildren(element("b", {}, "Unsure."), ` ${unsure}`);
  find("hundred").hidden = flagged <= 100 || open_hundred === 0;
  find("hundred").textContent = open_hundred < 100 ? `Decide 100 at random: ${open_hundred} left` : "Decide 100 at random";
}

// A line of the table, and below it where the interval lies.
function row(name, { value, low, high }, text, scale) {
  const range = element("span", { class: "interval" });
  range.style.left = `${(100 * low) / scale}%`;
  range.style.width = `${(100 * (Math.min(high, scale) - low)) / scale}%`;
  const point = element("span", { class: "point" });
  point.style.left = `${(100 * value) / scale}%`;
  return [
    element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "value" }, text(value)), element("td", { class: "ends-at" }, `${text(low)} to ${text(high)}`)),
    element("tr", { class: "scale", "aria-hidden": "true" }, element("td", { colspan: 3 }, element("span", { class: "range" }, range, point))),
  ];
}
