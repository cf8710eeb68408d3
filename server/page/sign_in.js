// Asking for a key where the server needs one, and signing out.

import { signIn, signOut } from "./api.js";

const form = document.querySelector("#sign-in");
const key = form.querySelector("#key");
const problem = form.querySelector("#sign-in-problem");
const out = document.querySelector("#sign-out");

addEventListener("key-needed", () => {
  form.parentElement.classList.add("signed-out");
  form.hidden = false;
  out.hidden = true;
  key.focus();
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await signIn(key.value);
    location.reload();
  } catch (error) {
    problem.textContent = error.message;
    key.select();
  }
});

out.addEventListener("click", () => signOut().finally(() => location.reload()));

/** Offer to sign out, if this browser is signed in with a key. */
export function showSignOut({ key: found }) {
  out.hidden = found === null;
  if (found) out.title = `Signed in with the key “${found.name}”`;
}
