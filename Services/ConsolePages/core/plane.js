// Calls of the record plane and of a user's stores, made as a user, with failures of single items as errors.

import { call, CallError, get } from "./api.js";

export const PUBLIC = "public";
/** How lists of zones and stores name the owner of the public database. */
const NOBODY = "__public__";

export const listedOwner = (owner) => (owner === PUBLIC ? NOBODY : owner);

/** The zones of a container's environment, or of one owner there: `{zones, silent}`. */
export async function zonesOf({ container, environment, owner }, signal) {
  const { zones = [], silent } = await get("zones", { container, environment, owner: listedOwner(owner) }, { signal });
  return { zones: zones.map((zone) => (zone.owner === NOBODY ? { ...zone, owner: PUBLIC } : zone)), silent };
}

/** A database: `{container, environment, owner}`, with `owner` a record name or `public`. */
function root(database) {
  const isPublic = database.owner === PUBLIC;
  return [
    "as",
    isPublic ? database.as : database.owner,
    "database",
    "1",
    database.container,
    database.environment,
    isPublic ? "public" : "private",
  ];
}

/** The user as whom the public database is read and written: any user of the container. */
export async function withReader(database, signal) {
  if (database.owner !== PUBLIC || database.as) return database;
  const users = (await get("users", { container: database.container, limit: 1 }, { signal })).users ?? [];
  const any = users.length ? users : ((await get("users", { limit: 1 }, { signal })).users ?? []);
  if (!any.length)
    throw new CallError(404, "NOT_FOUND", "The public database is read as a user, and there is none yet");
  return { ...database, as: any[0].userRecordName };
}

export async function recordCall(database, name, json, signal) {
  const known = await withReader(database, signal);
  return call("POST", [...root(known), ...name.split("/")], { json, signal });
}

/** Throws what failed of one item of an answer. */
export function refuse(item) {
  if (item?.serverErrorCode)
    throw new CallError(item.serverErrorCode === "CONFLICT" ? 409 : 400, item.serverErrorCode, item.reason, item);
  return item;
}

export async function lookup(database, zone, recordName, signal) {
  const answer = await recordCall(
    database,
    "records/lookup",
    { zoneID: { zoneName: zone }, records: [{ recordName }] },
    signal,
  );
  const item = answer.records?.[0];
  if (item?.serverErrorCode === "NOT_FOUND")
    throw new CallError(404, item.serverErrorCode, `There is no record ${recordName}`);
  return refuse(item);
}

export async function modify(database, zone, operationType, record) {
  const answer = await recordCall(database, "records/modify", {
    zoneID: { zoneName: zone },
    operations: [{ operationType, record }],
  });
  return refuse(answer.records?.[0]);
}

export const query = (database, zone, body, signal) =>
  recordCall(database, "records/query", { zoneID: { zoneName: zone }, ...body }, signal);

/** All records of a zone, in the order of their last change: `{records, syncToken, moreComing}`. */
export async function changes(database, zone, syncToken, signal) {
  const answer = await recordCall(
    database,
    "changes/zone",
    { zones: [{ zoneID: { zoneName: zone }, syncToken, resultsLimit: 50 }] },
    signal,
  );
  return refuse(answer.zones?.[0]);
}

/** The devices' stores of a database; none if the server does not tell. */
export async function storesOf({ container, environment, owner }, signal) {
  const query = { container, environment, owner: listedOwner(owner) };
  const { stores = [] } = await get("stores", query, { signal }).catch(() => ({}));
  return stores;
}

/** The names of a database's devices by their stores. */
export async function deviceNames(database, signal) {
  return new Map((await storesOf(database, signal)).map((store) => [store.store, store.device]));
}

/** A call on a device's store; `store` is a row of `GET stores`. Names of records are segments of an array. */
export function storeCall(method, store, name, options) {
  return call(
    method,
    [
      "as",
      store.user,
      "mirror",
      "1",
      store.container,
      store.environment,
      store.scope,
      "stores",
      store.store,
      ...(Array.isArray(name) ? name : name.split("/")),
    ],
    options,
  );
}

/** A call on a whole zone. */
export function zoneCall(method, database, zone, name, options) {
  return call(method, ["zone", database.container, database.environment, database.owner, zone, name], options);
}
