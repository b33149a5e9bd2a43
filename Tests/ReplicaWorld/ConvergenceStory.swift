// One seed's story: devices that edit, lose answers and die become equal.

import Foundation
import MirrorWire
import ReplicaStore
import ReplicaSync

/// Three devices of one user, with a real server. Two of three replicas are real, the others naive.
///
/// A seed decides what people do, what is lost and who dies. How many requests a device has while it is online depends
/// on the machine, so a seed that is told again may go another way.
package struct ConvergenceStory {
  package enum Ending: Sendable, Equatable, CustomStringConvertible {
    case equal
    /// What differs, or what is lost.
    case different(String)
    /// What kept the story from its end, so that nothing could be compared.
    case unfinished(String)

    package var description: String {
      switch self {
      case .equal: "all devices are equal"
      case .different(let difference): difference
      case .unfinished(let reason): "the story has no end: \(reason)"
      }
    }
  }

  package let seed: Int
  package let trace = Trace()
  private let server: Server
  private let broken: Rule?
  private let chance: Chance
  private let endings: [ZoneEnding]
  private let ends = ZoneEnds()

  /// - Parameters:
  ///   - broken: all replicas are naive and break this rule.
  ///   - endsZone: the zone ends, whatever the seed says.
  package init(_ server: Server, seed: Int, broken: Rule? = nil, endsZone: Bool = false) {
    (self.server, self.seed, self.broken) = (server, seed, broken)
    chance = Chance(seed)
    let turns = Self.roundCount * Self.deviceCount
    let hasEndings = broken.map(\.isAboutZones) ?? true
    endings = hasEndings ? ZoneEnding.endings(seed, turns: turns, always: endsZone) : []
  }

  private static let (deviceCount, roundCount) = (3, 4)

  private struct Part {
    let name: String
    let device: Device
    let person: Person
    let watch: RequestWatch
  }

  /// Runs the story.
  package func ending() async -> Ending {
    let folder = server.folder.appending(path: "story-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    do {
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      let user = try await server.user("u\(seed)-\(broken?.rawValue ?? "kept")-\(UUID().uuidString.prefix(6))")
      return try await ending(user, folder)
    } catch {
      return .unfinished("it did not begin: \(error)")
    }
  }

  private func ending(_ user: User, _ folder: URL) async throws -> Ending {
    var parts: [Part] = []
    for number in 1...Self.deviceCount { parts.append(try await part(number, user, folder)) }
    var ending = Ending.equal
    do {
      if let difference = try await difference(of: parts, user) { ending = .different(difference) }
    } catch {
      ending = .unfinished("\(error); \(await Self.states(of: parts))")
    }
    for part in parts {
      await part.device.mirroring.stop()
      await part.device.replica.close()
    }
    let most = parts.map(\.watch.most).max() ?? 0
    return most > 1 ? .different("a store had \(most) requests at a time") : ending
  }

  /// Why the devices are idle, for people who look for the cause of a story without an end.
  private static func states(of parts: [Part]) async -> String {
    var states: [String] = []
    for part in parts {
      let status = await part.device.loop.currentStatus()
      let error = status.lastError.map { ", \($0)" } ?? ""
      states.append("device \(part.name) \(status.idle) with \(status.pendingTransactions) to send\(error)")
    }
    return states.joined(separator: "; ")
  }

  /// - Returns: what differs at the end.
  private func difference(of parts: [Part], _ user: User) async throws -> String? {
    for round in 0..<Self.roundCount {
      for (place, part) in parts.enumerated() {
        try await turn(part)
        for ending in endings where ending.turn == round * parts.count + place {
          trace.tell("the zone ends: \(ending.reason)")
          ends.note()
          try await server.end(ZoneID.homeName, of: user, ending.reason)
        }
      }
    }
    try await settle(parts)
    for part in parts { await part.person.look(at: part.device.replica) }
    let fresh = try await Device(
      user, transport: server.transport, pageLimit: Chance(seed, stream: 43).pick([3, 50, 1000]))
    try await fresh.sync()
    for device in parts.map(\.device) + [fresh] { await device.mirroring.stop() }
    return try await difference(of: parts, from: try await fresh.shown())
  }

  /// Has all devices send and import everything.
  private func settle(_ parts: [Part]) async throws {
    for _ in 0..<2 { for part in parts { try await part.device.sync() } }
    if endings.isEmpty { return }
    // What waits for an object that another device has sent again in the meantime.
    for part in parts { try await part.device.retryHeld() }
    for _ in 0..<2 { for part in parts { try await part.device.sync() } }
  }

  private func part(_ number: Int, _ user: User, _ folder: URL) async throws -> Part {
    let name = "\(number)"
    let person = Person(
      name, trace, chance: Chance(seed, stream: 10 + number), whim: Chance(seed, stream: 20 + number), ends)
    let luck = Chance(seed, stream: 30 + number)
    var faults = FaultyTransport(inner: server.transport) { _ in
      switch luck.number(12) {
      case 0: .losesRequest
      case 1, 2: .losesAnswer
      default: .none
      }
    }
    faults.meanwhile = { await person.wait() }
    faults.trace = (name, trace)
    let device = try await Device(
      user, replica: try await replica("\(folder.path)/\(name)"), transport: faults,
      pageLimit: chance.pick([1, 5, 50, 50]),
      zonePolicy: endings.isEmpty ? nil : ZoneEnding.policy(seed, device: number))
    return Part(name: name, device: device, person: person, watch: faults.watch)
  }

  private func replica(_ path: String) async throws -> any JournalReplica {
    if broken == nil, chance.number(3) > 0 { return try await StoredReplica(path, modelHash: server.modelHash) }
    return NaiveReplica(NaiveFile(storeIdentifier: UUID().uuidString, modelHash: server.modelHash), broken: broken)
  }

  /// A device is edited, and then it is left alone, dies or is online.
  private func turn(_ part: Part) async throws {
    for _ in 0...chance.number(3) { try await part.person.edit(part.device.replica) }
    part.person.sit(at: part.device.replica)
    switch chance.number(4) {
    case 0: break
    case 1: try await kill(part)
    default:
      trace.tell("\(part.name) is online")
      try await part.device.sync()
      part.person.hear(of: ends.count)
    }
    await part.person.look(at: part.device.replica)
    part.person.leave()
  }

  /// A naive replica dies before a commit of chance; a real one is closed in the midst of a request.
  private func kill(_ part: Part) async throws {
    let device = part.device
    let naive = device.replica as? NaiveReplica
    naive?.die(after: chance.number(6))
    try await device.mirroring.start()
    let patience = naive == nil ? chance.number(6) : 30
    for _ in 0..<patience where naive?.isDead != true { try await Task.sleep(for: .milliseconds(5)) }
    try await device.restart()
    trace.tell("\(part.name) died")
  }

  /// A value that goes back, of an object whose name no other object had (K18).
  private func setback(of parts: [Part]) async throws -> String? {
    var others = parts.reduce(into: Set<String>()) { $0.formUnion($1.person.deletedNames) }
    // What the server refused goes back with good reason.
    for part in parts {
      others.formUnion(try await part.device.replica.store.rejected().flatMap(\.objects).map(\.recordName))
    }
    for part in parts {
      guard let setback = part.person.setbacks.first(where: { !others.contains($0.object) }) else { continue }
      return "device \(part.name), \(type(of: part.device.replica)): \(setback)"
    }
    return nil
  }

  private func difference(of parts: [Part], from expected: [String]) async throws -> String? {
    if let setback = try await setback(of: parts) { return setback }
    for part in parts {
      let shown = try await part.device.shown()
      if shown == expected { continue }
      let difference = shown.difference(from: expected).map { "\($0)" }.joined(separator: "\n")
      return "device \(part.name), \(type(of: part.device.replica)):\n\(difference)"
    }
    let names = Set(expected.compactMap { $0.split(separator: " ").dropFirst().first?.dropLast() }.map(String.init))
    let kept = parts.map { part in part.person.receipts(endings.map { $0.isUndone(by: part.device.zonePolicy) }) }
    let lost = kept.reduce(into: Set<String>()) { $0.formUnion($1) }.subtracting(names)
    if !lost.isEmpty { return "acknowledged saves are lost: \(lost.sorted())" }
    return expected.isEmpty && endings.isEmpty ? "nothing was saved" : nil
  }
}
