// Random batches with references beside a dictionary that follows the rules by looking at everything again and again.

import JSON
import RecordStore
import Records
import Sanitizers
import Testing

/// A reference model of a zone, without indexes.
private struct NaiveGraph {
  struct Link: Hashable {
    let target: String
    let action: String
  }

  var records: [String: Set<Link>] = [:]

  enum Operation {
    case save(String, Set<Link>)
    case delete(String)

    var name: String {
      switch self {
      case .save(let name, _), .delete(let name): name
      }
    }
  }

  struct Outcome {
    /// By name: saves with a missing target, and all deletions if one would remove a validated target.
    var unfoundedSaves: Set<String> = []
    var isDeletionRefused = false
    /// Everything that is gone.
    var gone: Set<String> = []
    var isRefused: Bool { !unfoundedSaves.isEmpty || isDeletionRefused }
  }

  /// Executes operations together, or none of them.
  mutating func apply(_ batch: [Operation]) -> Outcome {
    var after = records
    var outcome = Outcome()
    for operation in batch {
      switch operation {
      case .save(let name, let links): after[name] = links
      case .delete(let name): if after.removeValue(forKey: name) != nil { outcome.gone.insert(name) }
      }
    }
    while let next = after.first(where: {
      $0.value.contains { $0.action == "DELETE_SELF" && outcome.gone.contains($0.target) }
    }) {
      after[next.key] = nil
      outcome.gone.insert(next.key)
    }
    for (_, links) in after where links.contains(where: { $0.action == "VALIDATE" && outcome.gone.contains($0.target) })
    { outcome.isDeletionRefused = true }
    for case .save(let name, _) in batch {
      if after[name]?.contains(where: { $0.action == "VALIDATE" && after[$0.target] == nil }) == true {
        outcome.unfoundedSaves.insert(name)
      }
    }
    if !outcome.isRefused { records = after }
    return outcome
  }
}

@Suite struct `References beside a naive graph` {
  static let names = (0..<9).map { "r\($0)" }

  @Test(arguments: Sanitizer.few(1, of: 1...6 as ClosedRange<UInt64>))
  func `random batches in memory`(seed: UInt64) async throws {
    let world = try await RecordPlaneWorld.inMemory(seed: seed)
    try await Self.play(world, seed: seed, rounds: 80)
  }

  @Test(arguments: Sanitizer.few(1, of: 51...52 as ClosedRange<UInt64>))
  func `random batches over SQLite`(seed: UInt64) async throws {
    try await withTemporaryFolder { folder in
      let shard = try await SQLiteRecordStore(SQLiteConfiguration(directory: folder), shardCount: 1).open(shard: 0)
      try await Self.play(RecordPlaneWorld(shard, seed: seed), seed: seed, rounds: 80)
      let report = try await (shard as? SQLiteShardStore)?.verify()
      #expect(report?.problems == [])
      await shard.close()
    }
  }

  static func play(_ world: RecordPlaneWorld, seed: UInt64, rounds: Int) async throws {
    var random = SeededRandom(seed: seed)
    try await world.makeZone()
    var model = NaiveGraph()
    var token: String?
    var seen: Set<String> = []
    var refusals = 0
    for _ in 0..<rounds {
      let operations = batch(using: &random)
      let isAtomic = Bool.random(using: &random)
      let reply = try await world.post("records/modify", body(operations, isAtomic: isAtomic))
      _ = isAtomic ? expectTogether(reply, operations, &model) : expectOneByOne(reply, operations, &model)
      if reply.status == 400 { refusals += 1 }
      #expect(world.changes.take().count <= 1)
      let found = try await world.lookUp(names)
      let live = Set(found.records.filter { $0.code == nil }.compactMap(\.name))
      #expect(live == Set(model.records.keys))
      // Every deletion is in the feed, of any origin.
      let page = try await world.changes(since: token)
      token = page["syncToken"]?.string
      for record in page["records"]?.elements ?? [] {
        guard let name = record.name else { continue }
        if record["deleted"]?.bool == true { seen.remove(name) } else { seen.insert(name) }
      }
      #expect(seen == live)
    }
    #expect(refusals > 0)
  }

  private static func batch(using random: inout SeededRandom) -> [NaiveGraph.Operation] {
    names.shuffled(using: &random).prefix(Int.random(in: 1...4, using: &random)).map { name in
      if Int.random(in: 0..<5, using: &random) == 0 { return .delete(name) }
      let links = (0..<Int.random(in: 0...2, using: &random)).map { _ in
        NaiveGraph.Link(
          target: names.randomElement(using: &random) ?? "r0",
          action: ["NONE", "DELETE_SELF", "VALIDATE"].randomElement(using: &random) ?? "NONE")
      }
      return .save(name, Set(links))
    }
  }

  private static func body(_ operations: [NaiveGraph.Operation], isAtomic: Bool) -> String {
    let items = operations.map { operation in
      switch operation {
      case .delete(let name): return #"{"operationType":"forceDelete","record":{"recordName":"\#(name)"}}"#
      case .save(let name, let links):
        // One of them alone, the others in a list: both forms are written in one record.
        let values = links.map { #"{"recordName":"\#($0.target)","action":"\#($0.action)"}"# }
        let one = values.first.map { #""one":{"value":\#($0)},"# } ?? ""
        let many = #""many":{"value":[\#(values.dropFirst().joined(separator: ","))],"type":"REFERENCE_LIST"}"#
        return
          #"""
          {"operationType":"forceReplace","record":{"recordName":"\#(name)","recordType":"Node",\#
          "fields":{\#(one)\#(many)}}}
          """#
      }
    }
    return #"{"operations":[\#(items.joined(separator: ","))],"zoneID":{"zoneName":"Trips"},"atomic":\#(isAtomic)}"#
  }

  private static func expectTogether(
    _ reply: PlaneReply, _ operations: [NaiveGraph.Operation], _ model: inout NaiveGraph
  ) {
    let outcome = model.apply(operations)
    if outcome.isRefused {
      #expect(reply.status == (operations.count > 1 ? 400 : 200), "\(reply.text)")
      for (operation, item) in zip(operations, reply.records) {
        let isCulprit = item.code == "VALIDATING_REFERENCE_ERROR"
        if case .save(let name, _) = operation { #expect(isCulprit == outcome.unfoundedSaves.contains(name)) }
        if !isCulprit { #expect(item.code == "ATOMIC_ERROR") }
      }
      #expect(reply.records.contains { $0.code == "VALIDATING_REFERENCE_ERROR" })
      return
    }
    #expect(reply.status == 200, "\(reply.text)")
    for (operation, item) in zip(operations, reply.records) {
      #expect(item.code == nil)
      let isDeletion = if case .delete = operation { true } else { false }
      #expect(item["deleted"]?.bool == (isDeletion || outcome.gone.contains(operation.name)))
    }
  }

  private static func expectOneByOne(
    _ reply: PlaneReply, _ operations: [NaiveGraph.Operation], _ model: inout NaiveGraph
  ) {
    #expect(reply.status == 200)
    for (operation, item) in zip(operations, reply.records) {
      let outcome = model.apply([operation])
      #expect(item.code == (outcome.isRefused ? "VALIDATING_REFERENCE_ERROR" : nil), "\(operation) \(item.text)")
    }
  }
}
