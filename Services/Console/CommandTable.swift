// Every command of `aquifer` (docs/protocol/mirror-api.md#operators).

extension Command {
  static let table: [Command] = running + people + apps + models + schemas + rules + looking + sharing + zones

  private static let container = Option.required("container", "ID", "the container, such as iCloud.org.example.photos")
  private static let environment = Option.required("environment", "E", "development or production")
  private static let development = Option.optional("environment", "E", "development (as without it) or production")

  private static let onlyContainer = Option.optional("container", "ID", "only of this container")

  private static let trial = [
    Option.flag("dry-run", "say what would change, and change nothing"), Option.flag("print-schema", "answer with the whole schema"),
  ]
  private static let changeTypes = Option.flag("change-types", "also change types of fields that records have: objects with values of before are hidden")

  private static let running: [Command] = [
    Command(
      "dev", [],
      [
        .required("data", "DIR", "the folder of everything that lasts; made when it is missing"),
        .optional("http-port", "PORT", "of the gateway, 8080 without it; 0: any free port"),
        .optional("ping-port", "PORT", "of the notifier, 8081 without it; 0: any free port"),
        .optional("workers", "N", "how many workers, 1 without it"),
        .optional("user-quota", "BYTES", "what each private database may hold, such as 500MB, unless the user has a quota of his own; 0, as without it: any number"),
        .optional("user-devices", "N", "how many of one user's devices may listen, and ask at a time; 256 and 128 without it"),
        .optional("encryption-key", "FILE", "the keys that encrypted values rest under; without it DIR/encryption-key, made when it is missing"),
        .optional("tls-certificate", "FILE", "PEM: gateway and notifier speak TLS with this certificate"), .optional("tls-key", "FILE", "PEM: its private key"),
        .optional("log-level", "LEVEL", "the least important lines of all processes' logs: debug, info (as without it), warning or error"),
        .optional("ready-file", "FILE", "written when everything answers, and whenever a process was replaced"),
        .optional("restart-pause", "MS", "the longest pause before a process that keeps ending is started again, 5000 without it"),
      ] + PassedOption.table.map(\.option),
      summary: "Run all four services on this machine",
      discussion: """
        Starts the share service, the workers, the notifier and the gateway as processes of their own, starts one again that dies, and stops
        them all on Ctrl-C or SIGTERM. Prints where they are, an operator token, and commands to go on with. Their logs are in DIR/log; `source
        DIR/env` tells a shell where they are and who the operator is. Variables of the environment reach the services, too (AQUIFER_TRUSTED_PROXIES
        for --trusted-proxies); an operator token among them holds in place of the one in DIR/operator-token, and is said to.
        """,
      examples: ["aquifer dev --data ./data", "aquifer dev --data /tmp/trial --http-port 0 --ping-port 0 --workers 2 --ready-file ready.json"], action: .dev),
    Command(
      "health", [Argument(name: "URL", explanation: "an admin address, such as http://127.0.0.1:9100/readyz")], summary: "Ask a process whether it is ready",
      discussion: "Exit code 0 when it answers 200, 1 otherwise: for health checks of containers.", examples: ["aquifer health http://127.0.0.1:9100/readyz"],
      action: .health),
    Command(
      "encryption-key add", [Argument(name: "FILE", explanation: "the file that workers and gateways read as --encryption-key; made when it is missing")],
      [.flag("unless-present", "leave a file with a key as it is")],
      summary: "Add a key for encrypted values",
      discussion: """
        The new key seals from the next start of the processes on; the earlier ones stay in the file, as they are needed to open what they
        sealed. Give all workers and gateways the same file. Without it nobody can read those values: keep a copy apart from the data.
        """,
      examples: ["aquifer encryption-key add /etc/aquifer/encryption-key"], action: .addEncryptionKey),
    Command(
      "bus-key add", [Argument(name: "FILE", explanation: "the file that one process reads as --bus-key; there must be none yet")],
      [
        .required("role", "ROLE", "gateway, worker, share or notifier"), .required("name", "NAME", "the process's --name"),
        .optional("peers", "PEERS", "the file that all processes read as --bus-peers, which the new line is added to; made when it is missing"),
      ],
      summary: "Make a process's key for the bus between machines",
      discussion: """
        FILE holds a secret and is readable by its owner only; it stays on its machine. What is printed is the line that tells the others whom
        the key belongs to: every process's --bus-peers must have it. They find a new line within a second or two, without a restart.
        """,
      examples: ["aquifer bus-key add /etc/aquifer/worker-2.key --role worker --name worker-2 --peers /etc/aquifer/bus-peers"], action: .addBusKey),
    Command(
      "bus-key show", [Argument(name: "FILE", explanation: "a file that `aquifer bus-key add` made")], summary: "Print the public half of a process's key",
      examples: ["aquifer bus-key show /etc/aquifer/worker-2.key"], action: .showBusKey),
    Command("guard", summary: "End the processes of `aquifer dev` when it was killed", action: .guardGroup),
  ]

