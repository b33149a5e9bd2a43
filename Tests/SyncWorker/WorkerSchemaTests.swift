import FixedClocks
import InMemoryServiceBus
import ObjectModel
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices
@testable import WorkerHost
@testable import ZoneCommit

/// A share service that answers schema calls, or is away.
private final class SchemaDirectory: Sendable {
  struct State {
    var version: Int64 = 1
    var fields: [Schema.Field] = []
    var fetchCount = 0
    var error: BusError?
    /// Holds every fetch until it is finished.
    var gate: AsyncStream<Never>?
  }

  let state = Mutex(State())

  func handlers() -> BusHandlers {
    var handlers = BusHandlers()
    handlers.on(FetchSchema.self) { [self] message, _, _ in
      let (reply, gate, error) = state.withLock { state in
        state.fetchCount += 1
        let schema = Schema(recordTypes: [Schema.RecordType(name: "Note", fields: state.fields, grants: [])])
        return (
          FetchSchema.Reply(version: state.version, models: [:], latestModelHash: nil, schema: schema), state.gate,
          state.error
        )
      }
      if let gate { for await _ in gate {} }
      if let error { throw error }
      return Answer(reply)
    }
    handlers.on(ExtendSchema.self) { [self] message, _, _ in
      try state.withLock { state in
        if let error = state.error { throw error }
        state.version += 1
        state.fields += message.fields.map { Schema.Field(name: $0.field, type: $0.type) }
      }
      return Answer(Acknowledgement())
    }
    return handlers
  }
}

@Suite struct `Schemas from the directory` {
  static let container = RecordPlaneWorld.container
  static let field = ExtendSchema.SchemaField(recordType: "Note", field: "n", type: .int64, isEncrypted: false)

  private static func withSource(
    _ body: @Sendable (DirectorySchemaSource, SchemaDirectory, FixedClock) async throws -> Void
  ) async throws {
    let network = InMemoryNetwork(time: .stepped)
    let directory = SchemaDirectory()
    let share = InMemoryBus(
      name: "share", role: .share, network: network, handlers: directory.handlers(), isReady: true)
    let worker = InMemoryBus(name: "worker-1", role: .worker, network: network, handlers: BusHandlers(), isReady: true)
    worker.connect(to: share.own.endpoint)
    await worker.waitForPeers { !$0.isEmpty }
    let clock = FixedClock()
    try await body(DirectorySchemaSource(bus: worker, clock: clock, log: .silent), directory, clock)
    worker.close()
    share.close()
  }

