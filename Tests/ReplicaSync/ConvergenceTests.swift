// Devices that edit, lose answers and die become equal: against the real server's processes.

import Foundation
import MirrorWire
import ReplicaStore
import ReplicaSync
import Synchronization
import Testing

/// Random edits of several devices, with few names: they are used again after deletions, and by several devices at
/// once.
private final class Story: Sendable {
  let chance: Chance
  /// Names that saves inserted which were acknowledged. Nobody edits or deletes them.
  private let receipts = Mutex<Set<String>>([])

  private static let attributes = ["Post": "title", "Cover": "name", "Remark": "text", "Tag": "name"]

  init(_ chance: Chance) { self.chance = chance }

  func edit(_ replica: any JournalReplica) async throws {
    let receipt = chance.number(4) == 0 ? "t-\(chance.number(1_000_000_000))" : nil
    try await replica.save { [self] edit in
      if let receipt { edit.insert("Tag", receipt, ["name": .string("receipt")]) }
      var deleted: Set<String> = []
      for _ in 0...chance.number(2) { step(&edit, &deleted) }
    }
    if let receipt { _ = receipts.withLock { $0.insert(receipt) } }
  }

  /// - Parameter shown: lines of a replica.
  func missingReceipts(in shown: [String]) -> Set<String> {
    let names = Set(shown.compactMap { $0.split(separator: " ").dropFirst().first.map { String($0.dropLast()) } })
    return receipts.withLock { $0.subtracting(names) }
  }

  private static func names(_ entity: String, _ edit: any JournalEdit) -> [String] {
    edit.names(entity).filter { !$0.hasPrefix("t-") }
  }

  /// - Parameter deleted: by this save, which can't use their names again.
  private func step(_ edit: inout any JournalEdit, _ deleted: inout Set<String>) {
    let entity = chance.pick(["Post", "Cover", "Remark", "Tag"])
    let attribute = Self.attributes[entity] ?? ""
    let value = AttributeValue.string("v\(chance.number(1_000_000))")
    let present = Self.names(entity, edit)
    if present.count < 2 + chance.number(3) {
      let name = "\(entity.prefix(1).lowercased())\(chance.number(8))"
      if !present.contains(name), !deleted.contains(name) { edit.insert(entity, name, [attribute: value]) }
      return
    }
    let name = chance.pick(present)
    func other(_ entity: String) -> String? {
      let present = Self.names(entity, edit)
      return present.isEmpty ? nil : chance.pick(present)
    }
    switch chance.number(8) {
    case 0, 1: edit.set(attribute, of: name, value)
    case 2: if entity == "Post" { edit.set("score", of: name, .integer(Int64(chance.number(100)))) }
    case 3:
      edit.delete(name)
      deleted.insert(name)
    case 4: if entity == "Post" { edit.point("cover", of: name, to: other("Cover")) }
    case 5: if entity == "Remark" { edit.point("post", of: name, to: other("Post")) }
    default: if entity == "Post", let tag = other("Tag") { edit.pair(name, tag, isMade: chance.number(3) > 0) }
    }
  }
}

/// A person who edits at a device also while an answer is on its way to it.
private final class Person: Sendable {
  private let story: Story
  /// nil: the person is away.
  private let replica = Mutex<(any JournalReplica)?>(nil)

  init(_ story: Story) { self.story = story }

  func sit(at replica: any JournalReplica) { self.replica.withLock { $0 = replica } }
  func leave() { replica.withLock { $0 = nil } }