  private static let people: [Command] = [
    Command(
      "user create", [Argument(name: "NAME", explanation: "the operator's name for the user, unique")],
      [
        .optional("email", "E", "for sharing by e-mail address"), .optional("phone", "P", "for sharing by telephone number"),
        .optional("given-name", "G", "as others see it"),
        .optional("family-name", "F", "as others see it"), .flag("discoverable", "other users may find this one by e-mail address or record name"),
        .flag("password-stdin", "read a password for the sign-in page from standard input"),
      ],
      summary: "Create a user and a web-auth token", discussion: "The token is shown once; the directory keeps only its hash.",
      examples: ["aquifer user create alice --given-name Alice", "aquifer --json user create bob | jq -r .webAuthToken"], action: .call(.createUser)),
    Command(
      "user update", [Argument(name: "NAME", explanation: "the user's name")],
      [
        .optional("email", "E", "for sharing by e-mail address"), .optional("phone", "P", "for sharing by telephone number"),
        .optional("given-name", "G", "as others see it"),
        .optional("family-name", "F", "as others see it"), .optional("discoverable", "yes|no", "whether other users may find this one"),
      ],
      summary: "Change what is known of a user", discussion: "What is not given stays as it is.", examples: ["aquifer user update alice --discoverable yes"],
      action: .call(.updateUser)),
    Command(
      "user password", [Argument(name: "NAME", explanation: "the user's name")],
      [.flag("password-stdin", "read the password from standard input: never an argument, which every process could read")],
      summary: "Set a user's password for the sign-in page", discussion: "Ends the user's sessions; tokens made by the operator go on.",
      examples: ["aquifer user password alice --password-stdin"], action: .call(.setPassword)),
    Command(
      "user list", [], [onlyContainer], summary: "List users, and what their databases hold",
      discussion: "With --container those who have something in it, and what that is.",
      examples: ["aquifer user list", "aquifer user list --container iCloud.org.example.photos"], action: .call(.listUsers)),
    Command(
      "user show", [Argument(name: "NAME", explanation: "the user's name, or record name")], summary: "Show what there is of a user",
      discussion: "Databases with bytes, records and zones, shares, zones of others that they have access to, tokens, sessions and quota.",
      examples: ["aquifer user show alice"], action: .call(.showUser)),
    Command(
      "user delete", [Argument(name: "NAME", explanation: "the user's name, or record name")],
      [.flag("yes", "really: without it is said what would go, and nothing goes")], summary: "Delete a user with everything that is theirs",
      discussion: """
        At once: sign-ins, tokens, sessions, roles and server keys that act as the user; name and e-mail address are free again. Then, shard after
        shard, also after a restart: their databases with records, assets, devices' stores, history and subscriptions. What they shared ends for
        everybody, as if they had deleted it; they leave what others shared with them. What they wrote into others' zones and into public
        databases stays: it is others' and the app's. After a quarter of an hour the shards are looked through once more.
        `user show` says how far it is; then nobody is known by the name. Backups from before still have the data.
        """,
      examples: ["aquifer user delete alice", "aquifer user delete alice --yes"], action: .deleteUser),
    Command(
      "user disable", [Argument(name: "NAME", explanation: "the user's name")], summary: "Refuse a user's tokens from now on",
      examples: ["aquifer user disable alice"], action: .call(.disableUser)),
    Command(
      "user enable", [Argument(name: "NAME", explanation: "the user's name")], summary: "Take a user's tokens again after `user disable`",
      discussion: "The user's sessions have ended, and so have web couriers that they asked for.", examples: ["aquifer user enable alice"],
      action: .call(.enableUser)),
    Command(
      "user token", [Argument(name: "NAME", explanation: "the user's name")], summary: "Make a further web-auth token, for one more device",
      discussion: "Such tokens live until they are revoked and may be used any number of times, in parallel.", examples: ["aquifer user token alice"],
      action: .call(.createUserToken)),
    Command(
      "user quota",
      [
        Argument(name: "NAME", explanation: "the user's name"),
        Argument(
          name: "BYTES",
          explanation: "what each of the user's databases may hold, such as 500MB, 1.5GB or 2GiB; 0: any number; default: what the workers are configured with"),
      ], summary: "Limit the bytes of a user's records and assets",
      discussion: "Over it, saves that grow are refused with QUOTA_EXCEEDED; deletions and saves that shrink go on.",
      examples: ["aquifer user quota alice 10GB", "aquifer user quota alice default"], action: .call(.setUserQuota)),
    Command(
      "role grant", [], [container, environment] + member, summary: "Give a user a custom role of the schema",
      discussion: "The role is declared by CREATE ROLE, and what it may by GRANTs; see `aquifer schema import`.",
      examples: ["aquifer role grant --container iCloud.org.example.photos --environment production --user alice --role moderators"],
      action: .call(.grantRole)),
    Command(
      "role revoke", [], [container, environment] + member, summary: "Take a custom role from a user",
      examples: ["aquifer role revoke --container iCloud.org.example.photos --environment production --user alice --role moderators"],
      action: .call(.revokeRole)),
    Command(
      "role list", [], [.optional("container", "ID", "only of this container")], summary: "List who has which custom role",
      examples: ["aquifer role list", "aquifer role list --container iCloud.org.example.photos"], action: .call(.listRoles)),
    Command(
      "session list", [], [.optional("user", "NAME", "only this user's"), onlyContainer], summary: "List who is signed in by the sign-in page",
      examples: ["aquifer session list", "aquifer session list --user alice"], action: .call(.listSessions)),
    Command(
      "session revoke", [Argument(name: "SESSION", explanation: "as it is listed")], summary: "End a session now",
      examples: ["aquifer session revoke 0f4b1c1e7e574c40"], action: .call(.revokeSession)),
  ]

