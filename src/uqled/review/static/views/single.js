// One sample large: its picture with zoom, its text or row, and what speaks for which class.

import { ask } from "./api.js";
import { describeDecision, drawEvidence, drawSingle, makeElement, markColumns, markWords } from "./drawing.js";
import { find, state } from "./state.js";
import { watchZoom } from "./zoom.js";

const answers = new Map(); // content and evidence, by method and index, until somebody decides
let drawnIndex = null; // index of the sample whose picture is on the page
let decideClass = () => {};

export const onClass = (listener) => (decideClass = listener);
export const forgetEvidence = () => answers.clear();

export async function showSingle() {
  const sample = state.samples[state.active];
  if (state.view !== "single" || !sample) return;
  draw(sample, answers.get(makeKey(sample)));
  const answer = await fetchAnswer(sample);
  if (state.samples[state.active] === sample && state.view === "single") draw(sample, answer);
  const next = state.samples[state.active + 1]; // so that it is there at once
  if (!next || state.view !== "single") return;
  if (state.info.kind === "images") new Image().src = `picture/${next.index}`;
  fetchAnswer(next).catch(() => {});
}

const makeKey = (sample) => `${state.info.method} ${sample.index}`;

async function fetchAnswer(sample) {
  const key = makeKey(sample);
  if (!answers.has(key)) answers.set(key, await ask(`api/sample/${sample.index}`, { method: state.info.method }));
  return answers.get(key);
}

function draw(sample, answer) {
  const box = find("single");
  const [figure, about] = drawSingle(sample, state.info, { content: answer?.content ?? sample.preview, decide: decideClass });
  const evidence = answer ? drawEvidence(answer.evidence, sample, state.info) : "";
  if (answer?.opinions.length && !state.query.second) {
    const lines = answer.opinions.map(({ reviewer, action, label }) => makeElement("li", {}, `${reviewer}: ${describeDecision(action, label, state.info.classes)}`));
    about.querySelector(".state").after(makeElement("section", { class: "opinions" }, makeElement("h3", {}, "Second opinion"), makeElement("ul", {}, ...lines)));
  }
  if (answer && state.info.kind === "texts") markWords(figure.querySelector(".text"), answer.evidence.words);
  if (answer && state.info.kind === "table") markColumns(figure.querySelector(".row"), answer.evidence.columns.map(([name]) => name));
  // A picture that is on the page stays, with its zoom.
  const drawnFigure = drawnIndex === sample.index && state.info.kind === "images" && box.querySelector("figure");
  box.replaceChildren(drawnFigure || figure, about, evidence);
  if (!drawnFigure && state.info.kind === "images") watchZoom(figure);
  drawnIndex = sample.index;
}