  func edit() async {
    guard let replica = replica.withLock({ $0 }), story.chance.number(3) == 0 else { return }
    // Dropped because a replica that died meanwhile takes no edit.
    try? await story.edit(replica)
  }
}

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct ConvergenceTests {
  /// Runs a story, and tells what differs at its end.
  private func run(_ server: Server, seed: Int, broken: Rule? = nil, isStored: Bool = false) async throws -> String? {
    let chance = Chance(UInt64(seed))
    let story = Story(chance)
    let user = try await server.user("u\(seed)-\(broken?.rawValue ?? "kept")-\(UUID().uuidString.prefix(6))")
    let watch = RequestWatch()
    var devices: [(device: Device, person: Person)] = []
    for _ in 0..<3 {
      let person = Person(story)
      var faults = FaultyTransport(inner: CurlTransport()) { _ in
        switch chance.number(12) {
        case 0: .losesRequest
        case 1, 2: .losesAnswer
        default: .none
        }
      }
      faults.meanwhile = { await person.edit() }
      faults.watch = watch
      let device = try await Device(
        user, replica: try await replica(server, broken, isStored), transport: faults,
        pageLimit: chance.pick([1, 2, 7, 50]))
      devices.append((device, person))
    }
    for _ in 0..<8 {
      for (device, person) in devices {
        for _ in 0...chance.number(3) { try await story.edit(device.replica) }
        person.sit(at: device.replica)
        switch chance.number(4) {
        // Offline.
        case 0: break
        case 1:
          try await kill(device, chance)
        default: try await device.sync()
        }
        person.leave()
      }
    }
    for _ in 0..<3 { for (device, _) in devices { try await device.sync() } }
    #expect(watch.most == 1, "a store has one request at a time")
    let fresh = try await Device(user, pageLimit: 3)
    try await fresh.sync()
    for device in devices.map(\.device) + [fresh] { await device.mirroring.stop() }
    let expected = try await fresh.shown()
    for (index, one) in devices.enumerated() {
      let shown = try await one.device.shown()
      if shown == expected { continue }
      let difference = shown.difference(from: expected).map { "\($0)" }.joined(separator: "\n")
      return "seed \(seed), device \(index):\n\(difference)"
    }
    let lost = story.missingReceipts(in: expected)
    if !lost.isEmpty { return "seed \(seed): acknowledged saves are lost: \(lost)" }
    return expected.isEmpty ? "seed \(seed): nothing was saved" : nil
  }

  private func replica(_ server: Server, _ broken: Rule?, _ isStored: Bool) async throws -> any JournalReplica {
    let identifier = UUID().uuidString
    if isStored { return try await StoredReplica("\(server.folder.path)/\(identifier)", modelHash: server.modelHash) }
    return NaiveReplica(NaiveFile(storeIdentifier: identifier, modelHash: server.modelHash), broken: broken)
  }

  /// A naive replica dies before a commit of chance; a real one is closed in the midst of a request.
  private func kill(_ device: Device, _ chance: Chance) async throws {
    let naive = device.replica as? NaiveReplica
    naive?.die(after: chance.number(6))
    try await device.mirroring.start()
    let patience = naive == nil ? chance.number(6) : 30
    for _ in 0..<patience where naive?.isDead != true { try await Task.sleep(for: .milliseconds(5)) }
    try await device.restart()
  }

  @Test(arguments: [false, true])
  func `three devices and a fresh one are equal, whatever is lost and whoever dies`(_ isStored: Bool) async throws {
    let seeds = ProcessInfo.processInfo.environment["AQUIFER_SEEDS"].flatMap { Int($0) } ?? 30
    let first = ProcessInfo.processInfo.environment["AQUIFER_FIRST_SEED"].flatMap { Int($0) } ?? 1
    try await Server.run(["--rate-limit", "100000", "--rate-burst", "100000"]) { server in
      var diverged = 0
      for seed in first..<first + seeds {
        guard let difference = try await run(server, seed: seed, isStored: isStored) else { continue }
        diverged += 1
        Issue.record("\(difference)")
      }
      print("convergence, \(isStored ? "real" : "naive") replicas: \(seeds) seeds, \(diverged) diverged")
    }
  }

  @Test(arguments: Rule.allCases) func `a rule that is broken is seen`(_ rule: Rule) async throws {
    try await Server.run(["--rate-limit", "100000", "--rate-burst", "100000"]) { server in
      var seen: Int?
      for seed in 1...60 where seen == nil {
        if try await run(server, seed: seed, broken: rule) != nil { seen = seed }
      }
      print("broken \(rule.rawValue): seen at seed \(seen.map { "\($0)" } ?? "none")")
      #expect(seen != nil, "\(rule.rawValue)")
    }
  }
}
