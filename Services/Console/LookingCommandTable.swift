// The commands that look at an installation: status, shards, stores, events and more.

extension Command {
  private static let watch = Option.count(
    "watch", "SECONDS", standard: 2, "refresh every SECONDS (default 2) until Ctrl-C")

  static let looking: [Command] = [
    Command(
      "status", [], [watch], summary: "Show problems of the installation and their remedies",
      discussion: """
        The first lines name each problem and its remedy, or say that all is well. The tables below have all processes
        and stores, problems first and marked by an exclamation mark. `to export` counts saved transactions that are not
        mirrored yet, and `oldest` is the age of the first. `held back` counts objects that can't be exported, `queue`
        writes that wait for a disk, `not open` shards that serve nobody. docs/operating/OPERATING.md tells more.
        """, examples: ["aquifer status", "aquifer status --watch", "aquifer --json status"], action: .call(.status)),
    Command(
      "workers", [], [watch], summary: "List the workers and their shards",
      discussion: "A worker that does not answer within 2 s is SILENT.",
      examples: ["aquifer workers", "aquifer workers --watch 5"], action: .call(.workers)),
    Command(
      "shards", [], [watch], summary: "List the shards and their workers",
      discussion: """
        The last table has the size of each shard, measured every minute, and its saves and reads a second over the last
        five minutes. A dash is a figure that no worker tells. --json prints one object for each shard.
        """, examples: ["aquifer shards"],
      action: .call(.shards)),
    Command(
      "shards accept",
      [
        Argument(
          name: "WHAT", explanation: "a shard's number, `data` or `assets` for the folder of that name, or `all`")
      ],
      summary: "Make workers accept data that they refuse",
      discussion: """
        For shards and folders that are missing or older than before, when no newer copy exists. Workers then serve the
        data that they find, and a shard without a file begins empty. Clients of a shard that is older or empty begin
        anew, as after a restore. First stop every process that still uses a folder with newer data. Shards that are
        open are left out; while one is, `all` leaves out the folders. An acceptance holds until a worker opens the
        shard: `status` and `shards` show those that still do.
        """, examples: ["aquifer shards accept 3", "aquifer shards accept all"], action: .call(.acceptData)),
    Command(
      "shards move", [Argument(name: "SHARD", explanation: "the shard's number")],
      [.required("to", "CLUSTER", "the name of a cluster in the workers' --records")],
      summary: "Move a shard to another cluster while it serves",
      discussion: """
        The shard's worker copies the rows and follows the changes. Saves wait for less than a second while it switches.
        The command asks for the move and ends at once: `shards` shows how far it is, and what keeps it. A move that is
        interrupted begins again. The shard's own cluster as CLUSTER takes the request back.
        """, examples: ["aquifer shards move 3 --to west"], action: .call(.moveShard)),
    Command(
      "shards split", [Argument(name: "SHARD", explanation: "the shard's number")],
      [
        .optional("to", "CLUSTER", "the cluster that gets the new shard (default: the shard's own)"),
        .flag("cancel", "take an earlier request back"),
      ],
      summary: "Divide a shard of PostgreSQL into two while it serves",
      discussion: """
        Half of the shard's databases go to a new shard with the next number; all others stay where they are. It is
        carried out like a move, and can't be undone. The command asks for it and ends at once: `shards` shows how far
        it is, and what keeps it. One shard is divided at a time. All processes must be of a release that knows divided
        shards. After a --cancel the shard is opened anew, to see whether it was divided already. No other one is
        divided before that.
        """, examples: ["aquifer shards split 3", "aquifer shards split 3 --to west"], action: .call(.splitShard)),
    Command(
      "shards balance", [],
      [
        .flag("dry-run", "print the plan, and ask for nothing"),
        .optional("limit", "N", "the most moves that a cluster takes part in at a time (default 2)"),
      ],
      summary: "Spread the shards evenly over the clusters",
      discussion: """
        Plans as few copied bytes as it takes to give the clusters like parts of the bytes and of the load, and asks for
        these moves. They run as those of `shards move`; the others wait for their turn. A second `balance` changes
        nothing that moves, and replaces what waits. A move of a shard to its own cluster takes it out of the plan.
        """, examples: ["aquifer shards balance --dry-run", "aquifer shards balance"], action: .call(.balanceShards)),
    Command(
      "stores", [], [onlyContainer, watch], summary: "List the devices' stores, those with the most to export first",
      examples: ["aquifer stores", "aquifer stores --watch"],
      action: .call(.stores)),
    Command(
      "zones", [], [onlyContainer], summary: "List the zones", examples: ["aquifer zones"], action: .call(.zones)),
    Command(
      "subscriptions", [], [onlyContainer], summary: "List the users' subscriptions",
      examples: ["aquifer subscriptions"], action: .call(.subscriptions)),
    Command(
      "events", [], [onlyContainer, .flag("follow", "keep printing new events, one line each"), watch],
      summary: "List setups, imports and exports, latest first",
      discussion: "Shows up to 20 events of each store, and marks failed ones with their first error.",
      examples: ["aquifer events", "aquifer events --follow", "aquifer events --watch"], action: .followEvents),
    Command(
      "explain", [Argument(name: "OBJECT", explanation: "the object's ID, which is its record name")],
      [
        container, environment, .required("user", "NAME", "whose stores"),
        .flag("public", "in the public database instead of the private one"),
      ],
      summary: "Explain an object's state in each of a user's stores",
      examples: [
        """
        aquifer explain 0B1C2D3E-4F50-4678-9ABC-DEF012345678 --container iCloud.org.example.photos --environment \
        production --user alice
        """
      ],
      action: .call(.explain)),
    Command(
      "quarantine list", [], [onlyContainer, watch],
      summary: "List objects whose export is held back, with the reasons",
      discussion: "Marks objects that the server does not try again by itself.", examples: ["aquifer quarantine list"],
      action: .call(.listQuarantine)),
    Command(
      "quarantine retry", [],
      [
        .optional("container", "ID", "only in this container"),
        .optional("environment", "E", "only in this environment"),
        .optional("user", "NAME", "only of this user's stores, by name or record name"),
      ], summary: "Try held-back exports again",
      examples: ["aquifer quarantine retry", "aquifer quarantine retry --container iCloud.org.example.photos"],
      action: .call(.retryQuarantine)),
    Command(
      "backup", [Argument(name: "DIR", explanation: "a folder that does not exist yet")],
      summary: "Back the installation up while it runs",
      discussion:
        """
        The share service and the workers write the folder; all must see it under this path. On the installation's own \
        file system, assets are hard links to its files. The backup has no encryption keys and no operator token: keep \
        the key file elsewhere. If a shard can't be copied, the command names it, goes on, and exits with 3.
        """,
      examples: ["aquifer backup /var/backups/aquifer"], action: .runJob(.backup)),
    Command(
      "restore", [Argument(name: "DIR", explanation: "a backup")],
      [
        .required("data", "DIR", "an empty data folder for `aquifer dev` or the workers"),
        .optional("directory", "DIR", "the share service's data folder (default: DIR of --data)"),
        .optional("missing-from", "DIR", "an earlier backup of the installation, to take missing shards from"),
        .flag("without-missing", "leave missing shards empty; their data are lost"),
      ], summary: "Restore a backup onto an empty data folder",
      discussion:
        """
        Needs no server; no process may use the folders meanwhile. Clients must start again, because the backup may \
        lack changes that they have seen.
        """,
      examples: ["aquifer restore /var/backups/aquifer --data ./data"], action: .restoreBackup),
    Command(
      "assets copy", [],
      [
        .required("from", "PLACE", "the folder or bucket that has the contents, as services know it by --assets"),
        .required("to", "PLACE", "the folder or bucket that gets them"),
        .optional(
          "assets-credentials", "FILE", "the bucket's access key (default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"),
      ], summary: "Copy the contents of all assets to another place",
      discussion:
        """
        Needs no server. Services may use the first place meanwhile: run the command as often as you like, and once more
        after you have stopped workers and gateways. Each run copies what the second place lacks. It compares contents
        with their names, and leaves damaged ones out; `aquifer scrub --assets` checks encrypted ones. It removes
        nothing.
        """,
      examples: [
        "aquifer assets copy --from ./data/assets --to 's3://bucket/one?endpoint=http://127.0.0.1:9000' "
          + "--assets-credentials ./key"
      ], action: .copyAssets),
    Command(
      "migrate", [],
      [
        .required("from", "PLACE", "the data folder of the workers, or an address of PostgreSQL (their --records)"),
        .required("to", "PLACE", "the other of the two"),
        .optional("encryption-key", "FILE", "the workers' file of keys, if they have one"),
        .optional("shard", "N", "move this shard alone"),
        .flag("allow-asynchronous", "accept a database whose commits wait for no synchronous standby"),
        .flag("dry-run", "only look at both places, and tell what would move or why nothing can"),
      ], summary: "Move all shards, or one, from files to PostgreSQL, or back",
      discussion:
        """
        Needs no server; stop the workers before. Each shard is copied, read back, compared row by row, and then marked
        in its first place, where no worker opens it again. A run that was cut off changes no owner by half: give the
        command again to go on. Contents of assets stay in their place. A password belongs into a file that the address
        names with passfile, because lists of processes show command lines.
        """,
      examples: [
        "aquifer migrate --from ./data --to 'postgresql://aquifer@db1,db2/aquifer' "
          + "--encryption-key ./data/encryption-key",
        "aquifer migrate --from 'postgresql://aquifer@db1/aquifer' --to ./data --dry-run",
      ], action: .migrate),
    Command(
      "renew", [],
      [
        .required("records", "ADDRESS", "the database or clusters, as workers know them by --records"),
        .flag("allow-asynchronous", "accept a database whose commits wait for no synchronous standby"),
      ], summary: "Prepare databases that their own tools have restored",
      discussion:
        """
        Needs no server; no worker may use the database meanwhile. Give it after `pg_basebackup`, pgBackRest or \
        another tool has brought the database back to an earlier state, and before a worker starts. Devices have seen \
        changes that the database lacks: from then on it refuses their tokens, so that they start again and miss \
        nothing. Several clusters are NAME=postgresql://... between spaces, as for workers. Name only those that were \
        brought back: the devices of the others would start again, too. \
        `aquifer restore` does the same by itself.
        """,
      examples: ["aquifer renew --records 'postgresql://aquifer@db1,db2/aquifer'"], action: .renew),
    Command(
      "scrub", [],
      [
        .flag("assets", "also read the contents of all files"),
        .flag("mend-links", "delete link records that lead nowhere, on every device"),
      ],
      summary: "Check all stored data while the server runs",
      discussion:
        """
        Checks the pages, indexes, checksums and counters of each shard. Prints the problems, and exits with 1 if \
        there are any. Counts link records that lead nowhere: an object of theirs is missing, nothing that is held \
        back will make it, and they are a day old. They only cost every new device their import. --mend-links deletes \
        them, and every device imports the deletions.
        """,
      examples: ["aquifer scrub", "aquifer scrub --assets", "aquifer scrub --mend-links"], action: .runJob(.scrub)),
  ]
}