  @Test func `a schema is asked for once while it is fresh`() async throws {
    try await Self.withSource { (source, directory, clock) async throws in
      for _ in 0..<3 { #expect(try await source.schema(of: Self.container, .development).version == 1) }
      #expect(directory.state.withLock(\.fetchCount) == 1)
      _ = try await source.schema(of: Self.container, .production)
      #expect(directory.state.withLock(\.fetchCount) == 2)
      clock.advance(by: 30_000)
      _ = try await source.schema(of: Self.container, .development)
      #expect(directory.state.withLock(\.fetchCount) == 3)
    }
  }

  @Test func `a change that is published is seen by the next request`() async throws {
    try await Self.withSource { (source, directory, _) async throws in
      _ = try await source.schema(of: Self.container, .development)
      directory.state.withLock { $0.version = 2 }
      await source.invalidate(
        DirectoryChanged(credentials: false, schemas: ["other/development", "\(Self.container.rawValue)/production"]))
      #expect(try await source.schema(of: Self.container, .development).version == 1)
      await source.invalidate(DirectoryChanged(credentials: false, schemas: ["\(Self.container.rawValue)/development"]))
      #expect(try await source.schema(of: Self.container, .development).version == 2)
    }
  }

  @Test func `a directory that was brought back to an earlier version is believed, and asked once while it is fresh`()
    async throws
  {
    try await Self.withSource { (source, directory, clock) async throws in
      directory.state.withLock { state in
        state.version = 7
        state.fields = [Schema.Field(name: "lost", type: .int64)]
      }
      #expect(try await source.schema(of: Self.container, .development).version == 7)
      directory.state.withLock { state in
        state.version = 2
        state.fields = [Schema.Field(name: "kept", type: .int64)]
      }
      clock.advance(by: 30_000)
      for _ in 0..<3 {
        let schema = try await source.schema(of: Self.container, .development)
        #expect(schema.version == 2 && schema.schemaIndex.fields(of: "Note").keys.sorted() == ["kept"])
      }
      #expect(directory.state.withLock(\.fetchCount) == 2)
    }
  }

  @Test func `while the directory is away the last schema serves, and one request a second asks`() async throws {
    try await Self.withSource { (source, directory, clock) async throws in
      _ = try await source.schema(of: Self.container, .development)
      directory.state.withLock { $0.error = BusError(.unreachable, "away") }
      clock.advance(by: 60_000)
      for _ in 0..<5 { #expect(try await source.schema(of: Self.container, .development).version == 1) }
      #expect(directory.state.withLock(\.fetchCount) == 2)
      clock.advance(by: 1000)
      directory.state.withLock { state in
        state.error = nil
        state.version = 7
      }
      #expect(try await source.schema(of: Self.container, .development).version == 7)
    }
  }

  @Test func `nothing known and nobody to ask is retryable, an unknown container is not`() async throws {
    try await Self.withSource { (source, directory, _) async throws in
      directory.state.withLock { $0.error = BusError(.timedOut, "away") }
      await #expect(throws: RecordError(.tryAgainLater, "The directory does not answer", retryAfter: 1)) {
        try await source.schema(of: Self.container, .development)
      }
      await #expect(
        throws: RecordError(
          .tryAgainLater, "The directory does not answer: the schema can't be extended", retryAfter: 1)
      ) {
        try await source.extend(Self.container, with: [Self.field])
      }
      directory.state.withLock { $0.error = BusError(.notFound, "no such container") }
      let missing = RecordError(.notFound, "The container iCloud.org.example.notes does not exist")
      await #expect(throws: missing) { try await source.schema(of: Self.container, .development) }
      await #expect(throws: missing) { try await source.extend(Self.container, with: [Self.field]) }
    }
  }

  @Test func `an extension is seen at once, and a refused one by what others declared`() async throws {
    try await Self.withSource { (source, directory, _) async throws in
      _ = try await source.schema(of: Self.container, .development)
      try await source.extend(Self.container, with: [Self.field])
      #expect(
        try await source.schema(of: Self.container, .development).schemaIndex.fields(of: "Note").keys.sorted() == ["n"])
      directory.state.withLock { state in
        state.error = BusError(.refused, "n")
        state.version = 9
      }
      try await source.extend(Self.container, with: [Self.field])
      directory.state.withLock { $0.error = nil }
      #expect(try await source.schema(of: Self.container, .development).version == 9)
    }
  }

  @Test func `requests share one fetch, but not one that began before a change`() async throws {
    try await Self.withSource { (source, directory, _) async throws in
      let (gate, open) = AsyncStream.makeStream(of: Never.self)
      directory.state.withLock { $0.gate = gate }
      let versions = try await withThrowingTaskGroup(of: Int64.self) { group in
        group.addTask { try await source.schema(of: Self.container, .development).version }
        while directory.state.withLock(\.fetchCount) == 0 { try await Task.sleep(for: .milliseconds(1)) }
        for _ in 0..<4 { group.addTask { try await source.schema(of: Self.container, .development).version } }
        await source.invalidate(
          DirectoryChanged(credentials: false, schemas: ["\(Self.container.rawValue)/development"]))
        directory.state.withLock { state in
          state.version = 2
          state.gate = nil
        }
        async let late = source.schema(of: Self.container, .development).version
        open.finish()
        #expect(try await late == 2)
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(versions.count == 5 && Set(versions).isSubset(of: [1, 2]))
      #expect(try await source.schema(of: Self.container, .development).version == 2)
      #expect(directory.state.withLock(\.fetchCount) <= 3)
    }
  }
}