  private static let member = [Option.required("user", "NAME", "the user's name"), Option.required("role", "R", "the custom role")]

  private static let apps: [Command] = [
    Command(
      "container create", [Argument(name: "ID", explanation: "1 to 255 characters of A-Z a-z 0-9 . _ -")], summary: "Create an app's container",
      examples: ["aquifer container create iCloud.org.example.photos"], action: .call(.createContainer)),
    Command(
      "container set", [Argument(name: "ID", explanation: "the container")],
      [
        .optional("display-name", "NAME", "what the app is called to people; '' forgets it"),
        .optional("app-url", "URL", "where people find the app, https or a scheme of its own; '' forgets it"),
      ],
      summary: "Say what an app is called, and where people find it",
      discussion: "The sign-in page and the pages of shares name the app and lead back to it. What is not given stays as it is.",
      examples: ["aquifer container set iCloud.org.example.photos --display-name Photos --app-url https://photos.example.org"],
      action: .call(.setContainer)),
    Command("container list", summary: "List containers and their apps", examples: ["aquifer container list"], action: .call(.listContainers)),
    Command(
      "container delete", [Argument(name: "ID", explanation: "the container")], [.flag("yes", "really: everything in it becomes unreachable")],
      summary: "Delete a container", examples: ["aquifer container delete iCloud.org.example.photos --yes"], action: .call(.deleteContainer)),
    Command(
      "token create", [],
      [
        container, environment, .repeated("allowed-origin", "O", "a web page's origin that may use it; without one: any"),
        .optional("callback-url", "URL", "where the sign-in page sends the browser with the token, for apps that open it in no window of theirs"),
      ],
      summary: "Create an API token for an app", examples: ["aquifer token create --container iCloud.org.example.photos --environment development"],
      action: .call(.createToken)),
    Command("token list", [], [onlyContainer], summary: "List API tokens", examples: ["aquifer token list"], action: .call(.listTokens)),
    Command(
      "token revoke", [Argument(name: "T", explanation: "the API token")], summary: "Refuse an API token from now on", examples: ["aquifer token revoke 3f…"],
      action: .call(.revokeToken)),
    Command(
      "key add", [],
      [
        container, .required("public-key", "FILE.pem", "an ECDSA P-256 public key"), .optional("name", "N", "for people"),
        .optional("user", "NAME", "the user whose the server's writes are; without it a user is made for the key"),
      ], summary: "Add a server-to-server key", examples: ["aquifer key add --container iCloud.org.example.photos --public-key eckey.pem"], action: .call(.addKey)),
    Command("key list", [], [onlyContainer], summary: "List server-to-server keys", examples: ["aquifer key list"], action: .call(.listKeys)),
    Command(
      "key revoke", [Argument(name: "K", explanation: "the key ID")], summary: "Refuse a server-to-server key from now on",
      examples: ["aquifer key revoke 9a…"], action: .call(.revokeKey)),
  ]

