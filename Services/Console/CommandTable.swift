// Every command of `aquifer` (docs/protocol/mirror-api.md#operators).

extension Command {
  static let table: [Command] =
    running + people + identities + mails + pushes + apps + models + schemas + rules + looking + sharing + zones

  static let container = Option.required("container", "ID", "the container, such as iCloud.org.example.photos")
  static let environment = Option.required("environment", "E", "development or production")
  static let development = Option.optional("environment", "E", "development (the default) or production")

  static let onlyContainer = Option.optional("container", "ID", "only in this container")

  static let trial = [
    Option.flag("dry-run", "show the changes and make none"),
    Option.flag("print-schema", "print the whole schema, too"),
  ]
  static let changeTypes = Option.flag(
    "change-types", "also change the types of fields that records have; objects with old values become hidden")

  static let running: [Command] = [
    Command(
      "dev", [],
      [
        .required("data", "DIR", "the data folder; created if it is missing"),
        .optional("http-port", "PORT", "the gateway's port (default 8080; 0: any free port)"),
        .optional("ping-port", "PORT", "the notifier's port (default 8081; 0: any free port)"),
        .optional("workers", "N", "the number of workers (default 1)"),
        .optional(
          "user-quota", "BYTES",
          "the quota of users without their own, for each private database, such as 500MB (default 0: no limit)"),
        .optional(
          "user-devices", "N",
          """
          the number of one user's devices that may listen (default 256), and of their requests at a time (default 128)
          """
        ),
        .optional(
          "encryption-key", "FILE",
          "the keys that encrypt values on disk (default DIR/encryption-key, created if it is missing)"),
        .optional("tls-certificate", "FILE", "a PEM file: the certificate of gateway and notifier for TLS"),
        .optional("tls-key", "FILE", "a PEM file: its private key"),
        .optional(
          "log-level", "LEVEL", "the lowest level that all processes log: debug, info (the default), warning or error"),
        .optional(
          "ready-file", "FILE", "a file to write when all processes answer, and after each replacement of a process"),
        .optional(
          "restart-pause", "MS", "the longest pause before a process starts again, in milliseconds (default 5000)"),
      ] + PassedOption.table.map(\.option),
      summary: "Run all four services on this machine",
      discussion: """
        Starts the share service, the workers, the notifier and the gateway as separate processes, restarts a process
        that dies, and stops them all on Ctrl-C or SIGTERM. Prints their addresses, an operator token, and the next
        commands. The logs are in DIR/log. `source DIR/env` sets the addresses and the operator token in a shell. The
        services read environment variables, too (AQUIFER_TRUSTED_PROXIES for --trusted-proxies). An operator token in
        the environment replaces the one in DIR/operator-token; a message says so.
        """,
      examples: [
        "aquifer dev --data ./data",
        "aquifer dev --data /tmp/trial --http-port 0 --ping-port 0 --workers 2 --ready-file ready.json",
      ], action: .dev),
    Command(
      "health", [Argument(name: "URL", explanation: "an admin address, such as http://127.0.0.1:9100/readyz")],
      summary: "Ask a process whether it is ready",
      discussion: "The exit code is 0 if the process answers 200, else 1. Containers use it as a health check.",
      examples: ["aquifer health http://127.0.0.1:9100/readyz"],
      action: .health),
    Command(
      "encryption-key add",
      [
        Argument(
          name: "FILE",
          explanation: "the file that workers and gateways read as --encryption-key; created if it is missing")
      ],
      [.flag("unless-present", "change nothing if the file has a key")],
      summary: "Add a key for encrypted values",
      discussion: """
        The first key of a file seals. A further one opens and does not seal until `encryption-key use`. Restart all
        workers and gateways in between: a process that lacks the key can't read what another one has sealed. Give all
        of them the same file. Nobody can read the values without it: keep a copy apart from the data.
        """,
      examples: ["aquifer encryption-key add /etc/aquifer/encryption-key"], action: .addEncryptionKey),
    Command(
      "encryption-key use",
      [Argument(name: "FILE", explanation: "the file that workers and gateways read as --encryption-key")],
      summary: "Seal with the added key",
      discussion: """
        Run it once all workers and gateways were restarted after `encryption-key add`, and restart them again: they
        seal with the key after their next start. The earlier keys stay in the file, because they open the values that
        they sealed.
        """,
      examples: ["aquifer encryption-key use /etc/aquifer/encryption-key"], action: .useEncryptionKeys),
    Command(
      "bus-key add",
      [Argument(name: "FILE", explanation: "the file that one process reads as --bus-key; it must not exist yet")],
      [
        .required("role", "ROLE", "gateway, worker, share or notifier"),
        .required("name", "NAME", "the process's --name"),
        .optional(
          "peers", "PEERS",
          "the file that all processes read as --bus-peers; gets the new line, created if it is missing"),
      ],
      summary: "Make a process's key for the bus between machines",
      discussion: """
        FILE holds a secret. Only its owner can read it, and it stays on its machine. The command prints the line that
        tells the other processes whose key this is: every process's --bus-peers must have it. The processes read a new
        line within two seconds, without a restart.
        """,
      examples: [
        "aquifer bus-key add /etc/aquifer/worker-2.key --role worker --name worker-2 --peers /etc/aquifer/bus-peers"
      ], action: .addBusKey),
    Command(
      "bus-key show", [Argument(name: "FILE", explanation: "a file that `aquifer bus-key add` made")],
      summary: "Print the public half of a process's key",
      examples: ["aquifer bus-key show /etc/aquifer/worker-2.key"], action: .showBusKey),
    Command("guard", summary: "End the processes of `aquifer dev` when it was killed", action: .guardGroup),
  ]

