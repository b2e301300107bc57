// The answer as people read it: texts, labels with their scores, images, numbers; the JSON behind a click.

import { areBoxes, boxed } from "./boxes.js";
import { element, isText } from "./dom.js";
import { timeline } from "./timeline.js";

// How files of images begin, as base64.
const IMAGES = {
  "image/png": /^iVBORw0KGgo/,
  "image/jpeg": /^\/9j\//,
  "image/gif": /^R0lGOD/,
  "image/webp": /^UklGR.{6}XRUJQ/, // RIFF, a length, WEBP
};
const MOST = { bars: 5, lines: 50, numbers: 16, json: 100_000 };

/** Return an answer, JSON by output, of a request with these rows: a name and perhaps a file of each. */
export function shown(answer, facts, sent) {
  if (!facts.batch) return element("ul", { class: "answers" }, card({ name: null, file: sent[0]?.file }, answer, facts));
  const errors = new Map((answer.errors ?? []).map((error) => [error.row, error]));
  const count = Math.max(...facts.outputs.map(({ name }) => answer[name]?.length ?? 0));
  const rows = Array.from({ length: count }, (_, i) => {
    const error = errors.get(i);
    if (error) return failed(error.file ?? sent[i]?.name, error.error);
    return card(
      (sent.length === count ? sent[i] : null) ?? { name: `Row ${i}` },
      Object.fromEntries(facts.outputs.map(({ name }) => [name, answer[name]?.[i]])),
      facts,
    );
  });
  if (!facts.sequential || count === 1) return element("ul", { class: "answers" }, ...rows);
  const file = sent.length === 1 ? sent[0].file : null; // the recording of which the rows are
  const whole = facts.outputs.filter(({ name }) => answer[name]?.every((row) => row !== null));
  const texts = whole.filter(isText).map(({ name }) => answer[name]);
  const telling = rows.filter((_, i) => texts.some((cells) => cells[i][0] !== ""));
  const along = whole.filter(({ name, dims }) => dims.join() === "1" && !answer[name].some(([cell]) => cell?.base64));
  const drawing = along.length ? [timeline(answer, { outputs: along }, file)] : []; // files are in their rows
  return element("div", {}, ...drawing, element("ul", { class: "answers" }, ...telling));
}

/** Return an error of a row, or of the request where `name` is null. */
export function failed(name, text) {
  const title = name === null ? [] : [element("h3", {}, name)];
  return element("li", { class: "error" }, element("div", { role: "alert" }, ...title, text));
}

/** Return the text of an answer, for who wants it as it is. */
export function raw(text) {
  const rest = text.length - MOST.json;
  const content = rest > 0 ? `${text.slice(0, MOST.json)}\n… ${rest} more characters` : text;
  return element("details", {}, element("summary", {}, "JSON"), element("pre", { tabindex: "0" }, content));
}

function card({ name, file }, values, facts) {
  const title = name === null ? [] : [element("h3", {}, name)];
  const given = facts.outputs.filter(({ name }) => (values[name] ?? null) !== null); // a step may leave out others
  const outputs = given.map((output) => ({
    ...output,
    value: values[output.name],
    cells: [values[output.name]].flat(Infinity),
  }));
  const list = element("dl");
  for (const output of outputs) {
    if (outputs.some((other) => other.scores === output)) continue; // they are with their labels
    output.scores = facts.sequential ? null : scoresOf(output, outputs);
    output.isListed = outputs.some(areBoxes); // in the order of the boxes
    const content = file && areBoxes(output) ? [withBoxes(output, file, outputs)] : readable(output);
    list.append(element("dt", {}, titleOf(output)), element("dd", {}, ...content));
  }
  return element("li", {}, ...title, list);
}

const titleOf = ({ name, scores }) => (scores && scores.name !== name ? `${name}, ${scores.name}` : name);

/** Return the output that scores the values of one: its own probabilities, or, for labels, another's. */
function scoresOf(output, outputs) {
  const { type, cells } = output;
  if (isScore(output)) {
    const sum = cells.reduce((total, score) => total + score, 0);
    return cells.length > 1 && Math.abs(sum - 1) < 0.02 ? output : null;
  }
  const areLabels = type === "STRING" && cells.every((cell) => typeof cell === "string");
  const fits = (other) =>
    isScore(other) && other.cells.length === cells.length && !outputs.some(({ scores }) => scores === other);
  return areLabels ? (outputs.find(fits) ?? null) : null;
}

function isScore({ type, cells }) {
  return type.includes("FP") || type === "BF16"
    ? cells.every((cell) => cell !== null && cell >= 0 && cell <= 1)
    : false;
}

function readable({ type, cells, scores, name, isListed }) {
  if (scores) return [bars(cells, scores, isListed)];
  if (type === "STRING") return cells.map((cell) => text(cell, name));
  if (cells.length <= MOST.numbers) return [cells.map(number).join(", ")];
  return [
    `${cells.slice(0, 8).map(number).join(", ")}, … `,
    element("span", { class: "quiet" }, `${cells.length} values`),
  ];
}

/** Return the boxes of an output on the image of its row, with the texts of another output, or else its integers. */
function withBoxes(output, file, outputs) {
  const beside = outputs.filter(
    ({ dims, cells }) => dims.join() === String(output.dims[0]) && cells.length === output.value.length,
  );
  const labels = beside.find(({ type }) => type === "STRING") ?? beside.find(({ type }) => type.includes("INT"));
  return boxed(file, output.value, (labels?.cells ?? []).map(String), readable(output));
}

/** Return labels with their scores: all as they are listed, or the best first. */
function bars(cells, scores, isListed) {
  const most = isListed ? MOST.lines : MOST.bars;
  const own = scores.cells === cells;
  const pairs = scores.cells
    .map((score, i) => ({ label: own ? `${i}` : cells[i], score }))
    .filter(({ label, score }) => label !== "" || score) // others fill up the row
    .sort((a, b) => (isListed ? 0 : b.score - a.score));
  const best = pairs
    .slice(0, most)
    .map(({ label, score }) =>
      element(
        "li",
        {},
        element("span", { class: "label" }, label),
        element("meter", { min: 0, max: 1, value: score, "aria-label": scores.name }),
        score.toFixed(3),
      ),
    );
  const rest =
    pairs.length > most ? [element("li", { class: "quiet" }, `… ${pairs.length - most} more`)] : [];
  return element("ol", { class: "bars" }, ...best, ...rest);
}

function text(cell, name) {
  const content = cell?.base64;
  if (content === undefined) return element("p", { class: "text" }, cell ?? "null");
  const kind = Object.keys(IMAGES).find((kind) => IMAGES[kind].test(content));
  if (kind)
    return element("img", { src: `data:${kind};base64,${content}`, alt: `${name}, an image` });
  return element("p", {}, `${Math.floor((content.length * 3) / 4)} bytes`);
}

const number = (value) =>
  typeof value === "number" && !Number.isInteger(value)
    ? Number(value.toPrecision(4)).toString()
    : String(value);
