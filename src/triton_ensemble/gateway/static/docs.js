// The API as a list: each route, what it takes and what it answers, of openapi.json.

import { copyable, element } from "./dom.js";

/** Return a schema's type in words. */
function typeOf(schema) {
  if (!schema || schema.$ref) return schema?.$ref?.split("/").pop() ?? "anything";
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.type === "array")
    return `list of ${schema.items?.anyOf ? `(${typeOf(schema.items)})` : typeOf(schema.items)}`;
  if (schema.properties?.base64) return '{"base64": text}';
  return schema.format === "binary"
    ? "file"
    : schema.description === "JSON"
      ? "JSON"
      : (schema.type ?? "anything");
}

/** Return rows of a name and what is said of it. */
function table(rows) {
  const row = ([name, ...cells]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("code", {}, name)),
      ...cells.map((cell) => element("td", {}, cell)),
    );
  return element("div", { class: "wide", tabindex: "0" }, element("table", {}, ...rows.map(row)));
}

function fields(schema) {
  const required = new Set(schema?.required ?? []);
  return Object.entries(schema?.properties ?? {}).map(([name, field]) => [
    name,
    typeOf(field),
    required.has(name) ? "" : "may be left out",
  ]);
}

/** Return what a request or answer has, for each of its media types. */
function contents(title, content = {}) {
  const described = Object.entries(content)
    .map(([kind, { schema, itemSchema, ...rest }]) => [kind, { schema: schema ?? itemSchema, ...rest }])
    .filter(([, { schema }]) => Object.keys(schema ?? {}).length);
  return described.flatMap(([kind, { schema, example, examples }]) => {
    const rows = fields(schema);
    const given = [
      example,
      ...Object.values(examples ?? {}).map(({ value }) => value),
      ...(schema?.examples ?? []),
    ].filter((value) => value !== undefined);
    return [
      element("h3", {}, `${title}: ${kind}`),
      ...(rows.length ? [table(rows)] : []),
      ...given.map((value) => copyable("Example", JSON.stringify(value, null, 2))),
      element(
        "details",
        {},
        element("summary", {}, "Schema"),
        element("pre", { tabindex: "0" }, JSON.stringify(schema, null, 2)),
      ),
    ];
  });
}

function route(method, path, operation) {
  const statuses = Object.entries(operation.responses ?? {}).map(([status, { description }]) => [
    status,
    description,
  ]);
  return element(
    "section",
    {},
    element("h2", {}, element("code", {}, `${method.toUpperCase()} ${path}`)),
    element("p", {}, operation.summary ?? ""),
    ...contents("Request", operation.requestBody?.content),
    ...contents("Answer", operation.responses?.[200]?.content),
    element("h3", {}, "Statuses"),
    table(statuses),
  );
}

const response = await fetch("openapi.json");
const api = await response.json();
document.title = document.getElementById("name").textContent = `API of ${api.info.title}`;
document
  .getElementById("routes")
  .replaceChildren(
    ...Object.entries(api.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => route(method, path, operation)),
    ),
  );
