// The page: asks what the pipeline is, draws it, sends what the form has, and shows what comes.

import { failed, raw, shown } from "./answer.js";
import { curl, python } from "./code.js";
import { copyable, element, shape } from "./dom.js";
import { Form } from "./form.js";
import { drawing } from "./graph.js";
import { times } from "./steps.js";

const at = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 640px)");
const STATISTICS_MS = 1000;
let key = "";
let asking = new AbortController(); // a later request ends it: the answer is that of what the form has

/** Ask the service; addresses are relative, for proxies that have it under a path. */
function ask(path, options = {}) {
  return fetch(path, { ...options, headers: key ? { "X-API-Key": key } : {} });
}

async function start() {
  const response = await ask("pipeline.json");
  if (response.status === 401) return askForKey();
  const facts = await response.json();
  if (!response.ok) throw new Error(facts.error);
  at("key").hidden = true;
  at("pipeline").hidden = false;
  document.title = at("name").textContent = facts.name;
  const listed = (tensors) =>
    tensors.map((tensor) => `${tensor.name} ${shape(tensor, facts.batch)}`).join(", ");
  at("interface").textContent = `${listed(facts.inputs)} → ${listed(facts.outputs)}`;
  draw(facts);
  narrow.onchange = () => draw(facts);
  const form = new Form(facts, writeCode);
  at("fields").replaceChildren(...form.fields.map((field) => field.element));
  at("samples").replaceChildren(...facts.samples.map((name) => sampleButton(form, name)));
  at("request").onsubmit = (event) => {
    event.preventDefault();
    send(form).catch(failedToAsk);
  };
  writeCode(form);
}

function askForKey() {
  const box = at("key");
  box.querySelector("p").textContent = key ? "This key is not known." : "";
  box.hidden = false;
  box.onsubmit = (event) => {
    event.preventDefault();
    key = box.querySelector("input").value;
    start().catch(failedToAsk);
  };
  box.querySelector("input").focus();
}

function failedToAsk(error) {
  const isNetwork = error instanceof TypeError; // what fetch throws, with words of the browser
  at("problem").textContent = isNetwork
    ? "The service can't be reached; start it, then try again."
    : error.message;
  at("answer").replaceChildren();
  at("problem").scrollIntoView({ block: "nearest" });
}

function draw(facts) {
  at("graph").replaceChildren(drawing(facts, narrow.matches));
}

function writeCode(form) {
  if (!form.fields.length) return;
  const url = new URL("predict", location.href).href;
  const summary = at("code").querySelector("summary");
  if (form.facts.sequential) summary.textContent = "The same by curl"; // in Python each row is a call
  at("code").replaceChildren(
    summary,
    copyable("curl", curl(form, url, Boolean(key))),
    ...(form.facts.sequential ? [] : [copyable("Python", python(form))]),
  );
}

function sampleButton(form, name) {
  const file = async (path) => {
    const response = await ask(`samples/${path.split("/").map(encodeURIComponent).join("/")}`);
    if (!response.ok) throw new Error((await response.json()).error);
    return response.blob();
  };
  const fill = async () => form.fill(JSON.parse(await (await file(`${name}.json`)).text()), file);
  return element(
    "button",
    {
      type: "button",
      click: () =>
        fill()
          .then(() => send(form))
          .catch(failedToAsk),
    },
    name,
  );
}

async function send(form) {
  asking.abort();
  const { signal } = (asking = new AbortController());
  const sent = form.sent();
  at("problem").textContent = "";
  at("send").disabled = true;
  at("answer").setAttribute("aria-busy", "true");
  try {
    const before = await statistics();
    signal.throwIfAborted();
    const began = performance.now();
    const response = await ask("predict", { method: "POST", body: form.body(), signal });
    if (response.headers.get("content-type")?.startsWith("text/event-stream"))
      await showEvents(response, form, sent);
    else show(await response.text(), response, form, sent);
    const id = response.headers.get("x-request-id");
    const took = `${Math.round(performance.now() - began)} ms${id ? `, request ${id}` : ""}`;
    at("answer").append(element("p", { class: "quiet took" }, took));
    reveal();
    const after = await statistics();
    signal.throwIfAborted();
    if (before && after) at("answer").append(...times(before, after, form.facts));
    if (response.status === 401) askForKey();
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    if (signal === asking.signal) {
      at("send").disabled = false;
      at("answer").removeAttribute("aria-busy");
    }
  }
}

/** Scroll to the answer if it is not on the screen: on a phone it is below the form. */
function reveal() {
  const section = at("answer").parentElement;
  const { top } = section.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) section.scrollIntoView();
}

/** Return what Triton has counted by model; null where it does not say so soon. */
async function statistics() {
  try {
    const response = await ask("statistics.json", { signal: AbortSignal.timeout(STATISTICS_MS) });
    return response.ok ? await response.json() : null;
  } catch (error) {
    if (error.name === "TimeoutError") return null;
    throw error;
  }
}

function show(text, response, form, sent) {
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    content = { error: `${response.status} ${response.statusText}` }; // of a proxy
  }
  if (response.ok) return at("answer").replaceChildren(shown(content, form.facts, sent), raw(text));
  const row =
    sent.length > 1 && content.row !== undefined ? sent[content.row] : sent.length === 1 ? sent[0] : null;
  const wait = response.headers.get("retry-after");
  const error = `${content.error ?? content.detail}${wait ? ` (in ${wait} s)` : ""}`;
  return at("answer").replaceChildren(
    element("ul", { class: "answers" }, failed(response.status === 400 && row ? row.name : null, error)),
    raw(text),
  );
}

/** Show server-sent events as they come, one for each answer. */
async function showEvents(response, form, sent) {
  const list = element("div");
  at("answer").replaceChildren(list);
  reveal();
  let rest = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (rest + part.value).split("\n\n");
    rest = events.pop();
    for (const event of events) list.append(shownEvent(event, form, sent));
  }
  if (!list.hasChildNodes()) list.append(element("p", { class: "quiet" }, "The pipeline gave no answer."));
}

function shownEvent(event, form, sent) {
  const content = JSON.parse(event.slice(event.indexOf("data: ") + 6));
  if (event.startsWith("event: error"))
    return element("ul", { class: "answers" }, failed(null, content.error));
  return shown(content, form.facts, sent);
}

start().catch(failedToAsk);
