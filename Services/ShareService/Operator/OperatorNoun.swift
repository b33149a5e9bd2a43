// The nouns of the operator API: the first part of each call's path behind /admin/1.

enum OperatorNoun: String, CaseIterable, Sendable {
  case containers, users, tokens, keys, roles, sessions, usage, audit
  case signIns = "sign-ins"
  case identities, invitations, mail
  case pushServices = "push-services"
  case registrations
  case models, schema, rules
  case status, workers, shards, stores, zones, subscriptions, events, quarantine, duplicates, shares, participants
  case explain, pings
  case sample, history, logs
  case backup, backups, verification, scrub

  /// True for lists whose rows all name their container: a developer names one of theirs.
  var isListOfContainer: Bool {
    switch self {
    case .tokens, .keys, .roles, .sessions, .users, .usage, .audit, .signIns, .stores, .zones, .subscriptions, .events,
      .quarantine, .duplicates, .shares, .participants, .explain, .pings, .registrations:
      true
    case .identities, .invitations, .mail, .pushServices, .containers, .models, .schema, .rules, .status, .workers,
      .shards, .sample, .history, .logs, .backup, .backups, .verification, .scrub:
      false
    }
  }
}
