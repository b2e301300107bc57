// The pipeline as a drawing: inputs, steps and outputs in layers, as arrows go; down on narrow screens.

import { svg } from "./dom.js";

const NODE = { width: 128, height: 46 };
// Between layers: `along`, and `named` where arrows have names.
const GAP = { across: { along: 40, named: 92, aside: 18 }, down: { along: 40, named: 40, aside: 14 } };
const SWEEPS = 9; // an odd number: the last one follows the arrows

/** Return the drawing as SVG; `down`: from the top to the bottom, else from left to right. */
export function drawing(facts, down) {
  const { nodes, edges } = wiring(facts);
  const layers = layered(nodes, edges);
  order(layers, down);
  const size = place(layers, edges, down);
  const picture = svg("svg", { viewBox: `0 0 ${size.width} ${size.height}`, width: size.width, role: "img" });
  picture.setAttribute("aria-label", edges.map((edge) => `${edge.from.name} to ${edge.to.name}`).join(", "));
  picture.append(...edges.map((edge) => arrow(edge, down)), ...nodes.map(box));
  picture.style.minWidth = `${Math.round(size.width * 0.66)}px`;
  return picture;
}

/** Return what is drawn: nodes, and edges by what goes from one to another. */
function wiring({ inputs, outputs, steps, tensors }) {
  const node = (name, kind, note) => ({ name, kind, note, layer: 0, before: [], after: [] });
  const sources = new Map(inputs.map(({ name }) => [name, node(name, "tensor", tensors[name] ?? "")]));
  const models = new Map(steps.map(({ name, backend }) => [name, node(name, "step", backend)]));
  const writers = new Map(steps.flatMap((step) => step.writes.map((name) => [name, models.get(step.name)])));
  const edges = new Map();
  const nodes = [...sources.values(), ...models.values()];
  const connect = (from, to, label, kind) => {
    const key = `${nodes.indexOf(from)} ${nodes.indexOf(to)}`;
    if (edges.has(key)) edges.get(key).labels.push(label);
    else edges.set(key, { from, to, labels: [label], kind });
  };
  for (const step of steps) {
    const to = models.get(step.name);
    for (const name of step.reads)
      connect(writers.get(name) ?? sources.get(name), to, writers.has(name) ? name : "", "data");
    for (const name of step.calls) if (models.has(name)) connect(to, models.get(name), "calls", "call");
  }
  for (const { name } of outputs) {
    nodes.push(node(name, "tensor", tensors[name] ?? ""));
    connect(writers.get(name), nodes.at(-1), "", "data");
  }
  return { nodes, edges: [...edges.values()] };
}

/** Return the nodes by layer; an edge over several of them gets a place in each, `via`. */
function layered(nodes, edges) {
  for (let turn = 0; turn < nodes.length; turn++)
    // as often as the longest way has nodes
    for (const { from, to } of edges) to.layer = Math.max(to.layer, Math.min(from.layer + 1, nodes.length));
  for (const node of nodes) {
    const read = edges.filter(({ from }) => from === node).map(({ to }) => to.layer);
    if (!edges.some(({ to }) => to === node) && read.length) node.layer = Math.min(...read) - 1;
  }
  const layers = [];
  const put = (node) => (layers[node.layer] ??= []).push(node);
  nodes.forEach(put);
  for (const edge of edges) {
    edge.via = [];
    for (let layer = edge.from.layer + 1; layer < edge.to.layer; layer++)
      edge.via.push({ kind: "via", layer, before: [], after: [] });
    edge.via.forEach(put);
    const way = [edge.from, ...edge.via, edge.to];
    for (let i = 1; i < way.length; i++) {
      way[i].before.push(way[i - 1]);
      way[i - 1].after.push(way[i]);
    }
  }
  return layers.filter(Boolean);
}

/** Put each node where its neighbours are, there and back, so that few edges cross and most are straight. */
function order(layers, down) {
  layers.forEach((layer) =>
    spread(
      layer,
      layer.map((_, i) => i),
      down,
    ),
  );
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const side = ["before", "after"][sweep % 2];
    for (const layer of sweep % 2 ? layers.toReversed() : layers) {
      const wish = new Map(
        layer.map((node) => [node, node[side].length ? mean(node[side].map(({ at }) => at)) : node.at]),
      );
      layer.sort((a, b) => wish.get(a) - wish.get(b));
      spread(
        layer,
        layer.map((node) => wish.get(node)),
        down,
      );
    }
  }
}

