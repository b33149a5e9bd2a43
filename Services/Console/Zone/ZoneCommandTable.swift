// The commands for whole zones.

extension Command {
  static let zones: [Command] = [
    Command(
      "zone export", [Argument(name: "DIR", explanation: "an empty folder, or one to make")],
      place + [.optional("sequence", "N", "as it was at that sequence, while it is kept; without it: as it is now")],
      summary: "Write a zone's records and assets into a folder",
      discussion: """
        DIR/zone.jsonl has a line a record, exact, and a last line that vouches for the others; DIR/assets has contents by their SHA-256. It is
        the zone at one sequence, whatever is written meanwhile. Encrypted values leave the server in clear: mind where the folder is.
        """,
      examples: ["aquifer zone export ./photos --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone"],
      action: .exportZone),
    Command(
      "zone import", [Argument(name: "DIR", explanation: "an export")],
      place + [.flag("merge", "into a zone with records: those of the same name are replaced")], summary: "Read an export into a zone",
      discussion: """
        Names and stamps are kept, so that graphs and links are the same. The folder is checked before anything is sent; what is sent twice
        is stored once, so that an import that was interrupted is begun again with --merge. Production's schema must know everything.
        """,
      examples: ["aquifer zone import ./photos --container iCloud.org.example.copy --owner _3f… --zone com.apple.coredata.cloudkit.zone"],
      action: .importZone),
    Command(
      "zone restore", [],
      place + [
        .optional("to", "SEQUENCE", "of an export, an audit or an earlier restore"), .optional("date", "DATE", "such as 2026-11-20T07:33:24.123Z"),
      ], summary: "Bring a zone back to what it was",
      discussion: """
        As far back as the workers keep what records were (--record-retention). Devices get there by importing, as after any change; what they
        save meanwhile stays.
        """,
      examples: ["aquifer zone restore --container iCloud.org.example.photos --owner public --zone _defaultZone --date 2026-11-20T07:00:00Z"],
      action: .restoreZone),
    Command(
      "zone purge", [], place + [.flag("yes", "really: its records go, on every device")], summary: "Delete a zone and what devices have of it",
      discussion: """
        Devices are told that their user wants it gone: they delete its objects unless their app chose otherwise, and what they had not sent by
        then does not bring it back.
        """,
      examples: ["aquifer zone purge --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone --yes"],
      action: .call(.purgeZone)),
    Command(
      "zone reset-encrypted", [], place + [.flag("yes", "really: its records go, and devices send again what they have")],
      summary: "Begin a zone anew whose encrypted values can't be read any more",
      discussion: """
        For a key that was lost. Devices are told so, keep their objects and send them again. What no device has is gone.
        """,
      examples: ["aquifer zone reset-encrypted --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone --yes"],
      action: .call(.resetEncryptedZone)),
    Command(
      "audit", [],
      place + [
        .required("record", "NAME", "the record's name: an object's ID"), .optional("field", "F", "only this one, such as CD_title"),
        .optional("after", "SEQUENCE", "only later changes: the answer's last"),
      ], summary: "Tell who set what of a record, and when",
      discussion: """
        In order, with author, device, and the values before and after; as far back as the workers keep what records were (--record-retention).
        `earliest` is what a record had when that begins: who set it is not known.
        """,
      examples: ["aquifer audit --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone --record A1E0… --field CD_title"],
      action: .call(.audit)),
    Command(
      "conflicts list", [],
      place + [
        .optional("state", "S", "only these: open, lost, restored or resolved"), .optional("object", "ID", "only of this object"),
        .optional("after", "N", "only later ones: the answer's lastConflict"),
      ], summary: "List what was lost in conflicts",
      discussion: "Edits that gave way to others, objects that were deleted while somebody edited them, and what waits for a decision.",
      examples: ["aquifer conflicts list --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone --state open"],
      action: .call(.listConflicts)),
    Command(
      "conflicts restore", [Argument(name: "N", explanation: "the conflict's number")], place, summary: "Bring back what was lost",
      discussion: "Under the same name, as a change of the server's own: every device imports it. Done twice is done once.",
      examples: ["aquifer conflicts restore 17 --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone"],
      action: .call(.restoreConflict)),
    Command(
      "conflicts resolve", [Argument(name: "N", explanation: "the conflict's number")],
      place + [
        .optional("pick", "WHOSE", "client, server or ancestor"), .optional("value", "JSON", "another value, as JSON or as the text itself"),
      ], summary: "Decide between two values of a property whose policy is manual",
      examples: ["aquifer conflicts resolve 17 --pick client --container iCloud.org.example.photos --owner _3f… --zone com.apple.coredata.cloudkit.zone"],
      action: .call(.resolveConflict)),
  ]

  private static let place: [Option] = [
    .required("container", "ID", "the container, such as iCloud.org.example.photos"),
    .optional("environment", "E", "development (as without it) or production"),
    .required("owner", "USER", "the owner's record name, or public"), .required("zone", "ZONE", "the zone's name"),
  ]
}
