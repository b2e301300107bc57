// What each model took for a request: Triton's statistics after it, less those before it.

import { element } from "./dom.js";

/** Return a list of models by the order of the steps; with others' requests meanwhile the times are means of all. */
export function times(before, after, facts) {
  const fused = facts.fused ?? {}; // the steps of each model that serves several
  const order = new Map(facts.steps.map((step, i) => [step.name, i]));
  const place = (name) => order.get(fused[name]?.[0] ?? name) ?? Infinity;
  const worked = Object.entries(after)
    .map(([name, counters]) => [name, since(before[name], counters)])
    .filter(([, done]) => done.requests > 0 && done.queue_ns + done.compute_ns > 0)
    .sort(([one], [other]) => place(one) - place(other));
  const steps = worked.length > 1 ? worked.filter(([name]) => name !== facts.name) : worked; // not the ensemble
  const rows = steps.flatMap(([name, done]) => [element("dt", {}, titled(name, fused[name])), element("dd", {}, told(done))]);
  const hints = steps.flatMap(([name]) => (fused[name] ? [element("p", { class: "quiet" }, hint(fused[name]))] : []));
  return rows.length ? [element("h3", {}, "Time by step"), element("dl", { class: "steps" }, ...rows), ...hints] : [];
}

// Triton's statistics count models alone.
const hint = (steps) =>
  `${steps.slice(0, -1).join(", ")} and ${steps.at(-1)} share a model: ` +
  "make bench and step_seconds_total in Triton's metrics have the time of each.";

const titled = (name, steps) => (steps ? `${name} (${steps.join(", ")})` : name);

function since(before, after) {
  return Object.fromEntries(Object.entries(after).map(([name, count]) => [name, count - (before?.[name] ?? 0)]));
}

function told({ requests, queue_ns, compute_ns }) {
  const ms = (ns) => `${(ns / requests / 1e6).toFixed(1)} ms`;
  const mean = requests > 1 ? `, mean of ${requests} requests` : "";
  return `${ms(compute_ns)} computing, ${ms(queue_ns)} in the queue${mean}`;
}
