// Aquifer's object plane for web pages: one ES module on fetch and EventSource, without anything to build. A call that
// gets no answer, or a temporary refusal, is sent again under the same identifier, so the server does it once.

/** @typedef {Record<string, any>} JSONObject */
/** @typedef {Record<string, string|number|undefined>} Query values that are undefined are left out */
/** @typedef {{changeType: string, entity: string, objectID: string} & JSONObject} Change */
/** @typedef {{changes: JSONObject[], importToken: string, moreComing: boolean, caughtUp: boolean}} Page */

const longestPause = 300_000;
const answerLimit = 75_000;
// Bytes in a millisecond: the server gives up a body that comes more slowly.
const slowestSending = 16;
const windowLook = 500;
const temporary = [0, 429, 502, 503, 504];
const noAnswer = "NO_ANSWER";

/**
 * A refusal of the server, or no answer from it: code NO_ANSWER, with status 0 or that of a proxy's page. retryAfter is
 * in seconds; status 421 has redirectURL.
 */
export class AquiferError extends Error {
  /** @param {number} status @param {JSONObject} body the whole answer */
  constructor(status, body) {
    super(`${body.serverErrorCode ?? noAnswer} (${status}): ${body.reason ?? ""}`);
    this.status = status;
    this.body = body;
    this.code = body.serverErrorCode ?? noAnswer;
    this.retryAfter = body.retryAfter;
    this.redirectURL = body.redirectURL;
    this.isTemporary = this.code === noAnswer || temporary.includes(status);
  }
}

// At most; 0 for a form.
/** @type {(body: any) => number} */
const byteCount = (body) => body?.size ?? body?.byteLength ?? 3 * (body?.length ?? 0);

export const newID = () => crypto.randomUUID().toUpperCase();

/** @type {(changeType: string) => (entity: string, objectID: string, attributes?: {}, relationships?: {}) => Change} */
const maker = (changeType) => (entity, objectID, attributes, relationships) => {
  return { changeType, entity, objectID, attributes, relationships };
};
/** Makes an object. A to-one relationship is an objectID or null, a to-many one a list of them. */
export const insert = maker("insert");
/** Changes what it names. A to-many relationship is the whole list, or {add: […], remove: […]}. */
export const update = maker("update");
export const remove = maker("delete");

/**
 * @typedef {object} Options
 * @property {string} url the gateway's address
 * @property {string} [notifier] the notifier's address, for pings
 * @property {string} container
 * @property {string} [environment] development, or production
 * @property {string} apiToken
 * @property {string} [webAuthToken] without it the first call throws status 421: see `signIn`
 * @property {number} [patience] seconds in which a call is sent again
 * @property {(token: string) => void} [onToken] keeps a session's next token, which replaces the last one
 */

/** A user's access to a container. */
export class Client {
  /** @param {Options} options */
  constructor(options) {
    this.url = options.url.replace(/\/$/, "");
    this.notifier = (options.notifier ?? "").replace(/\/$/, "");
    this.place = `${options.container}/${options.environment ?? "development"}`;
    this.apiToken = options.apiToken;
    this.webAuthToken = options.webAuthToken;
    this.patience = options.patience ?? 120;
    this.onToken = options.onToken ?? (() => {});
    this.signIns = 0;
  }

  /** @param {string} identifier of a device's store @param {"private"|"shared"|"public"} database */
  store(identifier, database = "private") {
    return new Store(this, identifier, database);
  }

  /**
   * Opens the sign-in page in a window, and waits for its token. To be called by a click, or the browser keeps it shut.
   * An error with status 421 says that the window was kept shut, or closed by its user.
   * @param {string} redirectURL of an error with status 421
   */
  async signIn(redirectURL) {
    const page = window.open(redirectURL, "aquifer-sign-in", "popup,width=480,height=640");
    const [origin, done] = [new URL(redirectURL).origin, new AbortController()];
    /** @type {ReturnType<typeof setInterval>|undefined} */ let timer;
    const message = await new Promise((resolve) => {
      if (!page) return resolve({ errorMessage: "The sign-in window was kept shut" });
      /** @param {MessageEvent} event */
      const receive = (event) => event.source === page && event.origin === origin && resolve(event.data);
      window.addEventListener("message", receive, { signal: done.signal });
      let looks = 0;
      timer = setInterval(() => {
        // A window closes after it has sent its token, which may come a little later than the first look.
        if (page.closed && looks++) resolve({ errorMessage: "The sign-in window was closed" });
      }, windowLook);
    });
    clearInterval(timer);
    done.abort();
    if (!message.ckWebAuthToken) {
      throw new AquiferError(421, { serverErrorCode: "AUTHENTICATION_FAILED", reason: message.errorMessage });
    }
    this.signIns++;
    this.onToken((this.webAuthToken = message.ckWebAuthToken));
  }

