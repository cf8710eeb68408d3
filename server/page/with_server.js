// What only a server offers: keys, search by a photo of this device, adding and deleting photos. A
// published site has a module with the same exports in its place.

import { session } from "./api.js";
import "./search_by_file.js";
import { showSignOut } from "./sign_in.js";
import "./write/add.js";
import "./write/drop.js";
import { offerWriting } from "./write/permission.js";

export { clearSelection, makeCheckbox } from "./write/selection.js";

session()
  .then((found) => {
    showSignOut(found);
    offerWriting(found);
  })
  .catch(() => {}); // the page shows the same error for its other requests
