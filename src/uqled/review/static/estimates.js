// How many labels are wrong, how many flags are real, how many errors are left: estimates that
// follow the decisions. They are asked for apart from the decisions, which never wait for them.

import { ask } from "./api.js";
import { formatNumber, formatPercent, formatRange, makeElement } from "./drawing.js";
import { find } from "./state.js";

const PAUSE = 400; // milliseconds after a decision, so that quick ones share one estimate
const PATIENCE = 4000; // milliseconds until it is asked for again where the server does not answer
const WORTH = 0.1; // going on is worth it while at least this share of the next ones are errors
const SINGLE_NUMBER = 0.1; // a share whose interval is wider is a range, as on the command line

let target = null; // { method, number }: the flags and the last change that the page knows of
let estimatesNow = null; // the estimates on the page
let isAsking = false; // a request is under way
let hasNone = false; // no method estimated anything: there is nothing to follow
let listener = () => {};

export const getEstimates = () => estimatesNow;
export const onEstimates = (call) => (listener = call);

// Bring the estimates up to a change.
export function follow(method, change) {
  target = { method, number: change };
  if (hasNone || isUpToDate()) return;
  find("estimates-box").setAttribute("aria-busy", "true");
  if (isAsking) return;
  isAsking = true;
  setTimeout(renew, estimatesNow?.method === method ? PAUSE : 0);
}

// Ask for the estimates again: the list has changed without a decision about a sample.
export function renewEstimates() {
  estimatesNow = null;
  find("bulk-button").hidden = true;
  if (target) follow(target.method, target.number);
}

function isUpToDate() {
  return estimatesNow !== null && estimatesNow.method === target.method && estimatesNow.number >= target.number;
}

async function renew() {
  try {
    const answer = await ask("api/estimates", { method: target.method });
    const { estimates } = answer;
    hasNone = find("estimates-box").hidden = estimates === null;
    find("bulk-button").hidden = hasNone || estimates.bulk.length === 0;
    if (hasNone) return;
    const previous = estimatesNow;
    estimatesNow = estimates;
    draw(estimates);
    const hasChanged = previous?.method === estimates.method && previous.number !== estimates.number;
    if (hasChanged) answer.changed = describeChange(previous, estimates);
    answer.isLatest = answer.number >= target.number; // else the counts on the page are newer
    await listener(answer, hasChanged);
  } catch {
    setTimeout(() => follow(target.method, target.number), PATIENCE);
    return;
  } finally {
    isAsking = false;
  }
  if (isUpToDate()) find("estimates-box").setAttribute("aria-busy", "false");
  else follow(target.method, target.number); // decisions were made meanwhile
}

// What the last decisions changed.
function describeChange(before, after) {
  const nMore = after.flagged - before.flagged;
  const flags = nMore === 0 ? "" : ` ${formatNumber(Math.abs(nMore))} ${nMore > 0 ? "more" : "fewer"} flagged,`;
  const [now, earlier] = [after, before].map((one) => formatWhole(one.wrong.value));
  return ` Now, after ${countDecisions(after.verdicts)}:${flags} about ${now} wrong labels in all, ${now === earlier ? "as before" : `before it was ${earlier}`}.`;
}

// What the audit's verdicts say so far.
export function showAudit(audit) {
  find("audit-note").hidden = audit === null;
  const nOpen = audit ? audit.n - audit.judged : 0;
  find("audit").textContent = audit === null ? "Begin an audit" : nOpen ? `Go on with the audit: ${nOpen} left` : "Show the audit’s samples";
  if (audit === null) return;
  const { errors, precision } = audit;
  find("audit-note").textContent = errors ? `Audit: ${audit.judged} of ${audit.n} judged, ${audit.wrong} wrong. About ${formatWhole(errors.value)} labels are wrong in all (${formatWhole(errors.low)} to ${formatWhole(errors.high)}), and ${formatRange(precision.low, precision.high)} of the flags are real. ${audit.advice}` : `Audit: ${audit.n} samples are drawn, none is judged yet.`;
}

const countDecisions = (n) => `${formatNumber(n)} ${n === 1 ? "decision" : "decisions"}`;
const formatWhole = (value) => formatNumber(Math.max(0, Math.round(value)));

function draw(estimates) {
  const { verdicts, samples, flagged, wrong, real, real_confidence, left, left_flagged, next_errors } = estimates;
  const scale = Math.max(1, flagged, 1.5 * wrong.value); // labels at the right end of the bars
  find("estimates-head").textContent = `about ${formatWhole(wrong.value)}` + (formatWhole(wrong.low) === formatWhole(wrong.high) ? "" : ` (${formatWhole(wrong.low)}–${formatWhole(wrong.high)})`);
  const rows = [row(`Of ${formatNumber(samples)} labels`, wrong, formatWhole, scale), row("Not decided yet", left, formatWhole, scale)];
  if (real !== null) rows.splice(1, 0, row(`Of ${formatNumber(flagged)} ${flagged === 1 ? "flag" : "flags"}`, real, formatPercent, 1, real_confidence === 0.8 ? "" : ` (${formatPercent(real_confidence)} interval)`));
  if (real !== null) rows[1][0].classList.toggle("range-only", real.high - real.low > SINGLE_NUMBER);
  find("estimates").replaceChildren(...rows.flat());
  const [n, errors] = next_errors;
  const isFinished = n === 0;
  const isEnough = !isFinished && errors < WORTH * n;
  find("verdict").textContent = isFinished ? "All decided" : isEnough ? "You can stop" : verdicts ? "Go on" : "Begin";
  find("verdict").className = `verdict ${isFinished || isEnough ? "done" : ""}`;
  find("next-errors").textContent = isFinished ? "Every flag is decided." : `Of the next ${n}, about ${formatWhole(errors)} are wrong.`;
  const basis = verdicts ? `after ${countDecisions(verdicts)}` : "before any decision";
  find("estimates-basis").textContent = `Estimated ${basis}. About ${formatWhole(left.value - left_flagged)} of the undecided wrong labels are not flagged.`;
  drawDoubt(estimates);
}

function drawDoubt({ unsure, flagged, open_hundred }) {
  find("unsure-box").hidden = unsure === null;
  find("estimates-box").classList.toggle("vague", unsure !== null);
  if (unsure !== null) find("unsure").replaceChildren(makeElement("b", {}, "Unsure."), ` ${unsure}`);
  find("hundred").hidden = flagged <= 100 || open_hundred === 0;
  find("hundred").textContent = open_hundred < 100 ? `Decide 100 at random: ${open_hundred} left` : "Decide 100 at random";
}

// A line of the table, and below it where the interval lies.
function row(name, { value, low, high }, text, scale, note = "") {
  const range = makeElement("span", { class: "interval" });
  range.style.left = `${(100 * low) / scale}%`;
  range.style.width = `${(100 * (Math.min(high, scale) - low)) / scale}%`;
  const point = makeElement("span", { class: "point" });
  point.style.left = `${(100 * value) / scale}%`;
  return [
    makeElement("tr", {}, makeElement("th", { scope: "row" }, name), makeElement("td", { class: "value" }, text(value)), makeElement("td", { class: "ends-at" }, text(low) === text(high) ? "" : `${text(low)} to ${text(high)}`, note ? makeElement("span", { class: "note" }, note) : null)),
    makeElement("tr", { class: "scale", "aria-hidden": "true" }, makeElement("td", { colspan: 3 }, makeElement("span", { class: "range" }, range, point))),
  ];
}
