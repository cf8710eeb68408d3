// The image of a query by image, above its results.

import { thumbnail } from "./api.js";
import { make } from "./dom.js";

/**
 * A heading with `name(imageId)`, which sets the text, `show(url)`, which sets the photo, and
 * `showFile(file)`, which sets both.
 */
export function makeQueryImage() {
  const title = make("h2", { tabIndex: -1 });
  const place = make("span");
  const element = make("div", { className: "query-image", hidden: true }, place, title);
  element.name = (imageId) => {
    element.hidden = imageId === "";
    title.replaceChildren("Photos similar to ", make("b", {}, imageId));
    place.replaceChildren();
  };
  element.show = (url) => {
    if (!url) return;
    const image = make("img", { alt: "", src: thumbnail(url, 256) });
    image.addEventListener("error", () => image.remove());
    place.replaceChildren(image);
  };
  element.showFile = async (file) => {
    element.name(file.name);
    // Drawn, since the policy of the page permits no other addresses of images.
    const bitmap = await createImageBitmap(file).catch(() => null);
    if (!bitmap) return; // no photo, which the answer says, or a format that only the server knows
    const canvas = make("canvas", { width: bitmap.width, height: bitmap.height });
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    place.replaceChildren(canvas);
  };
  element.focusTitle = () => title.focus();
  return element;
}
