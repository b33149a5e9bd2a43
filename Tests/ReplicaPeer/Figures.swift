// Figures of mirroring on one machine: how long a save takes to another device, a queue to the server, a first import.

import Foundation
import MirrorWire
import ReplicaStore
import ReplicaSync

/// `client-peer latency|queue|fill|import GATEWAY NOTIFIER CONTAINER MODELHASH TOKEN FOLDER COUNT`
struct Figures {
  let account: Account
  let container: String
  let modelHash: String
  let folder: String
  let count: Int

  init?(_ words: [String]) {
    guard words.count == 9, let count = Int(words[8]) else { return nil }
    account = Account(server: words[2], notifier: words[3], apiToken: "", tokens: Token(token: words[6]))
    (container, modelHash, folder) = (words[4], words[5], words[7])
    self.count = count
  }

  func run(_ name: String) async throws {
    switch name {
    case "latency": try await latency()
    case "queue": try await queue()
    case "fill": try await fill()
    default: try await firstImport()
    }
  }

  private struct Peer {
    let replica: Replica
    let mirroring: Mirroring
    let loop: SyncLoop
  }

  private func peer(_ name: String) async throws -> Peer {
    var configuration = ReplicaConfiguration(
      path: "\(folder)/\(name)", processID: "1", machineIdentifier: "machine", now: { Date.now },
      makeIdentifier: { UUID() })
    configuration.isMirrored = true
    let entities = [
      EntityDescription(
        "Post", attributes: [AttributeDescription("title", .string), AttributeDescription("score", .integer64)],
        relationships: [RelationshipDescription("tags", to: "Tag", inverse: "posts", isToMany: true)]),
      EntityDescription(
        "Tag", attributes: [AttributeDescription("name", .string)],
        relationships: [RelationshipDescription("posts", to: "Post", inverse: "tags", isToMany: true)]),
    ]
    let replica = try await Replica.open(configuration, ManagedObjectModel(hash: modelHash, entities: entities))
    let mirroring = Mirroring(
      account: account, container: container, environment: "development", transport: CurlTransport())
    var options = MirrorOptions()
    options.lease = nil
    let loop = try await mirroring.add(replica, scope: "private", options: options)
    return Peer(replica: replica, mirroring: mirroring, loop: loop)
  }

  /// A post's values: title and score.
  private func post(_ save: SaveTransaction, _ name: String, _ title: String) throws {
    try save.insert(AnyObjectID(entityName: "Post", recordName: name), [.text(title), .integer(7)])
  }

  private func latency() async throws {
    let (phone, laptop) = (try await peer("phone"), try await peer("laptop"))
    for peer in [phone, laptop] {
      try await peer.mirroring.start()
      try await peer.loop.syncNow(timeout: .seconds(30))
    }
    try await Task.sleep(for: .seconds(1))
    var commits = laptop.replica.commits().makeAsyncIterator()
    var times: [Double] = []
    for number in 0..<count {
      let name = UUID().uuidString
      let start = ContinuousClock.now
      _ = try await phone.replica.save(SaveOptions()) { save in try post(save, name, "post \(number)") }
      while let commit = await commits.next() {
        guard commit.isImport else { continue }
        let isThere = try await laptop.replica.read { snapshot in
          try snapshot.object(AnyObjectID(entityName: "Post", recordName: name)) { _ in true } ?? false
        }
        if isThere { break }
      }
      times.append((ContinuousClock.now - start) / .milliseconds(1))
      try await Task.sleep(for: .milliseconds(5))
    }
    times.sort()
    print("save to another device: p50 \(times[count / 2]) ms, p99 \(times[count * 99 / 100]) ms")
    for peer in [phone, laptop] { await peer.mirroring.stop() }
  }

  private func queue() async throws {
    let phone = try await peer("queue")
    var start = ContinuousClock.now
    for number in 0..<count {
      _ = try await phone.replica.save(SaveOptions()) { save in try post(save, UUID().uuidString, "post \(number)") }
    }
    print("\(count) saves: \(ContinuousClock.now - start)")
    start = ContinuousClock.now
    try await phone.mirroring.start()
    while try await phone.replica.figures().pendingTransactions > 0 { try await Task.sleep(for: .milliseconds(5)) }
    print("\(count) saves sent: \(ContinuousClock.now - start)")
    await phone.mirroring.stop()
  }

  /// Puts objects, and a link for every tenth, on the server.
  private func fill() async throws {
    let phone = try await peer("fill")
    for part in 0..<count / 1000 {
      _ = try await phone.replica.save(SaveOptions()) { save in
        let tag = AnyObjectID(entityName: "Tag", recordName: "tag-\(part)")
        try save.insert(tag, [.text("tag \(part)")])
        for number in 0..<1000 {
          let name = UUID().uuidString
          try post(save, name, "post \(part) \(number)")
          guard number % 10 == 0 else { continue }
          try save.setPair("tags", of: AnyObjectID(entityName: "Post", recordName: name), with: tag, isLinked: true)
        }
      }
    }
    try await phone.mirroring.start()
    for _ in 0..<20 {
      // Dropped because the server may be busy with what it was sent.
      if (try? await phone.loop.syncNow(timeout: .seconds(120))) != nil { break }
    }
    await phone.mirroring.stop()
  }

  private func firstImport() async throws {
    let phone = try await peer("import")
    let idle = Self.residentKilobytes("VmRSS")
    let start = ContinuousClock.now
    try await phone.mirroring.start()
    try await phone.loop.syncNow(timeout: .seconds(300))
    let time = ContinuousClock.now - start
    let objects = try await phone.replica.read { snapshot in
      try snapshot.objectIDs(Query("Post")).count + snapshot.objectIDs(Query("Tag")).count
    }
    let peak = Self.residentKilobytes("VmHWM")
    print("first import: \(objects) objects in \(time), \(idle / 1024) MB before, \(peak / 1024) MB at most")
    await phone.mirroring.stop()
  }

  private static func residentKilobytes(_ key: String) -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix(key) } ?? ""
    return Int(line.split(separator: " ").dropFirst().first { Int($0) != nil } ?? "") ?? 0
  }
}
