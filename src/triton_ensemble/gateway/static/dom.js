// Elements, and what else both pages need.

/** Return an element with attributes and children; a function is a listener, by its event's name. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Return an element of a drawing. */
export function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Return `FP32[batch, 3, 224, 224]`. */
export function shape(tensor, batch) {
  return `${tensor.type}[${[...(batch ? ["batch"] : []), ...tensor.dims].join(", ")}]`;
}

/** Whether a row of a tensor is one text, in whose place a file may be sent. */
export function isText(tensor) {
  return tensor.type === "STRING" && tensor.dims.length === 1 && tensor.dims[0] === 1;
}

/** Return a block of text with a button that copies it. */
export function copyable(title, text) {
  const button = element("button", { type: "button", "aria-label": `Copy ${title}`, click: copy }, "Copy");
  async function copy() {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  }
  // Browsers have a clipboard only for pages that came by TLS, or from this machine.
  const buttons = navigator.clipboard ? [button] : [];
  return element(
    "div",
    { class: "code" },
    element("h3", {}, title),
    ...buttons,
    element("pre", { tabindex: "0" }, text),
  );
}