  private static let path = Argument(name: "PATH", explanation: "an .xcdatamodeld (its current version), an .xcdatamodel, or a contents file")

  private static let models: [Command] = [
    Command(
      "model validate", [path], [.optional("configuration", "C", "only the entities of this configuration")],
      summary: "Check a Core Data model against every rule of mirroring, without a server",
      discussion: "Prints all problems at once and exits with 1: for CI.", examples: ["aquifer model validate Photos.xcdatamodeld"], action: .validateModel),
    Command(
      "model push", [path],
      [
        container, environment, .optional("configuration", "C", "only the entities of this configuration"), changeTypes,
        .flag("yes", "really: production takes it at once, and gives nothing back"),
      ] + trial, summary: "Make a container's schema fit a Core Data model",
      discussion: """
        Says what is added, and what becomes of values saved so far: fields of another type are refused unless --change-types says that it is
        meant, because objects with values of before don't fit and are hidden; fields that the model has no more keep their values, which
        a renamingIdentifier does not move. Production is better given what was tried in development, by `aquifer schema promote`.
        """,
      examples: ["aquifer model push Photos.xcdatamodeld --container iCloud.org.example.photos --environment development"], action: .pushModel),
  ]

  private static let schemas: [Command] = [
    Command(
      "schema export", [], [container, development], summary: "Print a schema as text", examples: ["aquifer schema export --container iCloud.org.example.photos"],
      action: .call(.exportSchema)),
    Command(
      "schema import", [Argument(name: "FILE", explanation: "a schema text")], [container, development, changeTypes] + trial, summary: "Replace the development schema",
      discussion: """
        Prints what changes: + added, - gone, ~ of another type and how many records have it, * a new index or grant; with --dry-run it is only
        printed. Production takes what only adds. What is gone from the schema stays in the records.
        """,
      examples: ["aquifer schema import photos.ckdb --container iCloud.org.example.photos"], action: .call(.importSchema)),
    Command(
      "schema promote", [], [container] + trial, summary: "Add to production what development has more",
      examples: ["aquifer schema promote --container iCloud.org.example.photos"], action: .call(.promoteSchema)),
    Command(
      "schema reset", [], [container, .flag("yes", "really: without it the records are counted, and nothing is dropped")],
      summary: "Drop the development schema and its records",
      discussion: "Schema, models, rules, records, devices' stores and subscriptions of development go; devices begin anew. Production stays as it is.",
      examples: ["aquifer schema reset --container iCloud.org.example.photos", "aquifer schema reset --container iCloud.org.example.photos --yes"],
      action: .resetSchema),
    Command(
      "schema diff", [], [container], summary: "Show what development has more than production",
      examples: ["aquifer schema diff --container iCloud.org.example.photos"], action: .call(.diffSchema)),
  ]

