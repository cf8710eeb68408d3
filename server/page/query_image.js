// The image of a query by image, above its results.

import { make } from "./dom.js";
import { thumbnail } from "./photo.js";

/** A heading with `name(imageId)`, which sets the text, and `show(url)`, which sets the photo. */
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
  element.focusTitle = () => title.focus();
  return element;
}
