// The answer to a sequence, drawn along its rows: the sound that was sent, numbers as curves, texts where they come.

import { element, svg } from "./dom.js";

const WIDTH = 420;
const HEIGHT = 120;
const TOP = 20; // above it are the texts

/** Return a drawing of an answer of many rows to a request that is one sequence; `file` may be its recording. */
export function timeline(answer, facts, file) {
  const outputs = facts.outputs.filter(({ dims }) => dims.length === 1 && dims[0] === 1);
  const curves = outputs.filter(({ type }) => /FP|BF16/.test(type));
  const texts = outputs.filter(({ type }) => type === "STRING");
  const count = answer[facts.outputs[0].name].length;
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `The answer to ${count} rows` },
    ...curves.map(({ name }) => curve(answer[name].map(([value]) => value))),
    ...texts.flatMap(({ name }) => marks(answer[name])),
  );
  const end = element("span", {}, `${count} rows`);
  const names = element("span", {}, curves.map(({ name }) => name).join(", "));
  if (file)
    file.arrayBuffer().then((content) => {
      const { rate, samples } = sound(new DataView(content));
      drawing.prepend(wave(samples));
      end.textContent = `${(samples.length / rate).toFixed(1)} s`;
    });
  return element("div", { class: "timeline" }, drawing, element("p", { class: "quiet" }, names, end));
}

/** Return an area below values, of which the lowest is at the bottom, and 1 or the highest at the top. */
function curve(values) {
  const low = Math.min(0, ...values);
  const high = Math.max(1, ...values);
  const points = values.flatMap((value, i) => {
    const y = HEIGHT - ((value - low) / (high - low)) * (HEIGHT - TOP);
    return [i, i + 1].map((at) => `${(at / values.length) * WIDTH} ${y}`);
  });
  return svg("path", { class: "curve", d: `M0 ${HEIGHT}L${points.join("L")}V${HEIGHT}Z` });
}

/** Return a line and a text for each row that has one. */
function marks(rows) {
  return rows.flatMap(([text], i) => {
    const x = ((i + 1) / rows.length) * WIDTH;
    if (!text) return [];
    const side = x > WIDTH * 0.9 ? "late" : "";
    return [
      svg("path", { class: "mark", d: `M${x} ${TOP}V${HEIGHT}` }),
      svg("text", { class: side, x, y: TOP - 6 }, text),
    ];
  });
}

/** Return the rate and the samples of a WAV file of 16 bits. */
function sound(view) {
  let at = 12;
  let rate = 0;
  for (;;) {
    const [kind, size] = [view.getUint32(at), view.getUint32(at + 4, true)];
    if (kind === 0x666d7420) rate = view.getUint32(at + 12, true); // "fmt "
    if (kind === 0x64617461) {
      const bytes = Math.min(size, view.byteLength - at - 8);
      return { rate, samples: new Int16Array(view.buffer.slice(at + 8, at + 8 + bytes - (bytes % 2))) };
    }
    at += 8 + size + (size % 2);
  }
}

/** Return the shape of a sound: from the lowest to the highest sample of each column. */
function wave(samples) {
  const middle = (TOP + HEIGHT) / 2;
  const scale = (HEIGHT - TOP) / 2 / samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 1);
  const lines = Array.from({ length: WIDTH }, (_, x) => {
    const part = samples.subarray((x * samples.length) / WIDTH, ((x + 1) * samples.length) / WIDTH + 1);
    return `M${x} ${middle - Math.max(...part) * scale}V${middle - Math.min(...part) * scale}`;
  });
  return svg("path", { class: "wave", d: lines.join("") });
}
