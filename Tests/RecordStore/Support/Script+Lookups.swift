import RecordStore

extension Script {
  /// The look-ups of the steps as far as they can be told before, with some that no step makes.
  var lookups: [ExpectedLookup] { steps.flatMap(Self.lookups) }

  private static func lookups(of step: ScriptStep) -> [ExpectedLookup] {
    func record(_ owner: Int, _ zone: Int, _ name: Int) -> ExpectedLookup {
      .record(names[name], zone: "zone \(zone)", database: Sample.database("\(owner)"))
    }
    return switch step {
    case .save(let owner, let zone, let name, _, let targets, _, _):
      [record(owner, zone, name)] + targets.map { record(owner, zone, $0) }
    case .delete(let owner, let zone, let name), .saveAsNew(let owner, let zone, let name):
      [record(owner, zone, name)]
    case .append(_, _, let id): (1...20).map { .transaction(transactionID(id), mirror: $0) }
    case .outcome(let key, _): [.outcome(idempotencyKey(key))]
    default: []
    }
  }

  static func transactionID(_ id: Int) -> String { id % 2 == 0 ? Sample.uuid(id) : "id \(id)" }
  static func idempotencyKey(_ key: Int) -> String { names[key % names.count] + "\(key)" }
}
