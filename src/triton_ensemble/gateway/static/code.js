// The request of the form as a command, and as Python with the project's own client.

import { isText } from "./dom.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Return the request by curl. */
export function curl(form, url, withKey) {
  const parts = form.fields.flatMap(({ input, rows }) =>
    rows.map(({ file, value }) =>
      file
        ? `--form ${quoted(`${input.name}=@${file.name}`)}`
        : `--form-string ${quoted(`${input.name}=${value}`)}`,
    ),
  );
  const key = withKey ? ['--header "X-API-Key: $API_KEY"'] : [];
  return ["curl", ...key, ...parts, url].join(" \\\n  ");
}

/** Return the same in Python, which asks Triton itself. */
export function python({ facts, fields }) {
  const { package: name, method, url } = facts.python;
  const given = fields.filter(({ rows }) => rows.length);
  const lines = given.map(
    ({ input, rows }) => `        ${input.argument}=${values(input, rows, facts.batch)},\n`,
  );
  const some = (wanted) => given.some(({ input, rows }) => rows.some(({ file }) => file && wanted(input)));
  const imports =
    (some((input) => !isText(input)) ? "import json\n" : "") +
    (some(() => true) ? "from pathlib import Path\n\n" : "");
  const call = `client.${method}(\n${lines.join("")}    )`;
  const use = facts.decoupled
    ? `    for answer in ${call}:\n        print(answer)`
    : `    answer = ${call}\nprint(answer)`;
  return `${imports}from ${name} import Client\n\nwith Client("${url}") as client:\n${use}\n`;
}

function values(input, rows, batch) {
  const cells = rows.map(({ file, value }) => (isText(input) ? textOf(file, value) : valueOf(file, value)));
  const listed =
    cells.length > 1 ? `[\n            ${cells.join(",\n            ")},\n        ]` : `[${cells}]`;
  return batch || isText(input) ? listed : cells[0];
}

const textOf = (file, value) =>
  file ? `Path(${JSON.stringify(file.name)}).read_bytes()` : JSON.stringify(value);

function valueOf(file, value) {
  if (file) return `json.loads(Path(${JSON.stringify(file.name)}).read_text())`;
  return (
    value
      .trim()
      .replace(/\btrue\b/g, "True")
      .replace(/\bfalse\b/g, "False") || "..."
  );
}
