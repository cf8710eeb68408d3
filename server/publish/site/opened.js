// Opens the index of a published site while the scripts of its page are still being fetched.

import { open } from "../search/index.js";

export const opened = open("index/");
opened.catch(() => {}); // every request says it
