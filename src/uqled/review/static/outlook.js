// How many labels are wrong, how many flags are real, how many errors are left: estimates that
// follow the decisions. They are asked for apart from the decisions, which never wait for them.

import { ask } from "./api.js";
import { element, number, percent } from "./drawing.js";

const find = (id) => document.getElementById(id);
const PAUSE = 400; // milliseconds after a decision, so that quick ones share one estimate
const PATIENCE = 4000; // milliseconds until it is asked for again where the server does not answer

let wanted = null; // { method, number }: the flags and the last change that the page knows of
let shown = null; // the estimate on the page
let coming = false; // one was asked for
let none = false; // no method estimated anything: there is nothing to follow

// Bring the estimates up to a change.
export function follow(method, change) {
  wanted = { method, number: change };
  if (none || isUpToDate()) return;
  find("outlook-box").setAttribute("aria-busy", "true");
  if (coming) return;
  coming = true;
  setTimeout(renew, shown?.method === method ? PAUSE : 0);
}

function isUpToDate() {
  return shown !== null && shown.method === wanted.method && shown.number >= wanted.number;
}

async function renew() {
  try {
    const { outlook } = await ask("api/outlook", { method: wanted.method });
    none = find("outlook-box").hidden = outlook === null;
    if (none) return;
    shown = outlook;
    draw(outlook);
  } catch {
    setTimeout(() => follow(wanted.method, wanted.number), PATIENCE);
    return;
  } finally {
    coming = false;
  }
  if (isUpToDate()) find("outlook-box").setAttribute("aria-busy", "false");
  else follow(wanted.method, wanted.number); // decisions were made meanwhile
}

function draw(outlook) {
  const { verdicts, samples, flagged, wrong, real, left, left_flagged } = outlook;
  const scale = Math.max(1, flagged, 1.5 * wrong.value); // labels at the right end of the bars
  const whole = (value) => number(Math.max(0, Math.round(value)));
  const share = (value) => percent(value / Math.max(1, flagged));
  find("outlook-head").textContent = `about ${whole(wrong.value)} (${whole(wrong.low)}–${whole(wrong.high)})`;
  find("outlook").replaceChildren(
    ...row(`Of ${number(samples)} labels`, wrong, whole, scale),
    ...row(`Of ${number(flagged)} ${flagged === 1 ? "flag" : "flags"}`, real, share, scale),
    ...row("Not decided yet", left, whole, scale),
  );
  const after = verdicts ? `after ${number(verdicts)} ${verdicts === 1 ? "decision" : "decisions"}` : "before any decision";
  find("outlook-basis").textContent = `Estimated ${after}. About ${whole(left.value - left_flagged.value)} of the undecided wrong labels are not flagged.`;
  drawDoubt(outlook);
}

function drawDoubt({ doubt, flagged, open_hundred }) {
  find("outlook-doubt").hidden = doubt === null;
  find("outlook-box").classList.toggle("vague", doubt !== null);
  if (doubt === null) return;
  find("doubt").replaceChildren(element("b", {}, "Unsure."), ` ${doubt}`);
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
