// Devices that edit, lose answers and die become equal: against the real server's processes.

import Foundation
import MirrorWire
import ReplicaStore
import ReplicaSync
import Testing

/// Random edits of several devices, each in its own order.
private struct Story {
  let chance: Chance
  let names: [String: [String]] = [
    "Post": ["p1", "p2", "p3", "p4"], "Cover": ["c1", "c2", "c3"], "Remark": ["r1", "r2", "r3"], "Tag": ["t1", "t2", "t3"],
  ]

  private func name(_ entity: String) -> String { chance.pick(names[entity] ?? []) }

  func edit(_ replica: NaiveReplica, seed: Int) throws {
    try replica.save { edit in
      for _ in 0...chance.number(2) { step(&edit, seed) }
    }
  }

  private func step(_ edit: inout NaiveEdit, _ seed: Int) {
    let entity = chance.pick(["Post", "Cover", "Remark", "Tag"])
    let name = "\(name(entity))-\(seed)"
    let attribute = ["Post": "title", "Cover": "name", "Remark": "text", "Tag": "name"][entity] ?? ""
    let value = AttributeValue.string("v\(chance.number(1_000_000))")
    guard edit.graph.objects[name] != nil else { return edit.insert(entity, name, [attribute: value]) }
    func other(_ entity: String) -> String? {
      let other = "\(self.name(entity))-\(seed)"
      return edit.graph.objects[other] == nil ? nil : other
    }
    switch chance.number(8) {
    case 0, 1: edit.set(attribute, of: name, value)
    case 2: if entity == "Post" { edit.set("score", of: name, .integer(Int64(chance.number(100)))) }
    case 3: edit.delete(name)
    case 4: if entity == "Post" { edit.point("cover", of: name, to: other("Cover")) }
    case 5: if entity == "Remark" { edit.point("post", of: name, to: other("Post")) }
    default: if entity == "Post", let tag = other("Tag") { edit.pair(name, tag, isMade: chance.number(3) > 0) }
    }
  }
}

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct ConvergenceTests {
  /// Runs a story, and tells what differs at its end.
  private func run(_ server: Server, seed: Int, broken: Rule? = nil, rounds: Int = 8) async throws -> String? {
    let chance = Chance(UInt64(seed))
    let story = Story(chance: chance)
    let user = try await server.user("u\(seed)-\(broken?.rawValue ?? "kept")-\(UUID().uuidString.prefix(6))")
    let faults = FaultyTransport(inner: CurlTransport()) { _ in
      switch chance.number(12) {
      case 0: .losesRequest
      case 1, 2: .losesAnswer
      default: .none
      }
    }
    var devices: [Device] = []
    for _ in 0..<3 {
      devices.append(
        try await Device(user, broken: broken, transport: faults, pageLimit: chance.pick([1, 2, 7, 50])))
    }
    for _ in 0..<rounds {
      for device in devices {
        for _ in 0...chance.number(3) { try story.edit(device.replica, seed: seed) }
        switch chance.number(4) {
        // Offline.
        case 0: break
        case 1:
          device.replica.die(after: chance.number(6))
          try await device.mirroring.start()
          for _ in 0..<30 where !device.replica.isDead { try await Task.sleep(for: .milliseconds(5)) }
          try await device.restart()
        default: try await device.sync()
        }
      }
    }
    for _ in 0..<3 { for device in devices { try await device.sync() } }
    let fresh = try await Device(user, pageLimit: 3)
    try await fresh.sync()
    for device in devices + [fresh] { await device.mirroring.stop() }
    let expected = fresh.shown
    for (index, device) in devices.enumerated() where device.shown != expected {
      let difference = device.shown.difference(from: expected).map { "\($0)" }.joined(separator: "\n")
      return "seed \(seed), device \(index):\n\(difference)"
    }
    return expected.isEmpty ? "seed \(seed): nothing was saved" : nil
  }

  @Test func `three devices and a fresh one are equal, whatever is lost and whoever dies`() async throws {
    let seeds = ProcessInfo.processInfo.environment["AQUIFER_SEEDS"].flatMap { Int($0) } ?? 10
    let first = ProcessInfo.processInfo.environment["AQUIFER_FIRST_SEED"].flatMap { Int($0) } ?? 1
    try await Server.run(["--rate-limit", "100000", "--rate-burst", "100000"]) { server in
      var diverged = 0
      for seed in first..<first + seeds {
        guard let difference = try await run(server, seed: seed) else { continue }
        diverged += 1
        Issue.record("\(difference)")
      }
      print("convergence: \(seeds) seeds, \(diverged) diverged")
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