  private static let rules: [Command] = [
    Command(
      "rules export", [], [container, development], summary: "Print what is unique in an environment, as `rules import` takes it",
      examples: ["aquifer rules export --container iCloud.org.example.photos"], action: .call(.exportRules)),
    Command(
      "rules import", [Argument(name: "FILE", explanation: "the rules as JSON")],
      [container, development, .flag("dry-run", "check the rules, and change nothing")], summary: "Declare what is unique, and what becomes of duplicates",
      discussion: """
        FILE has the rules for all models of the environment; a rule holds if one of them has its entity and attributes.
        FILE is {"unique":[{"entity":"Tag","attributes":["name"],"policy":"merge-lowest-uuid"}]}, all rules of the environment. Policies:
        merge-lowest-uuid  duplicates in a zone become the one with the lowest record name, also those that are there already
        reject             a save that would make a duplicate is refused with UNIQUE_FIELD_ERROR
        report             duplicates are listed by `aquifer duplicates list`
        """, examples: ["aquifer rules import rules.json --container iCloud.org.example.photos"], action: .call(.importRules)),
    Command(
      "duplicates list", [], [onlyContainer], summary: "List objects that share what is declared to be unique",
      discussion: "Of each group some names, with how many there are; `merging` are those that wait to be removed because another stands for them.",
      examples: ["aquifer duplicates list"], action: .call(.listDuplicates)),
  ]

  private static let watch = Option.count("watch", "SECONDS", standard: 2, "show it again and again, every 2 seconds unless said otherwise, until Ctrl-C")

