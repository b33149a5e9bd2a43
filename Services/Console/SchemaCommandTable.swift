// The commands that push models and see and change schemas and rules.

extension Command {
  static let path = Argument(
    name: "PATH", explanation: "an .xcdatamodeld (its current version), an .xcdatamodel, or a contents file")

  static let models: [Command] = [
    Command(
      "model validate", [path], [.optional("configuration", "C", "only the entities of this configuration")],
      summary: "Check a Core Data model against every rule of mirroring, without a server",
      discussion: "Prints all problems at once. The exit code is 1 if there are any, for CI.",
      examples: ["aquifer model validate Photos.xcdatamodeld"],
      action: .validateModel),
    Command(
      "model push", [path],
      [
        container, environment, .optional("configuration", "C", "only the entities of this configuration"), changeTypes,
        .flag("yes", "push to production, which takes the model at once and removes nothing later"),
      ] + trial, summary: "Make a container's schema fit a Core Data model",
      discussion: """
        Prints the additions and their effect on stored values. A field that changes its type is refused without
        --change-types, because objects with old values do not fit and become hidden. A field that the model no longer
        has keeps its values, and an attribute with its name as renamingIdentifier reads them. For production, try the
        model in development first and use `aquifer schema promote`.
        """,
      examples: [
        "aquifer model push Photos.xcdatamodeld --container iCloud.org.example.photos --environment development"
      ], action: .pushModel),
  ]

  static let schemas: [Command] = [
    Command(
      "schema export", [], [container, development], summary: "Print a schema as text",
      examples: ["aquifer schema export --container iCloud.org.example.photos"],
      action: .call(.exportSchema)),
    Command(
      "schema import", [Argument(name: "FILE", explanation: "a schema text")],
      [container, development, changeTypes] + trial, summary: "Replace the development schema",
      discussion: """
        Prints the changes: + added, - removed, ~ another type with the number of records that have it, * a new index or
        grant. With --dry-run it changes nothing. Production takes only additions. Values of removed fields stay in the
        records.
        """,
      examples: ["aquifer schema import photos.ckdb --container iCloud.org.example.photos"],
      action: .call(.importSchema)),
    Command(
      "schema promote", [], [container] + trial,
      summary: "Add development's new types, fields, indexes and grants to production",
      examples: ["aquifer schema promote --container iCloud.org.example.photos"], action: .call(.promoteSchema)),
    Command(
      "schema reset", [], [container, .flag("yes", "drop them; without it the command only counts the records")],
      summary: "Drop the development schema and its records",
      discussion:
        """
        Drops development's schema, models, rules, records, devices' stores and subscriptions; devices start again. \
        Production does not change.
        """,
      examples: [
        "aquifer schema reset --container iCloud.org.example.photos",
        "aquifer schema reset --container iCloud.org.example.photos --yes",
      ],
      action: .resetSchema),
    Command(
      "schema diff", [], [container], summary: "Show the differences between development and production",
      examples: ["aquifer schema diff --container iCloud.org.example.photos"], action: .call(.diffSchema)),
  ]

  static let rules: [Command] = [
    Command(
      "rules export", [], [container, development],
      summary: "Print an environment's uniqueness rules, as `rules import` reads them",
      examples: ["aquifer rules export --container iCloud.org.example.photos"], action: .call(.exportRules)),
    Command(
      "rules import", [Argument(name: "FILE", explanation: "the rules as JSON")],
      [container, development, .flag("dry-run", "check the rules and change nothing")],
      summary: "Replace an environment's uniqueness rules",
      discussion: """
        A rule says which attributes are unique and how the server treats duplicates. FILE has all rules of the
        environment, for all of its models:
        {"unique":[{"entity":"Tag","attributes":["name"],"policy":"merge-lowest-uuid"}]}. A rule applies if a model has
        its entity and attributes. merge-lowest-uuid  merges duplicates in a zone, old and new ones, into the record
        with the lowest name reject             refuses a save that would make a duplicate with UNIQUE_FIELD_ERROR
        report             lists duplicates in `aquifer duplicates list`
        """, examples: ["aquifer rules import rules.json --container iCloud.org.example.photos"],
      action: .call(.importRules)),
    Command(
      "duplicates list", [], [onlyContainer], summary: "List objects that are duplicates by a rule",
      discussion:
        """
        Shows the number of duplicates in each group, and some of their names. `merging` are duplicates that the \
        server is about to remove.
        """,
      examples: ["aquifer duplicates list"], action: .call(.listDuplicates)),
  ]
}
