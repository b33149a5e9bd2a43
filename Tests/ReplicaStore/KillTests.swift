// Processes that are killed while they save, import and migrate: what was acknowledged is there, and nothing is
// there in part.

import Foundation
import Testing

@testable import ReplicaStore

/// A store that one process after another writes to.
private struct Victim {
  let folder: Folder
  let kind: String
  private static let tool = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(
    path: "replica-tool"
  ).path

  var store: String { "\(folder.path)/store.sqlite" }
  var ledger: String { "\(folder.path)/ledger" }

  /// Numbers that were acknowledged.
  func acknowledged() -> [Int] {
    let text = (try? String(contentsOfFile: ledger, encoding: .utf8)) ?? ""
    return text.split(separator: "\n").compactMap { Int($0) }
  }

  /// Runs a process until it has acknowledged so many more numbers, and kills it after a moment more.
  func kill(after count: Int, spins: Int) throws {
    let target = acknowledged().count + count
    let process = Process()
    process.executableURL = URL(filePath: Self.tool)
    process.arguments = [kind, store, ledger]
    try process.run()
    while acknowledged().count < target, process.isRunning { usleep(200) }
    // A moment that ends anywhere within the next piece of work.
    for _ in 0..<spins { sched_yield() }
    #expect(process.isRunning, "the process ended by itself")
    Foundation.kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }

  /// Numbers in the store by how many of their two halves are there.
  func stored() async throws -> [Int: Int] {
    let versions = [1, 2].map { version in
      ManagedObjectModel(
        hash: "tool-\(version)",
        entities: [
          EntityDescription(
            "Note",
            attributes: [
              AttributeDescription(
                version == 1 ? "text" : "body", .string, renamingIdentifier: version == 1 ? "body" : "text"),
              AttributeDescription("number", .integer64),
            ])
        ])
    }
    var configuration = World.configuration(store)
    configuration.isReadOnly = true
    for model in versions {
      guard let replica = try? await Replica.open(configuration, model) else { continue }
      let rows = try await replica.read { snapshot in
        try snapshot.rows(
          "SELECT n.number, count(*) FROM e_Note n JOIN object o ON o._pk = n._pk WHERE o.state = 1 GROUP BY 1", [])
      }
      await replica.close()
      return Dictionary(
        uniqueKeysWithValues: rows.map { row in
          guard case .integer(let number) = row[0], case .integer(let count) = row[1] else { return (0, 0) }
          return (Int(number), Int(count))
        })
    }
    throw StoreError.damaged("no model fits")
  }
}

@Test(arguments: ["saves", "imports", "migrates"]) func `what a killed process acknowledged is there, once and whole`(
  kind: String
) async throws {
  let victim = Victim(folder: try World.folder(), kind: kind)
  var random = SeededGenerator(kind.count)
  for _ in 0..<12 {
    try victim.kill(after: Int.random(in: 1...8, using: &random), spins: Int.random(in: 0...400, using: &random))
    let stored = try await victim.stored()
    #expect(stored.values.allSatisfy { $0 == 2 })
    let acknowledged = Set(victim.acknowledged())
    #expect(acknowledged.isSubset(of: stored.keys))
    // At most one piece of work was done whose answer nobody saw; the next process begins behind it.
    #expect(stored.count - acknowledged.count <= 12)
  }
  #expect(victim.acknowledged().count > 20)
}