  static let people: [Command] = [
    Command(
      "user create", [Argument(name: "NAME", explanation: "the operator's name for the user, unique")],
      [
        .optional("email", "E", "the e-mail address, for sharing"),
        .optional("phone", "P", "the telephone number, for sharing"),
        .optional("given-name", "G", "the name that others see"),
        .optional("family-name", "F", "the name that others see"),
        .flag("discoverable", "let other users find this one by e-mail address or record name"),
        .flag("password-stdin", "read a password for the sign-in page from standard input"),
      ],
      summary: "Create a user and a web-auth token",
      discussion: "The command shows the token once: the directory keeps only its hash.",
      examples: [
        "aquifer user create alice --given-name Alice", "aquifer --json user create bob | jq -r .webAuthToken",
      ], action: .call(.createUser)),
    Command(
      "user update", [Argument(name: "NAME", explanation: "the user's name")],
      [
        .optional("email", "E", "the e-mail address, for sharing"),
        .optional("phone", "P", "the telephone number, for sharing"),
        .optional("given-name", "G", "the name that others see"),
        .optional("family-name", "F", "the name that others see"),
        .optional("discoverable", "yes|no", "let other users find this one, or not"),
      ],
      summary: "Change a user's names, addresses and visibility",
      discussion: "Values that you do not give stay as they are.",
      examples: ["aquifer user update alice --discoverable yes"],
      action: .call(.updateUser)),
    Command(
      "user password", [Argument(name: "NAME", explanation: "the user's name")],
      [.flag("password-stdin", "read the password from standard input, because every process could read an argument")],
      summary: "Set a user's password for the sign-in page",
      discussion: """
        The user's sessions end; tokens that the operator made stay valid. At a terminal the command asks for the
        password, and shows nothing of it.
        """,
      examples: ["aquifer user password alice --password-stdin"], action: .call(.setPassword)),
    Command(
      "user list", [], [onlyContainer], summary: "List users and the contents of their databases",
      discussion: "With --container, lists the users who have data in it, and counts only that data.",
      examples: ["aquifer user list", "aquifer user list --container iCloud.org.example.photos"],
      action: .call(.listUsers)),
    Command(
      "user show", [Argument(name: "NAME", explanation: "the user's name, or record name")],
      summary: "Show all that the installation stores of a user",
      discussion:
        """
        Lists databases with bytes, records and zones; shares; access to others' zones; quota. Counts tokens, sessions
        and devices that are woken; `session list` and `registration list` with --user name them.
        """,
      examples: ["aquifer user show alice"], action: .call(.showUser)),
    Command(
      "user delete", [Argument(name: "NAME", explanation: "the user's name, or record name")],
      [.flag("yes", "delete; without it the command only lists what it would delete")],
      summary: "Delete a user and all of their data",
      discussion: """
        These go at once: sign-ins, tokens, sessions, roles, and server keys that act as the user. The name and the
        e-mail address are free again. These go shard after shard, even after a restart: the user's databases with
        records, assets, devices' stores, history and subscriptions. The user's shares end for everybody, and the user
        leaves others' shares. Records that the user wrote into others' zones and into public databases stay: they
        belong to others and to the app. The shards are searched once more a quarter of an hour later. `user show` shows
        the progress, and forgets the name at the end. Earlier backups still have the data. With --yes and a record name
        that no user has, it removes what a restored backup brought back.
        """,
      examples: ["aquifer user delete alice", "aquifer user delete alice --yes"], action: .deleteUser),
    Command(
      "user disable", [Argument(name: "NAME", explanation: "the user's name")],
      summary: "Refuse a user's tokens from now on",
      examples: ["aquifer user disable alice"], action: .call(.disableUser)),
    Command(
      "user enable", [Argument(name: "NAME", explanation: "the user's name")],
      summary: "Accept a user's tokens again after `user disable`",
      discussion: "The user's sessions and web couriers have ended and do not come back.",
      examples: ["aquifer user enable alice"],
      action: .call(.enableUser)),
    Command(
      "user sign-out", [Argument(name: "NAME", explanation: "the user's name")],
      summary: "End all sessions of a user at once",
      discussion: """
        Devices that registered by these sessions are woken no more. Tokens of `user token` stay valid. One session ends
        with `session revoke`, one device with `registration end`.
        """,
      examples: ["aquifer user sign-out alice"], action: .call(.signOutUser)),
    Command(
      "user token", [Argument(name: "NAME", explanation: "the user's name")],
      summary: "Make another web-auth token, for one more device",
      discussion: "The token is valid until it is revoked. Several devices may use it at the same time.",
      examples: ["aquifer user token alice"],
      action: .call(.createUserToken)),
    Command(
      "user quota",
      [
        Argument(name: "NAME", explanation: "the user's name"),
        Argument(
          name: "BYTES",
          explanation:
            """
            the limit of each of the user's databases, such as 500MB, 1.5GB or 2GiB; 0: no limit; default: the \
            workers' --user-quota
            """
        ),
      ], summary: "Limit the bytes of a user's records and assets",
      discussion:
        """
        Above the limit the server refuses saves that add bytes with QUOTA_EXCEEDED. It still takes deletions and \
        saves that free bytes.
        """,
      examples: ["aquifer user quota alice 10GB", "aquifer user quota alice default"], action: .call(.setUserQuota)),
    Command(
      "role grant", [], member, summary: "Give a user a role",
      discussion: """
        Of a schema's custom role name the environment; CREATE ROLE declares it, and GRANTs give its permissions (see
        `aquifer schema import`). The role `operator`, without a container, lets the user do everything in the console;
        the role `developer` of a container what concerns that app.
        """,
      examples: [
        """
        aquifer role grant --container iCloud.org.example.photos --environment production --user alice --role moderators
        """,
        "aquifer role grant --container iCloud.org.example.photos --user dave --role developer",
        "aquifer role grant --user carol --role operator",
      ],
      action: .call(.grantRole)),
    Command(
      "role revoke", [], member, summary: "Take a role from a user",
      examples: [
        """
        aquifer role revoke --container iCloud.org.example.photos --environment production --user alice --role \
        moderators
        """,
        "aquifer role revoke --user carol --role operator",
      ],
      action: .call(.revokeRole)),
    Command(
      "role list", [], [.optional("container", "ID", "only in this container")],
      summary: "List the users' roles",
      examples: ["aquifer role list", "aquifer role list --container iCloud.org.example.photos"],
      action: .call(.listRoles)),
    Command(
      "session list", [], [.optional("user", "NAME", "only this user's sessions"), onlyContainer],
      summary: "List the sessions of the sign-in page",
      examples: ["aquifer session list", "aquifer session list --user alice"], action: .call(.listSessions)),
    Command(
      "session revoke", [Argument(name: "SESSION", explanation: "the session's name, from `session list`")],
      summary: "End a session now",
      discussion: "Devices that registered by the session are woken no more.",
      examples: ["aquifer session revoke 0f4b1c1e7e574c40"], action: .call(.revokeSession)),
    Command(
      "sign-in list", [],
      [
        .optional("user", "NAME", "only this user's"), onlyContainer,
        .optional("after", "NUMBER", "go on behind this number, which ends the page before"),
      ],
      summary: "List who signed in and who was refused, latest first",
      discussion: """
        Tells the way (password, provider, exchange, passkey, device, share or console), the client's address, and the
        session that began. `wrong` is a wrong name or password; without a user nobody has the typed name. The directory
        keeps 90 days, and of both kinds the latest 100 000. Attempts that had to wait are only in the log.
        """,
      examples: ["aquifer sign-in list", "aquifer sign-in list --user alice"], action: .call(.listSignIns)),
  ]

