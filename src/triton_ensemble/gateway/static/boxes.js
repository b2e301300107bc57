// Boxes of an answer, drawn on the image that the request has in its row.

import { element, svg } from "./dom.js";

const SHORT = 20; // characters of a text that is written beside its box

/** Whether a row of an output is boxes: left, top, right and bottom, or four corners, in pixels. */
export function areBoxes({ name, type, dims }) {
  return /box/i.test(name) && /FP|INT/.test(type) && ["4", "4,2"].includes(dims.slice(1).join());
}

/** Return an image with boxes and their texts, or `otherwise` where the file is not an image. */
export function boxed(file, boxes, texts, otherwise) {
  const found = boxes
    .map((box, i) => ({ points: corners(box), text: texts[i] ?? "" }))
    .filter(({ points }) => new Set(points.map(String)).size > 1); // others fill up the row
  const picture = element("img", { alt: `${file.name}, with ${found.length} boxes` });
  const figure = element("div", { class: "boxed" }, picture);
  picture.addEventListener("load", () => {
    const { naturalWidth: width, naturalHeight: height } = picture;
    URL.revokeObjectURL(picture.src);
    const size = Math.max(width, height) / 50;
    figure.append(
      svg("svg", { viewBox: `0 0 ${width} ${height}` }, ...found.map((box) => drawn(box, size))),
    );
  });
  picture.addEventListener("error", () => figure.replaceWith(...otherwise));
  picture.src = URL.createObjectURL(file);
  return figure;
}

function corners(box) {
  if (Array.isArray(box[0])) return box;
  const [left, top, right, bottom] = box;
  return [[left, top], [right, top], [right, bottom], [left, bottom]];
}

function drawn({ points, text }, size) {
  const [[x, y]] = points;
  const place = { x, y: Math.max(y - size / 4, size), "font-size": size };
  return svg(
    "g",
    {},
    svg("title", {}, text),
    svg("polygon", { points: points.join(" ") }),
    svg("text", place, text.length <= SHORT ? text : ""),
  );
}
