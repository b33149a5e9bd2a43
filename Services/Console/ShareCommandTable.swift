// The commands for shares.

extension Command {
  static let sharing: [Command] = [
    Command(
      "share list", [],
      [
        .optional("container", "ID", "only in this container"),
        .optional("environment", "E", "only in this environment"),
        .optional("owner", "NAME", "only of this owner, by name or record name"),
        .optional("zone", "ZONE", "only in zones of this name"),
      ], summary: "List what users share with one another",
      discussion:
        """
        Counts the participants of each share, those with access, and the requests for access. `aquifer share show` \
        names them.
        """,
      examples: ["aquifer share list", "aquifer share list --container iCloud.org.example.photos --owner alice"],
      action: .call(.listShares)),
    Command(
      "share show", [],
      [
        .required("container", "ID", "the container, such as iCloud.org.example.photos"),
        .required("environment", "E", "development or production"),
        .required("owner", "NAME", "the zone's owner, by name or record name"),
        .required("zone", "ZONE", "the zone's name"),
      ], summary: "List the participants of a zone's shares and their roles",
      examples: [
        "aquifer share show --container iCloud.org.example.photos --environment production --owner alice --zone Trips"
      ], action: .call(.showShare)),
    Command(
      "share stop", [],
      [
        .required("container", "ID", "the container, such as iCloud.org.example.photos"),
        .required("environment", "E", "development or production"),
        .required("owner", "NAME", "the zone's owner, by name or record name"),
        .required("zone", "ZONE", "the zone's name"),
        .optional("share", "NAME", "the record name of the share, if it shares only a part of the zone"),
        .flag("yes", "stop it; everybody but the owner loses access"),
      ], summary: "Stop sharing a zone, or a hierarchy in it",
      discussion:
        """
        Has the same effect as if the owner stops it: the owner keeps the records, and participants' devices forget \
        them.
        """,
      examples: [
        """
        aquifer share stop --container iCloud.org.example.photos --environment production --owner alice --zone Trips \
        --yes
        """
      ], action: .call(.stopShare)),
  ]
}
