// Helpers for elements and their texts.

/** A new element with properties, attributes (names with a dash, and role) and children. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** A number of things in words. */
export const plural = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** Call `show` when an element is pointed at or gets the focus, and `hide` when that ends. */
export function whilePointed(element, show, hide) {
  for (const name of ["pointerenter", "focus", "click"]) element.addEventListener(name, show);
  for (const name of ["pointerleave", "blur"]) element.addEventListener(name, hide);
}
