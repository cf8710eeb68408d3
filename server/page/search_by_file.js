// The button that searches by a photo of this device.

const files = document.querySelector("#query-file");

/** Show photos like one in a file. */
export const searchBy = (file) => dispatchEvent(new CustomEvent("photo-given", { detail: file }));

const button = document.querySelector("#by-photo");
button.addEventListener("click", () => files.click());
files.addEventListener("change", () => {
  if (files.files.length) searchBy(files.files[0]);
  files.value = ""; // so that the same photo can be chosen again
});
