// The commands for whole zones.

extension Command {
  static let zones: [Command] = [
    Command(
      "zone export", [Argument(name: "DIR", explanation: "an empty folder, or a new one")],
      place + [.optional("sequence", "N", "the zone at that sequence, while it is kept (default: now)")],
      summary: "Write a zone's records and assets into a folder",
      discussion: """
        DIR/zone.jsonl has one line for each record, with exact values, and a last line with a checksum of the others.
        DIR/assets has the assets, named by their SHA-256. The export is the zone at one sequence; later writes do not
        change it. It has encrypted values in clear text: protect the folder.
        """,
      examples: [
        """
        aquifer zone export ./photos --container iCloud.org.example.photos --owner _3f… --zone \
        com.apple.coredata.cloudkit.zone
        """
      ],
      action: .exportZone),
    Command(
      "zone import", [Argument(name: "DIR", explanation: "an export")],
      place + [.flag("merge", "import into a zone with records, and replace records of the same name")],
      summary: "Read an export into a zone",
      discussion: """
        Record names, authors and dates stay, and so do relationships. The command checks the folder before it sends
        anything. The server stores a record once even if it comes twice: begin an interrupted import again with
        --merge. Production's schema must have all types and fields.
        """,
      examples: [
        """
        aquifer zone import ./photos --container iCloud.org.example.copy --owner _3f… --zone \
        com.apple.coredata.cloudkit.zone
        """
      ],
      action: .importZone),
    Command(
      "zone restore", [],
      place + [
        .optional("to", "SEQUENCE", "a sequence from an export, an audit or an earlier restore"),
        .optional("date", "DATE", "such as 2026-11-20T07:33:24.123Z"),
      ], summary: "Restore a zone to an earlier state",
      discussion: """
        Works as far back as the workers keep earlier states of records (--record-retention). Devices import the result
        like any other change. Changes that they save meanwhile stay.
        """,
      examples: [
        """
        aquifer zone restore --container iCloud.org.example.photos --owner public --zone _defaultZone --date \
        2026-11-20T07:00:00Z
        """
      ],
      action: .restoreZone),
    Command(
      "zone purge", [], place + [.flag("yes", "delete it; every device loses its records")],
      summary: "Delete a zone on the server and on devices",
      discussion: """
        Devices learn that the user deleted the zone. They delete its objects, unless their app chose otherwise. Changes
        that they have not sent yet do not bring the zone back.
        """,
      examples: [
        """
        aquifer zone purge --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone \
        --yes
        """
      ],
      action: .call(.purgeZone)),
    Command(
      "zone reset-encrypted", [], place + [.flag("yes", "reset it; the records go, and devices send theirs again")],
      summary: "Empty a zone with encrypted values that can no longer be read",
      discussion: """
        Use it after the loss of a key. Devices learn about the loss, keep their objects and send them again. Objects
        that no device has are lost.
        """,
      examples: [
        """
        aquifer zone reset-encrypted --container iCloud.org.example.photos --owner _3f… --zone \
        com.apple.coredata.cloudkit.zone --yes
        """
      ],
      action: .call(.resetEncryptedZone)),
    Command(
      "audit", [],
      place + [
        .required("record", "NAME", "the record's name: an object's ID"),
        .optional("field", "F", "only this field, such as CD_title"),
        .optional("after", "SEQUENCE", "only later changes: `last` of the previous answer"),
      ], summary: "List the changes of a record, with authors and dates",
      discussion: """
        Lists changes in order, with author, device, and the values before and after, as far back as the workers keep
        earlier states of records (--record-retention). `earliest` is the record's first known state; its author is
        unknown.
        """,
      examples: [
        """
        aquifer audit --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone \
        --record A1E0… --field CD_title
        """
      ],
      action: .call(.audit)),
    Command(
      "conflicts list", [],
      place + [
        .optional("state", "S", "only conflicts in this state: open, lost, restored or resolved"),
        .optional("object", "ID", "only conflicts of this object"),
        .optional("after", "N", "only later conflicts: lastConflict of the previous answer"),
      ], summary: "List the losses of conflicts",
      discussion:
        """
        Lists edits that lost to other edits, deletions of objects that somebody edited meanwhile, and conflicts that \
        wait for a decision.
        """,
      examples: [
        """
        aquifer conflicts list --container iCloud.org.example.photos --owner _3f… --zone \
        com.apple.coredata.cloudkit.zone --state open
        """
      ],
      action: .call(.listConflicts)),
    Command(
      "conflicts restore", [Argument(name: "N", explanation: "the conflict's number")], place,
      summary: "Restore a conflict's loss",
      discussion:
        """
        Restores it under the same name as a change by the server, which every device imports. A second call changes \
        nothing.
        """,
      examples: [
        """
        aquifer conflicts restore 17 --container iCloud.org.example.photos --owner _3f… --zone \
        com.apple.coredata.cloudkit.zone
        """
      ],
      action: .call(.restoreConflict)),
    Command(
      "conflicts resolve", [Argument(name: "N", explanation: "the conflict's number")],
      place + [
        .optional("pick", "WHOSE", "client, server or ancestor"),
        .optional("value", "JSON", "another value, as JSON or as plain text"),
      ], summary: "Decide between two values of a property with the policy `manual`",
      examples: [
        """
        aquifer conflicts resolve 17 --pick client --container iCloud.org.example.photos --owner _3f… --zone \
        com.apple.coredata.cloudkit.zone
        """
      ],
      action: .call(.resolveConflict)),
  ]

  private static let place: [Option] = [
    .required("container", "ID", "the container, such as iCloud.org.example.photos"),
    .optional("environment", "E", "development (the default) or production"),
    .required("owner", "USER", "the owner's record name, or public"), .required("zone", "ZONE", "the zone's name"),
  ]
}
