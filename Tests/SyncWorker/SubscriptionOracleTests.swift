// Random saves, deletions, zones and subscriptions: each notification must follow from the states before and after.

import JSON
import RecordStore
import Records
import Testing

/// The expected notes, subscriptions and notifications, without indexes, editions and transactions.
private struct NaiveSubscriptions {
  struct Note {
    var type: String
    var number: Int?
  }

  enum Subject {
    case database
    case zone(String)
    /// Records of a type whose number passes; `zone` nil: everywhere.
    case query(type: String, test: Test?, zone: String?, events: Set<String>)
  }

  enum Test: CaseIterable {
    case equalsOne, aboveOne, notOne, oneOrThree

    var filter: String {
      let (comparator, value) =
        switch self {
        case .equalsOne: ("EQUALS", "1")
        case .aboveOne: ("GREATER_THAN", "1")
        case .notOne: ("NOT_EQUALS", "1")
        case .oneOrThree: ("IN", "[1,3]")
        }
      return #"{"fieldName":"number","comparator":"\#(comparator)","fieldValue":{"value":\#(value)}}"#
    }

    func passes(_ number: Int?) -> Bool {
      switch self {
      case .equalsOne: number == 1
      case .aboveOne: number.map { $0 > 1 } ?? false
      case .notOne: number != 1
      case .oneOrThree: number == 1 || number == 3
      }
    }
  }

  struct Entry {
    let subject: Subject
    let isOnce: Bool
  }

  /// By zone, then by name.
  var zones: [String: [String: Note]] = ["_defaultZone": [:], "A": [:], "B": [:]]
  var subscriptions: [String: Entry] = [:]

  /// The expected notifications of a request that changed a zone's notes; each name in `touched` once.
  mutating func lines(_ zone: String, before: [String: Note], touched: [String]) -> [String] {
    var lines: [String] = []
    var spent: Set<String> = []
    for (identifier, entry) in subscriptions {
      var own: [String] = []
      switch entry.subject {
      case .database: own = touched.isEmpty ? [] : ["_alice \(identifier): met \(zone)"]
      case .zone(let watched): own = touched.isEmpty || watched != zone ? [] : ["_alice \(identifier): fet \(zone)"]
      case .query(let type, let test, let watched, let events):
        guard watched == nil || watched == zone else { continue }
        for name in touched {
          let (old, new) = (before[name], zones[zone]?[name])
          let event = new == nil ? "delete" : old == nil ? "create" : "update"
          guard let note = new ?? old, note.type == type, test?.passes(note.number) ?? true, events.contains(event)
          else { continue }
          own.append("_alice \(identifier): qry \(name) \(event)")
        }
      }
      if entry.isOnce, !own.isEmpty {
        spent.insert(identifier)
        own = [own[0]]
      }
      lines += own
    }
    for identifier in spent { subscriptions[identifier] = nil }
    return lines.sorted()
  }

  mutating func zoneChanged(_ zone: String, isDeleted: Bool) -> [String] {
    var lines: [String] = []
    for (identifier, entry) in subscriptions {
      var (isTold, isBound) = (false, false)
      switch entry.subject {
      case .database:
        isTold = true
        lines.append("_alice \(identifier): met \(zone)")
      case .zone(let watched) where watched == zone:
        (isTold, isBound) = (true, true)
        lines.append("_alice \(identifier): fet \(zone)")
      case .query(_, _, let watched, _): isBound = watched == zone
      default: break
      }
      if (isDeleted && isBound) || (isTold && entry.isOnce) { subscriptions[identifier] = nil }
    }
    return lines.sorted()
  }
}

struct SubscriptionOracleTests {
  @Test(arguments: [StoreKind.memory, .sqlite], [1, 2, 3] as [UInt64])
  func `random changes say what a naive look at before and after says`(_ kind: StoreKind, _ seed: UInt64) async throws {
    try await ObjectPlaneWorld.with(kind) { stores in
      let world = RecordPlaneWorld(stores.store, seed: seed)
      let random = SeededRandom(seed: seed &* 7919)
      func number(_ limit: Int) -> Int { Int(random.next() % UInt64(limit)) }
      for zone in ["A", "B"] { try await world.makeZone(zone) }
      var naive = NaiveSubscriptions()
      var toldCount = 0
      for step in 0..<400 {
        var expected: [String] = []
        switch number(20) {
        case 0..<3: try await Self.changeSubscription(world, &naive, number)
        case 3: expected = try await Self.changeZone(world, &naive, number)
        default: expected = try await Self.saveNotes(world, &naive, number)
        }
        let told = try world.told().sorted()
        try #require(told == expected, "seed \(seed), step \(step)")
        toldCount += told.count
        if step % 40 == 39 {
          let listed = try await world.post("subscriptions/list", "").json["subscriptions"]?.elements.compactMap {
            $0["subscriptionID"]?.string
          }
          try #require(listed == naive.subscriptions.keys.sorted(), "seed \(seed), step \(step)")
        }
      }
      #expect(toldCount > 300, "the script says too little to be a test")
    }
  }

