// Whether this page may write, and asking for the key that allows it.

import { session, signIn } from "../api.js";

const dialog = document.querySelector("#write-key");
const form = dialog.querySelector("form");
const key = form.querySelector("input");
const problem = form.querySelector(".problem");

let allowed = false;

const noted = (found) => (allowed = found.allows.includes("write"));

/** Offer what changes the index, on servers that have keys: others let nobody write. */
export function offerWriting(found) {
  noted(found);
  document.body.toggleAttribute("data-writable", found.key !== null);
}

addEventListener("key-needed", () => document.body.removeAttribute("data-writable"));

/** Whether the page may write; asks for a key if it may not yet. */
export async function permitted() {
  if (allowed) return true;
  form.reset();
  problem.textContent = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return allowed;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await signIn(key.value);
    if (noted(await session())) return dialog.close();
    problem.textContent = "This key is for searching alone";
  } catch (error) {
    problem.textContent = error.message;
  }
  key.select();
});
form.querySelector(".cancel").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => form.reset()); // the key is not left in the page