  private static let looking: [Command] = [
    Command(
      "status", [], [watch], summary: "Say whether all is well, and if not, what to do",
      discussion: """
        The first line says whether all is well, or what is wrong and what to do; the tables below have everybody, what is odd first and marked
        by an exclamation mark. `to export` are saved transactions that are not mirrored yet, `oldest` is how long the first of them waits;
        `held back` are objects that can't be exported; `queue` are writes that wait for a disk; `not open` are shards that serve nobody.
        docs/operating/OPERATING.md goes on from there.
        """, examples: ["aquifer status", "aquifer status --watch", "aquifer --json status"], action: .call(.status)),
    Command(
      "workers", [], [watch], summary: "List the workers and what they hold", discussion: "A worker that does not answer within 2 s is SILENT.",
      examples: ["aquifer workers", "aquifer workers --watch 5"], action: .call(.workers)),
    Command(
      "shards", [], [watch], summary: "List who holds which shards", discussion: "With --json one object a shard.", examples: ["aquifer shards"],
      action: .call(.shards)),
    Command(
      "shards accept", [Argument(name: "WHAT", explanation: "the number of a shard, data or assets for the folder of that name, or all")],
      summary: "Take data that workers refuse for the installation's from now on",
      discussion: """
        For shards and folders that are missing or older than they were, when nothing newer is left: what is there is served, and a shard whose file is
        missing begins empty. Stop every process that still uses the folder with the newer data first.
        """, examples: ["aquifer shards accept 3", "aquifer shards accept all"], action: .call(.acceptData)),
    Command(
      "stores", [], [onlyContainer, watch], summary: "List the devices' stores, those with most to export first", examples: ["aquifer stores", "aquifer stores --watch"],
      action: .call(.stores)),
    Command("zones", [], [onlyContainer], summary: "List the zones", examples: ["aquifer zones"], action: .call(.zones)),
    Command(
      "subscriptions", [], [onlyContainer], summary: "List what users have subscribed to", examples: ["aquifer subscriptions"], action: .call(.subscriptions)),
    Command(
      "events", [], [onlyContainer, .flag("follow", "go on printing new ones, a line each"), watch], summary: "List setups, imports and exports, the latest first",
      discussion: "Up to 20 of each store; those that failed are marked, with their first error.",
      examples: ["aquifer events", "aquifer events --follow", "aquifer events --watch"], action: .followEvents),
    Command(
      "explain", [Argument(name: "OBJECT", explanation: "the object's ID, which is its record name")],
      [container, environment, .required("user", "NAME", "whose stores"), .flag("public", "in the public database, and not in his private one")],
      summary: "Say where an object stands in each of a user's stores, and why",
      examples: ["aquifer explain 0B1C2D3E-4F50-4678-9ABC-DEF012345678 --container iCloud.org.example.photos --environment production --user alice"],
      action: .call(.explain)),
    Command(
      "quarantine list", [], [onlyContainer, watch], summary: "List objects whose export is held back, and why",
      discussion: "Those that nothing tries again by itself are marked.", examples: ["aquifer quarantine list"], action: .call(.listQuarantine)),
    Command(
      "quarantine retry", [],
      [
        .optional("container", "ID", "only of this container"), .optional("environment", "E", "only of this environment"),
        .optional("user", "NAME", "only of this user's stores, by name or record name"),
      ], summary: "Try held-back exports again", examples: ["aquifer quarantine retry", "aquifer quarantine retry --container iCloud.org.example.photos"],
      action: .call(.retryQuarantine)),
    Command(
      "backup", [Argument(name: "DIR", explanation: "a folder that is not there yet")], summary: "Back the installation up while it runs",
      discussion:
        "The share service and the workers write the folder; all must see it under this path. Assets are second names of the installation's files where both are on one file system. Encryption keys and the operator token are not in it: keep the key file elsewhere. A shard that can't be copied is left out and named; the exit code is 3 then.",
      examples: ["aquifer backup /var/backups/aquifer"], action: .runJob(.backup)),
    Command(
      "restore", [Argument(name: "DIR", explanation: "a backup")],
      [
        .required("data", "DIR", "an empty data folder, for `aquifer dev` or the workers"),
        .optional("directory", "DIR", "the share service's data folder; as without it the same"),
        .optional("missing-from", "DIR", "an earlier backup of the installation: shards that this one lacks are taken from it"),
        .flag("without-missing", "leave shards empty that the backup lacks: what was in them is lost"),
      ], summary: "Restore a backup onto an empty data folder",
      discussion: "Needs no server, and none may use the folders. Clients are told to begin anew, because the backup may lack what they have seen.",
      examples: ["aquifer restore /var/backups/aquifer --data ./data"], action: .restoreBackup),
    Command(
      "scrub", [],
      [.flag("assets", "read the contents of all files, too"), .flag("mend-links", "delete link records that lead nowhere, for every device")],
      summary: "Look over everything that is stored, while it is served",
      discussion:
        "Shard after shard: pages, indexes, every record's checksum, counters. Prints what is wrong, and exits with 1 if anything is. Says how many link records lead nowhere: one of their objects is not there, nothing that is held back will make it, and they are a day old. They do no harm but that every new device imports them; --mend-links deletes them, and every device imports that.",
      examples: ["aquifer scrub", "aquifer scrub --assets", "aquifer scrub --mend-links"], action: .runJob(.scrub)),
  ]
}