  private static let zoneNames = ["_defaultZone", "A", "B"]

  private static func changeSubscription(
    _ world: RecordPlaneWorld, _ naive: inout NaiveSubscriptions, _ number: (Int) -> Int
  ) async throws {
    let identifier = "s\(number(8))"
    if number(4) == 0 {
      let reply = try await world.post(
        "subscriptions/modify",
        #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"\#(identifier)"}}]}"#)
      #expect((reply.json["subscriptions"]?.elements.first?.code == nil) == (naive.subscriptions[identifier] != nil))
      naive.subscriptions[identifier] = nil
      return
    }
    let zone = zoneNames[number(3)]
    let exists = naive.zones[zone] != nil
    let isOnce = number(4) == 0
    var subject = NaiveSubscriptions.Subject.database
    var text = #""subscriptionType":"database""#
    switch number(5) {
    case 0: break
    case 1:
      subject = .zone(zone)
      text = #""subscriptionType":"zone","zoneID":"\#(zone)""#
    default:
      let type = ["Note", "Task"][number(2)]
      let test = number(3) == 0 ? nil : NaiveSubscriptions.Test.allCases[number(4)]
      let events = Set(["create", "update", "delete"].filter { _ in number(3) > 0 }).union(["update"])
      let watched = number(2) == 0 ? nil : zone
      subject = .query(type: type, test: test, zone: watched, events: events)
      text =
        #"""
        "subscriptionType":"query","query":{"recordType":"\#(type)","filterBy":[\#(test?.filter ?? "")]},\#
        "firesOn":[\#(events.sorted().map { #""\#($0)""# }.joined(separator: ","))],
        """#
      text += watched.map { #""zoneID":"\#($0)""# } ?? #""zoneWide":true"#
    }
    let reply = try await world.subscribe(identifier, #"\#(text),"firesOnce":\#(isOnce)"#)
    var needsZone = false
    switch subject {
    case .database, .query(_, _, nil, _): break
    case .zone, .query: needsZone = true
    }
    let isMade = exists || !needsZone
    try #require((reply.json["subscriptions"]?.elements.first?.code == nil) == isMade, "\(reply.text)")
    if isMade { naive.subscriptions[identifier] = NaiveSubscriptions.Entry(subject: subject, isOnce: isOnce) }
  }

  private static func changeZone(_ world: RecordPlaneWorld, _ naive: inout NaiveSubscriptions, _ number: (Int) -> Int)
    async throws -> [String]
  {
    let zone = ["A", "B"][number(2)]
    let isDeletion = naive.zones[zone] != nil
    _ = try await world.post(
      "zones/modify",
      #"""
      {"operations":[{"operationType":"\#(isDeletion ? "delete" : "create")",\#
      "zone":{"zoneID":{"zoneName":"\#(zone)"}}}]}
      """#
    )
    naive.zones[zone] = isDeletion ? nil : [:]
    return naive.zoneChanged(zone, isDeleted: isDeletion)
  }

  private static func saveNotes(_ world: RecordPlaneWorld, _ naive: inout NaiveSubscriptions, _ number: (Int) -> Int)
    async throws -> [String]
  {
    let zone = zoneNames[number(3)]
    guard let before = naive.zones[zone] else { return [] }
    var notes = before
    var touched: [String] = []
    var operations: [String] = []
    let first = number(6)
    for offset in 0..<1 + number(3) {
      let name = "n\((first + offset) % 6)"
      let type = ["Note", "Task"][(first + offset) % 2]
      let value = number(5)
      let field = value == 4 ? "null" : #"{"value":\#(value),"type":"INT64"}"#
      let kind = ["forceUpdate", "forceReplace", "create", "forceDelete"][number(4)]
      operations.append(
        #"""
        {"operationType":"\#(kind)","record":{"recordName":"\#(name)",\#
        "recordType":"\#(type)"\#(kind == "forceDelete" ? "" : #","fields":{"number":\#(field)}"#)}}
        """#
      )
      switch kind {
      case "create" where before[name] != nil: continue
      case "forceDelete":
        if before[name] == nil { continue }
        notes[name] = nil
      default: notes[name] = NaiveSubscriptions.Note(type: type, number: value == 4 ? nil : value)
      }
      touched.append(name)
    }
    let reply = try await world.post(
      "records/modify",
      #"{"operations":[\#(operations.joined(separator: ","))],"zoneID":{"zoneName":"\#(zone)"},"atomic":false}"#)
    try #require(reply.status == 200, "\(reply.text)")
    naive.zones[zone] = notes
    return naive.lines(zone, before: before, touched: touched)
  }
}
