// Figures of mirroring on one machine: how long a save takes to another device, a queue to the server, a first import.

import Foundation
import MirrorWire
import ReplicaStore
import ReplicaSync
import ReplicaWorld

/// `client-peer fill|reupload|import|edits GATEWAY NOTIFIER CONTAINER MODELHASH TOKEN FOLDER COUNT`, with the sample's
/// model: a line of JSON for each figure. `import` imports what `fill` has sent, and `reupload` sends it again after an
/// operator has ended its zone; `edits` is for another user.
struct Figures {
  let account: Account
  let container: String
  let modelHash: String
  let folder: String
  let count: Int

  init?(_ words: [String]) {
    guard words.count == 9, let count = Int(words[8]) else { return nil }
    account = Account(server: words[2], notifier: words[3], apiToken: "", tokens: FixedToken(token: words[6]))
    (container, modelHash, folder) = (words[4], words[5], words[7])
    self.count = count
  }

  func run(_ name: String) async throws {
    switch name {
    case "fill": try await fill()
    case "import": try await firstImport()
    case "reupload": try await reupload()
    default:
      try await latency()
      try await equality()
      try await queue()
    }
  }

  private func tell(_ key: String, _ value: Double) { print(#"{"key":"\#(key)","value":\#(value)}"#) }

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
        "Post", attributes: [AttributeDescription("title", .string), AttributeDescription("content", .string)],
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

  /// A post's values: title and content.
  private func post(_ save: SaveTransaction, _ name: String, _ title: String) throws {
    try save.insert(AnyObjectID(entityName: "Post", recordName: name), [.text(title), .text("seven")])
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
    let saveCount = max(count / 500, 5)
    for number in 0..<saveCount {
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
    tell("latency", times[(saveCount - 1) * 99 / 100])
    for peer in [phone, laptop] { await peer.mirroring.stop() }
  }

  private func queue() async throws {
    let phone = try await peer("queue")
    for number in 0..<count / 10 {
      _ = try await phone.replica.save(SaveOptions()) { save in try post(save, UUID().uuidString, "post \(number)") }
    }
    let start = ContinuousClock.now
    try await phone.mirroring.start()
    while try await phone.replica.figures().pendingTransactions > 0 { try await Task.sleep(for: .milliseconds(5)) }
    tell("queue", (ContinuousClock.now - start) / .seconds(1))
    await phone.mirroring.stop()
  }

  /// Two devices save without the server: posts of their own, and titles of posts that both have.
  private func equality() async throws {
    let peers = [try await peer("first"), try await peer("second")]
    let names = (0..<50).map { "shared-\($0)" }
    _ = try await peers[0].replica.save(SaveOptions()) { save in for name in names { try post(save, name, "new") } }
    for peer in peers + peers {
      try await peer.mirroring.start()
      try await peer.loop.syncNow(timeout: .seconds(600))
      await peer.mirroring.stop()
    }
    for (index, peer) in peers.enumerated() {
      for number in 0..<count / 100 {
        _ = try await peer.replica.save(SaveOptions()) { save in
          if number % 2 == 0 { return try post(save, UUID().uuidString, "of \(index)") }
          let id = AnyObjectID(entityName: "Post", recordName: names[number / 2 % names.count])
          try save.update(id, from: [.null, .null], to: [.text("\(index) \(number)"), .null])
        }
      }
    }
    let start = ContinuousClock.now
    for peer in peers { try await peer.mirroring.start() }
    while true {
      let shown = (try await shown(peers[0]), try await shown(peers[1]))
      if shown.0 != nil, shown.0 == shown.1 { break }
      try await Task.sleep(for: .milliseconds(5))
    }
    tell("equal", (ContinuousClock.now - start) / .seconds(1))
    for peer in peers { await peer.mirroring.stop() }
  }

  /// All posts; nil while saves wait to be sent.
  private func shown(_ peer: Peer) async throws -> [String: String]? {
    guard try await peer.replica.figures().pendingTransactions == 0 else { return nil }
    return try await peer.replica.read { snapshot in
      var titles: [String: String] = [:]
      try snapshot.forEach(Query("Post")) { row in titles[row.recordName(0)] = row.text(1) }
      return titles
    }
  }

  /// Puts objects, and a link for every tenth, on the server.
  private func fill() async throws {
    let phone = try await peer("fill")
    for part in 0..<max(count / 1000, 1) {
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

  /// From the page that tells the end until the server has everything in its zone again.
  private func reupload() async throws {
    let phone = try await peer("fill")
    let idle = Self.residentKilobytes("VmRSS")
    let start = ContinuousClock.now
    try await phone.mirroring.start()
    let app = Task { try await self.longestSave(phone) }
    var isTold = false
    while true {
      let waiting = try await phone.replica.figures().pendingObjects
      isTold = isTold || waiting >= count
      // The app's own saves wait, too.
      if isTold, waiting < count / 10 { break }
      try await Task.sleep(for: .milliseconds(20))
    }
    tell("reuploadSent", (ContinuousClock.now - start) / .seconds(1))
    app.cancel()
    tell("reuploadSave", try await app.value)
    try await phone.loop.syncNow(timeout: .seconds(600))
    tell("reupload", (ContinuousClock.now - start) / .seconds(1))
    tell("reuploadMemory", Double(Self.residentKilobytes("VmHWM") - idle) / 1024)
    await phone.mirroring.stop()
  }

  /// Saves until it is cancelled.
  /// - Returns: the milliseconds of the save that took longest.
  private func longestSave(_ peer: Peer) async throws -> Double {
    var longest = Duration.zero
    while !Task.isCancelled {
      let start = ContinuousClock.now
      _ = try await peer.replica.save(SaveOptions()) { save in try post(save, UUID().uuidString, "meanwhile") }
      longest = max(longest, ContinuousClock.now - start)
      // Dropped because the loop ends with the task.
      try? await Task.sleep(for: .milliseconds(2))
    }
    return longest / .milliseconds(1)
  }

  private func firstImport() async throws {
    let phone = try await peer("import")
    let idle = Self.residentKilobytes("VmRSS")
    let start = ContinuousClock.now
    try await phone.mirroring.start()
    try await phone.loop.syncNow(timeout: .seconds(300))
    let time = ContinuousClock.now - start
    let posts = try await phone.replica.read { try $0.objectIDs(Query("Post")).count }
    guard posts >= count else { throw StoreError.invalid("\(posts) posts arrived of \(count)") }
    tell("firstImport", time / .seconds(1))
    tell("importMemory", Double(Self.residentKilobytes("VmHWM") - idle) / 1024)
    await phone.mirroring.stop()
  }

  private static func residentKilobytes(_ key: String) -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix(key) } ?? ""
    return Int(line.split(separator: " ").dropFirst().first { Int($0) != nil } ?? "") ?? 0
  }
}