  static let member = [
    Option.optional("container", "ID", "the app's container; of an operator's role none"),
    Option.optional("environment", "E", "development or production; only of a custom role"),
    Option.required("user", "NAME", "the user's name"),
    Option.required("role", "R", "operator, developer or a custom role"),
  ]

  static let apps: [Command] = [
    Command(
      "container create", [Argument(name: "ID", explanation: "1 to 255 characters of A-Z a-z 0-9 . _ -")],
      [.flag("if-missing", "succeed, and change nothing, if the container exists")],
      summary: "Create an app's container",
      examples: [
        "aquifer container create iCloud.org.example.photos",
        "aquifer container create iCloud.org.example.photos --if-missing",
      ], action: .call(.createContainer)),
    Command(
      "container set", [Argument(name: "ID", explanation: "the container")],
      [
        .optional("display-name", "NAME", "the app's name for people; '' removes it"),
        .optional("app-url", "URL", "the app's address, https or a scheme of its own; '' removes it"),
      ],
      summary: "Set an app's name and address",
      discussion:
        """
        The sign-in page and the share pages show the name and link to the address. Values that you do not give stay \
        as they are.
        """,
      examples: [
        "aquifer container set iCloud.org.example.photos --display-name Photos --app-url https://photos.example.org"
      ],
      action: .call(.setContainer)),
    Command(
      "container list", summary: "List containers and their apps", examples: ["aquifer container list"],
      action: .call(.listContainers)),
    Command(
      "container delete", [Argument(name: "ID", explanation: "the container")],
      [.flag("yes", "delete it; all data in it become unreachable")],
      summary: "Delete a container", examples: ["aquifer container delete iCloud.org.example.photos --yes"],
      action: .call(.deleteContainer)),
    Command(
      "token create", [],
      [
        container, environment,
        .repeated("allowed-origin", "O", "the origin of a web page that may use the token (default: any)"),
        .optional(
          "callback-url", "URL",
          """
          the URL to which the sign-in page sends the browser with the token, for apps that do not open the page in a \
          window of theirs
          """
        ),
      ],
      summary: "Create an API token for an app",
      examples: ["aquifer token create --container iCloud.org.example.photos --environment development"],
      action: .call(.createToken)),
    Command(
      "token list", [], [onlyContainer], summary: "List API tokens", examples: ["aquifer token list"],
      action: .call(.listTokens)),
    Command(
      "token revoke", [Argument(name: "T", explanation: "the API token")], summary: "Refuse an API token from now on",
      examples: ["aquifer token revoke 3f…"],
      action: .call(.revokeToken)),
    Command(
      "key add", [],
      [
        container, .required("public-key", "FILE.pem", "an ECDSA P-256 public key"),
        .optional("name", "N", "for people"),
        .optional("user", "NAME", "the user who makes the server's changes (default: a new user for the key)"),
      ], summary: "Add a server-to-server key",
      examples: ["aquifer key add --container iCloud.org.example.photos --public-key eckey.pem"], action: .call(.addKey)
    ),
    Command(
      "key list", [], [onlyContainer], summary: "List server-to-server keys", examples: ["aquifer key list"],
      action: .call(.listKeys)),
    Command(
      "key revoke", [Argument(name: "K", explanation: "the key ID")],
      summary: "Refuse a server-to-server key from now on",
      examples: ["aquifer key revoke 9a…"], action: .call(.revokeKey)),
  ]
}