  /**
   * One call of either plane, answered in JSON.
   * @param {string} method @param {string} path @param {{}} [body] @param {Query} [query] @returns {Promise<any>}
   */
  async call(method, path, body, query = {}) {
    const init = { method, headers: { "X-Request-ID": newID() }, body: body && JSON.stringify(body) };
    return this.insist(() => this.address(this.url + path, query), init);
  }

  /** @param {JSONObject} value an asset as an import shows it; its address holds for a while */
  async download(value) {
    const address = () => value.asset.downloadURL;
    // It may lead to a bucket, whose refusals have no form.
    return this.insist(address, { redirect: "follow" }, (answer) => answer.arrayBuffer(), (error) => {
      return temporary.includes(error.status);
    });
  }

  /**
   * Tells of changed zones until the returned function is called. No store hears of its own changes. A ping is a hint;
   * null comes at each connect: import then, because pings may have been lost before. A browser does not show that a
   * stream has gone silent: also import every quarter of an hour, and when the page is shown again.
   * @param {Store[]} stores @param {(ping: JSONObject|null) => void} onPing {zoneName, ownerRecordName, scope}
   */
  pings(stores, onPing) {
    const devices = stores.map((store) => `&device=${encodeURIComponent(store.identifier)}`).join("");
    const address = () => this.address(`${this.notifier}/mirror/1/${this.place}/pings`, {}) + devices;
    return this.listen(address, (data) => {
      // Subscriptions of a database, a zone and a query name the zone alike. Another form says to import.
      const { zid, zoid, dbs } = data?.ck?.met ?? data?.ck?.fet ?? data?.ck?.qry ?? {};
      const scope = ["public", "private", "shared"][dbs];
      onPing(zid && zoid && scope ? { zoneName: zid, ownerRecordName: zoid, scope } : null);
    });
  }

  /** @param {string} url @param {Query} query */
  address(url, query) {
    const all = Object.entries({ ckAPIToken: this.apiToken, ckWebAuthToken: this.webAuthToken, ...query });
    const parts = all.map(([name, value]) => (value === undefined ? "" : `${name}=${encodeURIComponent(value)}`));
    return `${url}?${parts.filter(Boolean).join("&")}`;
  }

  /**
   * Sends until there is a whole answer, a lasting refusal, or no patience left.
   * @param {() => string} address asked each time, because tokens change @param {RequestInit} init
   * @param {(answer: Response) => Promise<any>} read @param {(error: AquiferError) => boolean} isTemporary
   */
  async insist(address, init, read = (answer) => answer.json(), isTemporary = (error) => error.isTemporary) {
    const [end, signIns] = [Date.now() + this.patience * 1000, this.signIns];
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.send(address(), this.webAuthToken, init, read);
      } catch (error) {
        const pause = this.pause(attempt, error);
        if (!(error instanceof AquiferError) || !isTemporary(error) || Date.now() + pause > end) throw error;
        await new Promise((resolve) => setTimeout(resolve, pause));
        // Another user may have signed in meanwhile, whose database must not get this user's call.
        if (this.signIns !== signIns) throw error;
      }
    }
  }

  /**
   * @param {string} url @param {string|undefined} token the present one
   * @param {RequestInit} init @param {(answer: Response) => Promise<any>} read
   */
  async send(url, token, init, read) {
    const limit = new AbortController();
    /** @type {ReturnType<typeof setTimeout>|undefined} */ let timer;
    const arrives = (sendingTime = 0) => {
      clearTimeout(timer);
      timer = setTimeout(() => limit.abort(), answerLimit + sendingTime);
    };
    /** @param {unknown} error */
    const lost = (error) => Promise.reject(new AquiferError(0, { reason: String(error) }));
    try {
      // `fetch` does not tell how far the sending is.
      arrives(byteCount(init.body) / slowestSending);
      const answer = await fetch(url, { redirect: "error", ...init, signal: limit.signal }).catch(lost);
      const next = answer.headers.get("X-Apple-CloudKit-Web-Auth-Token");
      if (next) this.keep(token, next);
      const whole = await this.whole(answer, arrives).catch(lost);
      if (!answer.ok) throw new AquiferError(answer.status, (await whole.json().catch(() => null)) ?? {});
      return await read(whole).catch(lost);
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Takes the token that follows the sent one, unless another answer has brought it already, or another user has signed
   * in. One that can't be kept is not taken: the sent one holds for a while, and the next answer brings the same again.
   * @param {string|undefined} sent @param {string} next
   */
  keep(sent, next) {
    if (sent !== this.webAuthToken || sent === next) return;
    try {
      this.onToken(next);
      this.webAuthToken = next;
    } catch (error) {
      console.warn("onToken could not keep the session's next token:", error);
    }
  }

  /** @param {Response} answer @param {() => void} arrives called for each piece */
  async whole(answer, arrives) {
    /** @type {Uint8Array[]} */ const pieces = [];
    const reader = answer.body?.getReader();
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      arrives();
      pieces.push(part.value);
    }
    return new Response(new Blob(pieces));
  }

  /** @param {number} attempt @param {unknown} [error] */
  pause(attempt, error) {
    // The server's own time, or a doubling one with jitter, so that clients come back one by one.
    const seconds = error instanceof AquiferError ? error.retryAfter : undefined;
    return seconds === undefined ? Math.random() * Math.min(longestPause, 1000 * 2 ** attempt) : seconds * 1000;
  }

  /**
   * @param {() => string} address
   * @param {(data: any, id?: string) => void} receive gets null at each connect. id: of the last event that has one
   */
  listen(address, receive) {
    let attempt = 0;
    /** @type {EventSource} */ let source;
    /** @type {ReturnType<typeof setTimeout>} */ let timer;
    const lost = () => {
      source.close();
      timer = setTimeout(connect, this.pause(attempt++));
    };
    const connect = () => {
      source = new EventSource(address());
      source.onopen = () => ((attempt = 0), receive(null));
      source.onmessage = (event) => {
        /** @type {any} */ let data;
        try {
          data = JSON.parse(event.data);
        } catch {
          return lost();
        }
        receive(data, event.lastEventId);
      };
      // Not left to the browser, which would come with the same token again, and after some refusals not at all.
      source.onerror = lost;
    };
    connect();
    return () => (source.close(), clearTimeout(timer));
  }
}

