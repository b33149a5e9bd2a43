// A client's process for tests: it saves, mirrors and tells each save that is durable, until somebody kills it.

import Foundation
import HTTPClient
import MirrorWire
import ReplicaStore
import ReplicaSync
import ReplicaWorld

/// `client-peer GATEWAY CONTAINER MODELHASH TOKEN FILE NAME [COUNT]`: inserts tags NAME.0, NAME.1, … one a save, and
/// writes each name on a line of its own once it is saved. With NAME `-` it imports to the end and writes the names
/// that it has; `-keepForLater`, `-adoptWinner` and `-revert` do the same, and decide so about refused saves. `asked`
/// is a line before each decision, which else waits until somebody kills the process. After COUNT saves it waits until
/// all of them are sent, and ends with 3 if it asked twice at a time.
@main struct Peer {
  static func main() async throws {
    let words = CommandLine.arguments
    if let figures = Figures(words) {
      try await figures.run(words[1])
      HTTPClient.endProcess(0)
    }
    guard (7...8).contains(words.count) else {
      FileHandle.standardError.write(Data("six words are needed, or seven\n".utf8))
      HTTPClient.endProcess(2)
    }
    let (gateway, container, modelHash, token, file, name) = (
      words[1], words[2], words[3], words[4], words[5], words[6]
    )
    var configuration = ReplicaConfiguration(
      path: file, processID: "\(ProcessInfo.processInfo.processIdentifier)", machineIdentifier: "machine",
      now: { Date.now }, makeIdentifier: { UUID() })
    configuration.isMirrored = true
    let tag = EntityDescription("Tag", attributes: [AttributeDescription("name", .string)])
    let replica = try await Replica.open(configuration, ManagedObjectModel(hash: modelHash, entities: [tag]))
    let account = Account(server: gateway, apiToken: "", tokens: FixedToken(token: token))
    let transport = FaultyTransport(inner: CurlTransport()) { _ in .none }
    let mirroring = Mirroring(
      account: account, container: container, environment: "development", transport: transport)
    var options = MirrorOptions()
    options.pageLimit = 50
    options.batchLimit = 20
    options.lease = nil
    options.hooks.saveRejected = { _ in await decision(by: name) }
    let loop = try await mirroring.add(replica, scope: "private", options: options)
    try await mirroring.start()
    if name.hasPrefix("-") {
      try await loop.syncNow(timeout: .seconds(60))
      let names = try await replica.read { snapshot in try snapshot.objectIDs(Query("Tag")).map(\.recordName) }
      FileHandle.standardOutput.write(Data(names.sorted().map { "\($0)\n" }.joined().utf8))
      await mirroring.stop()
      await replica.close()
      HTTPClient.endProcess(0)
    }
    let count = words.count == 8 ? Int(words[7]) : nil
    var number = 0
    while count.map({ number < $0 }) ?? true {
      let identifier = AnyObjectID(entityName: "Tag", recordName: "\(name).\(number)")
      _ = try await replica.save(SaveOptions()) { save in try save.insert(identifier, [.text("tag")]) }
      FileHandle.standardOutput.write(Data("\(identifier.recordName)\n".utf8))
      number += 1
      try await Task.sleep(for: .milliseconds(2))
    }
    try await loop.syncNow(timeout: .seconds(200))
    await mirroring.stop()
    await replica.close()
    HTTPClient.endProcess(transport.watch.most > 1 ? 3 : 0)
  }

  private static func decision(by name: String) async -> MirrorHooks.RejectionDecision {
    FileHandle.standardOutput.write(Data("asked\n".utf8))
    switch name {
    case "-keepForLater": return .keepForLater
    case "-adoptWinner": return .adoptWinner
    case "-revert": return .revert
    default:
      while true { try? await Task.sleep(for: .seconds(3600)) }
    }
  }
}
