// The photo that others should be like, above those that are.

import { make } from "./dom.js";

/** A heading with `name(imageId)`, which names the photo, and `show(url)`, which shows it. */
export function makeExample() {
  const title = make("h2", { tabIndex: -1 });
  const place = make("span");
  const example = make("div", { className: "example", hidden: true }, place, title);
  example.name = (imageId) => {
    example.hidden = imageId === "";
    title.replaceChildren("Photos like ", make("b", {}, imageId));
    place.replaceChildren();
  };
  example.show = (url) => {
    if (!url) return;
    const image = make("img", { alt: "", src: url });
    image.addEventListener("error", () => image.remove());
    place.replaceChildren(image);
  };
  example.point = () => title.focus();
  return example;
}
