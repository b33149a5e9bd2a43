// Containers of tests, with files in folders of their own.

import AquiferClient
import Foundation
import ReplicaSync
import ReplicaWorld
import Synchronization

/// A container without a server.
final class TestContainer: Sendable {
  let container: PersistentContainer
  let folder: String

  init(
    _ stores: (String) -> [StoreDescription] = {
      [StoreDescription(path: "\($0)/photos.sqlite", configuration: "Cloud")]
    }
  ) async throws {
    folder = try Self.makeFolder()
    container = try await PersistentContainer(.photos, stores: stores(folder))
  }

  deinit { try? FileManager.default.removeItem(atPath: folder) }

  static func makeFolder() throws -> String {
    let folder = FileManager.default.temporaryDirectory.appending(path: "container-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    return folder
  }
}

/// Keeps a token in memory, and remembers all that it was given.
final class KeptTokens: Account.TokenStore {
  private let kept: Mutex<[String?]>

  init(_ token: String? = nil) { kept = Mutex([token]) }

  var tokens: [String?] { kept.withLock { $0 } }
  func load() throws -> String? { kept.withLock { $0.last ?? nil } }
  func store(_ token: String?) throws { kept.withLock { $0.append(token) } }
}

extension CloudOptions {
  static func photos(_ scope: DatabaseScope = .private) -> CloudOptions {
    var options = CloudOptions(containerIdentifier: Server.container, databaseScope: scope)
    options.environment = "development"
    return options
  }
}

extension Server {
  /// Runs a server that knows the model of these tests.
  static func runPhotos(_ options: [String] = [], _ body: (Server) async throws -> Void) async throws {
    let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    try await run(options, model: tests.appending(path: "Photos.xcdatamodeld").path, body)
  }

  /// Makes the server refuse a tag whose name another tag has.
  func refuseTagsOfOneName() throws {
    let rules = folder.appending(path: "rules.json")
    try Data(#"{"unique":[{"entity":"Tag","attributes":["name"],"policy":"reject"}]}"#.utf8).write(to: rules)
    try aquifer("rules", "import", rules.path, "--container", Server.container)
  }

  /// An app of a user's device, whose mirroring runs.
  /// - Parameters:
  ///   - name: of the files, which a later container may open again.
  ///   - change: changes the description of each store.
  func app(
    _ name: String, of user: User, _ scopes: [DatabaseScope] = [.private], transport: any Transport = CurlTransport(),
    _ change: (inout StoreDescription) -> Void = { _ in }
  ) async throws -> PersistentContainer {
    let container = try await app(name, account: account(KeptTokens(user.token)), scopes, transport: transport, change)
    container.sync.start()
    return container
  }

  /// An app whose mirroring waits for its start.
  func app(
    _ name: String, account: Account, _ scopes: [DatabaseScope] = [.private],
    transport: any Transport = CurlTransport(), _ change: (inout StoreDescription) -> Void = { _ in }
  ) async throws -> PersistentContainer {
    let stores = scopes.map { scope in
      var store = StoreDescription(
        path: "\(folder.path)/\(name)-\(scope.rawValue).sqlite", configuration: "Cloud", cloudOptions: .photos(scope))
      change(&store)
      return store
    }
    return try await PersistentContainer(
      .photos, stores: stores, account: account, surroundings: .system, transport: transport)
  }
}

/// Waits for what happens by itself; a test that waits too long fails.
func until(_ what: String, _ condition: () async throws -> Bool) async throws {
  for _ in 0..<6000 {
    if try await condition() { return }
    try await Task.sleep(for: .milliseconds(5))
  }
  throw Unexpected("it did not come true that \(what)")
}
