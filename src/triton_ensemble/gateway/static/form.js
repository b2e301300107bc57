// The form: for each input its rows, each a text or a file. A row of what is not one text is JSON.

import { element, isText, shape } from "./dom.js";

const ROOM = 64; // values that a new row is filled with

/** Return nested lists of zeros, or of what the type has for it. */
export function zeros([size, ...rest], zero) {
  return Array.from({ length: size }, () => (rest.length ? zeros(rest, zero) : zero));
}

/** An input and its rows; calls `changed` after each change. */
class Field {
  constructor(input, batch, changed) {
    Object.assign(this, { input, batch, changed, rows: [] });
    this.list = element("ol", { class: "rows" });
    const kind = element(
      "span",
      { class: "quiet" },
      `${shape(input, batch)}${input.optional ? ", may be left out" : ""}`,
    );
    this.element = element(
      "fieldset",
      { class: "field" },
      element("legend", {}, input.name, " ", kind),
      this.list,
      this.buttons(),
    );
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", (event) => {
      event.preventDefault();
      this.fill([...event.dataTransfer.files]);
    });
    this.set(input.optional ? [] : [this.blank()]);
  }

  buttons() {
    const picker = element("input", {
      type: "file",
      class: "hidden",
      multiple: Boolean(this.batch),
      "aria-label": `Files for ${this.input.name}`,
    });
    picker.addEventListener("change", () => {
      this.fill([...picker.files]);
      picker.value = "";
    });
    const choose = element("label", { class: "button" }, picker, "Choose or drop files");
    const add = element(
      "button",
      { type: "button", click: () => this.add(this.blank()).focus() },
      "Add a row",
    );
    return element("p", { class: "buttons" }, choose, ...(this.batch || this.input.optional ? [add] : []));
  }

  /** Return what a new row has: nothing, or JSON of the right shape. */
  blank() {
    const { type, sizes } = this.input;
    if (isText(this.input) || sizes.reduce((product, size) => product * size, 1) > ROOM) return "";
    return JSON.stringify(zeros(sizes, { STRING: "", BOOL: false }[type] ?? 0));
  }

  set(values) {
    this.list.replaceChildren();
    this.rows = [];
    values.forEach((value) => this.add(value));
    this.changed();
  }

  /** Give files the rows in which nothing is yet, and new ones. */
  fill(files) {
    const untouched = this.rows.filter(({ file, area }) => !file && area.value === this.blank());
    this.set(
      [...this.rows.filter((row) => !untouched.includes(row)).map((row) => row.value), ...files].slice(
        this.batch ? 0 : -1,
      ),
    );
  }

  /** Add a row of a text or a file, and return what of it has the focus. */
  add(value) {
    const row = value instanceof File ? { file: value } : { area: this.area(value) };
    Object.defineProperty(row, "value", { get: () => row.file ?? row.area.value });
    if (!this.batch) this.list.replaceChildren();
    this.rows = [...(this.batch ? this.rows : []), row];
    const remove = element(
      "button",
      { type: "button", "aria-label": `Remove row ${this.rows.length - 1} of ${this.input.name}` },
      "✕",
    );
    const item = element("li", {}, row.area ?? preview(value), remove);
    remove.addEventListener("click", () => {
      this.rows = this.rows.filter((other) => other !== row);
      item.remove();
      if (!this.rows.length && !this.input.optional) this.add(this.blank());
      this.changed();
    });
    this.list.append(item);
    this.changed();
    return row.area ?? remove;
  }

  area(value) {
    const hint = isText(this.input) ? "A text" : `JSON: ${this.input.type}[${this.input.dims.join(", ")}]`;
    const label = `Row ${this.rows.length} of ${this.input.name}`;
    const area = element("textarea", {
      rows: "2",
      placeholder: hint,
      "aria-label": label,
      spellcheck: "false",
      input: () => this.changed(),
    });
    area.value = value;
    return area;
  }
}

function preview(file) {
  const picture = element("img", { alt: "" });
  picture.src = URL.createObjectURL(file);
  picture.addEventListener("error", () => picture.remove());
  picture.addEventListener("load", () => URL.revokeObjectURL(picture.src));
  return element("span", { class: "file" }, picture, element("span", {}, file.name));
}

/** The inputs of a pipeline, as people fill them in. */
export class Form {
  constructor(facts, changed) {
    this.facts = facts;
    this.fields = [];
    this.fields = facts.inputs.map((input) => new Field(input, facts.batch, () => changed(this)));
  }

  /** Return the request: each part is a row. Texts are files without names: line ends of fields would change. */
  body() {
    const form = new FormData();
    for (const { input, rows } of this.fields)
      for (const { file, value } of rows) form.append(input.name, file ?? new File([value], ""));
    return form;
  }

  /** Return the rows of the request: a name of each, that of its file or its number, and the file. */
  sent() {
    const count = Math.max(0, ...this.fields.map(({ rows }) => rows.length));
    const file = (i) => this.fields.map(({ rows }) => rows[i]?.file).find((file) => file?.name);
    return Array.from({ length: count }, (_, i) => ({ name: file(i)?.name ?? `Row ${i}`, file: file(i) }));
  }

  /** Fill in a sample; `fetchFile` returns the content of a file that it names. */
  async fill(sample, fetchFile) {
    for (const field of this.fields) {
      const given = sample.inputs[field.input.name];
      const tensor = given?.zeros ? zeros(given.zeros, 0) : given;
      const rows = tensor === undefined ? [] : field.batch ? [tensor].flat() : [tensor];
      field.set(await Promise.all(rows.map((row) => this.row(field.input, row, fetchFile))));
    }
  }

  async row(input, row, fetchFile) {
    if (!isText(input)) return JSON.stringify(await embedded(row, fetchFile));
    const cell = [row].flat()[0];
    if (typeof cell === "string") return cell;
    const content = cell.file ? await fetchFile(cell.file) : bytes(cell.base64);
    return new File([content], cell.file ?? "bytes");
  }
}

const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** Return nested lists with bytes in place of the files that they name. */
async function embedded(value, fetchFile) {
  if (Array.isArray(value)) return Promise.all(value.map((item) => embedded(item, fetchFile)));
  if (!value?.file) return value;
  const content = new Uint8Array(await (await fetchFile(value.file)).arrayBuffer());
  return { base64: btoa(Array.from(content, (byte) => String.fromCharCode(byte)).join("")) };
}