/** Place the nodes of a layer as near to where they wish to be as their sizes and order let them. */
function spread(layer, wishes, down) {
  const size = ({ kind }) => (kind === "via" ? 0 : down ? NODE.width : NODE.height);
  const apart = (i) => (size(layer[i - 1]) + size(layer[i])) / 2 + (down ? GAP.down : GAP.across).aside;
  const [first, last] = [[...wishes], [...wishes]];
  for (let i = 1; i < layer.length; i++) first[i] = Math.max(wishes[i], first[i - 1] + apart(i));
  for (let i = layer.length - 2; i >= 0; i--) last[i] = Math.min(wishes[i], last[i + 1] - apart(i + 1));
  layer.forEach((node, i) => (node.at = (first[i] + last[i]) / 2));
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Give each node its centre, x and y; return the size of it all. */
function place(layers, edges, down) {
  const [size, gap] = down ? [NODE.height, GAP.down] : [NODE.width, GAP.across];
  const named = new Set(edges.filter(({ labels }) => labels.some(Boolean)).map(({ from }) => from));
  const nodes = layers.flat();
  const least = Math.min(...nodes.map(({ at }) => at));
  let along = 0;
  for (const layer of layers) {
    for (const node of layer) {
      const [a, b] = [along, node.at - least];
      node.x = (down ? b : a) + NODE.width / 2 + 2;
      node.y = (down ? a : b) + NODE.height / 2 + 2;
    }
    along += size + (layer.some((node) => named.has(node)) ? gap.named : gap.along);
  }
  const most = (name) => Math.max(...nodes.map((node) => node[name]));
  return { width: most("x") + NODE.width / 2 + 2, height: most("y") + NODE.height / 2 + 2 };
}

function box({ name, kind, note, x, y }) {
  const { width, height } = NODE;
  const frame = { x: x - width / 2, y: y - height / 2, width, height, rx: kind === "step" ? 6 : height / 2 };
  const title = svg("title", {}, `${name}: ${note}`);
  const label = svg("text", { x, y: y - 2, class: "label" }, cut(name, 15));
  return svg(
    "g",
    { class: kind },
    title,
    svg("rect", frame),
    label,
    svg("text", { x, y: y + 14, class: "note" }, cut(note, 20)),
  );
}

function arrow({ from, to, via, labels, kind }, down) {
  const half = down ? NODE.height / 2 : NODE.width / 2;
  const end = (node, by) => (down ? { x: node.x, y: node.y + by } : { x: node.x + by, y: node.y });
  const points = [
    end(from, half),
    ...via.flatMap((node) => [end(node, -half), end(node, half)]),
    end(to, -half - 6),
  ];
  const bend = (a, b) => {
    const [x, y] = [(a.x + b.x) / 2, (a.y + b.y) / 2];
    return down ? `C${a.x} ${y} ${b.x} ${y} ${b.x} ${b.y}` : `C${x} ${a.y} ${x} ${b.y} ${b.x} ${b.y}`;
  };
  const line = points.slice(1).map((point, i) => bend(points[i], point));
  const tip = down ? "l-4 0 4 6 4 -6z" : "l0 -4 6 4 -6 4z";
  const last = points.at(-1);
  const text = labels.filter(Boolean).join(", ");
  const middle = { x: (points[0].x + points[1].x) / 2, y: (points[0].y + points[1].y) / 2 + (down ? 4 : -4) };
  return svg(
    "g",
    { class: `edge ${kind}` },
    svg("title", {}, text || `${from.name} to ${to.name}`),
    svg("path", { d: `M${points[0].x} ${points[0].y}${line.join("")}` }),
    svg("path", { d: `M${last.x} ${last.y}${tip}`, class: "tip" }),
    svg("text", middle, cut(text, down ? 22 : 10)),
  );
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
