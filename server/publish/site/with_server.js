// A published site has no server, so nobody signs in, and nothing is sent, added or deleted.

document.querySelector("#by-photo").remove();

export const clearSelection = () => {};
export const makeCheckbox = () => "";
