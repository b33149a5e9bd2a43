// The table of pages.

import { register } from "../core/router.js";
import * as data from "./data/data.js";
import * as home from "./home/home.js";
import * as operations from "./operations/operations.js";
import * as people from "./people/people.js";
import * as schema from "./schema/schema.js";
import * as sync from "./sync/sync.js";

export function registerPages() {
  register("home", { title: "Home", show: home.show });
  register("data", { title: "Data", show: data.show });
  register("sync", { title: "Sync", show: sync.show });
  register("schema", { title: "Schema", show: schema.show });
  register("people", { title: "People", show: people.show });
  register("operations", { title: "Operations", show: operations.show });
}
