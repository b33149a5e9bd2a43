// The commands for shares.

extension Command {
  static let sharing: [Command] = [
    Command(
      "share list", [],
      [
        .optional("container", "ID", "only of this container"), .optional("environment", "E", "only of this environment"),
        .optional("owner", "NAME", "only of this user, by name or record name"), .optional("zone", "ZONE", "only of zones of this name"),
      ], summary: "List what users share with one another",
      discussion: "Of each share how many take part, have access, and have asked for it. Who they are `aquifer share show` says.",
      examples: ["aquifer share list", "aquifer share list --container iCloud.org.example.photos --owner alice"], action: .call(.listShares)),
    Command(
      "share show", [],
      [
        .required("container", "ID", "the container, such as iCloud.org.example.photos"), .required("environment", "E", "development or production"),
        .required("owner", "NAME", "whose zone it is, by name or record name"), .required("zone", "ZONE", "the zone's name"),
      ], summary: "List who takes part in a zone's shares, and as what",
      examples: ["aquifer share show --container iCloud.org.example.photos --environment production --owner alice --zone Trips"], action: .call(.showShare)),
    Command(
      "share stop", [],
      [
        .required("container", "ID", "the container, such as iCloud.org.example.photos"), .required("environment", "E", "development or production"),
        .required("owner", "NAME", "whose zone it is, by name or record name"), .required("zone", "ZONE", "the zone's name"),
        .optional("share", "NAME", "the share's record, of one that is not of the whole zone"), .flag("yes", "really: everybody but the owner loses access"),
      ], summary: "Stop sharing a zone, or a hierarchy in it",
      discussion: "As if its owner did it: the records stay his, and participants' devices forget them.",
      examples: ["aquifer share stop --container iCloud.org.example.photos --environment production --owner alice --zone Trips --yes"], action: .call(.stopShare)),
  ]
}