/** One device's store of a database. */
export class Store {
  /** @param {Client} client @param {string} identifier @param {string} database */
  constructor(client, identifier, database) {
    this.client = client;
    this.identifier = identifier;
    this.path = `/mirror/1/${client.place}/${database}/stores/${encodeURIComponent(identifier)}`;
    this.records = `/database/1/${client.place}/${database}`;
  }

  /** @param {string} method @param {string} path such as "/status" @param {{}} [body] @param {Query} [query] */
  call(method, path, body, query) {
    return this.client.call(method, this.path + path, body, query);
  }

  /** @param {string} modelHash of the app's model @param {JSONObject} [options] other keys of the call */
  setUp(modelHash, options) {
    return this.call("PUT", "", { modelHash, ...options });
  }

  /**
   * Saves changes as one transaction. When this resolves, they are stored durably. transactionID: for a page that was
   * closed, and saves again what it may have saved. importToken: of the time of the edit. wait: until they are records.
   * @param {Change[]} changes @param {{transactionID?: string, importToken?: string, wait?: boolean}} options
   */
  save(changes, { wait = false, ...options } = {}) {
    const transaction = { transactionID: newID(), timestamp: new Date().toISOString(), author: "app", ...options };
    const body = { transactions: [{ ...transaction, changes }] };
    return this.call("POST", "/transactions", body, { wait: wait ? "export" : undefined });
  }

  /**
   * Pages of changes of the other stores, until there are no more. An error of status 410: begin anew, without a token.
   * A "zone" with the action "reupload": a page that keeps its objects inserts them again, author: "reupload".
   * assets: "links" leaves large bytes to `download`. wait: seconds for which an empty page is held.
   * @param {string} [after] the last importToken @param {{limit?: number, assets?: string, wait?: number}} [options]
   */
  async *changes(after, options) {
    /** @type {Page} */ let page;
    do {
      page = await this.call("GET", "/changes", undefined, { limit: 1000, ...options, after });
      yield page;
      after = page.importToken;
    } while (page.moreComing);
  }

  /**
   * The store's events until the returned function is called, each with its start and its end; null at each connect.
   * @param {(event: JSONObject|null) => void} onEvent
   */
  events(onEvent) {
    /** @type {string|undefined} */ let after;
    const address = () => this.client.address(`${this.client.url}${this.path}/events`, { after });
    return this.client.listen(address, (event, id) => {
      // A number, which stays valid when the event itself is forgotten.
      after = id || after;
      onEvent(event);
    });
  }

  /** @param {BodyInit} content @param {string} entity @param {string} attribute @param {string} objectID */
  async upload(content, entity, attribute, objectID) {
    const token = { recordType: `CD_${entity}`, recordName: objectID, fieldName: `CD_${attribute}_ckAsset` };
    const body = { zoneID: { zoneName: "com.apple.coredata.cloudkit.zone" }, tokens: [token] };
    const { tokens } = await this.client.call("POST", `${this.records}/assets/upload`, body);
    const answer = await this.client.insist(() => tokens[0].url, { method: "POST", body: content });
    return { asset: answer.singleFile };
  }

  /** @param {string[]} objectIDs of the graphs @param {JSONObject} [options] title, publicPermission and so on */
  share(objectIDs, options) {
    return this.call("POST", "/shares", { objectIDs, to: null, ...options });
  }

  /** @param {...string} shortGUIDs shares to join, by a store of the shared database: a result each */
  async accept(...shortGUIDs) {
    return (await this.call("POST", "/accept", { shortGUIDs: shortGUIDs.map((value) => ({ value })) })).results;
  }
}
