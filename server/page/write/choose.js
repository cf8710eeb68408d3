// Questions in a dialog.

import { make } from "../dom.js";

/**
 * Ask in a dialog with a button for each choice [value, label], the safest first, which has the
 * focus; returns the value of the one that was chosen, "" if the dialog was closed.
 */
export function choose(title, content, choices) {
  const buttons = choices.map(([value, label]) => make("button", { value }, label));
  const form = make(
    "form",
    { method: "dialog" },
    make("h2", { id: "question-title" }, title),
    make("p", {}, ...content),
    make("footer", {}, ...buttons),
  );
  const dialog = make("dialog", { className: "question", "aria-labelledby": "question-title" }, form);
  document.body.append(dialog);
  dialog.showModal();
  buttons[0].focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
  });
}
