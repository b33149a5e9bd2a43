// Caches schemas and models of the share service, so that saves go on while that service is away.

import Records
import ServiceBus
import ServiceKit
import ZoneCommit

/// A cache over the directory. Its schemas are at most `freshness` old, or as old as the directory's silence.
actor DirectorySchemaSource: SchemaSource {
  private struct Key: Hashable {
    let container: ContainerID
    let environment: Environment
    /// As `DirectoryChanged.schemas` names it.
    var text: String { "\(container.rawValue)/\(environment.rawValue)" }
  }

  private struct Entry {
    var schema: EnvironmentSchema
    /// Milliseconds since 1970. From then on the directory is asked again. A stale entry has a time in the past.
    var freshUntil: Int64
  }

  private typealias Answer = Result<EnvironmentSchema, RecordError>

  /// A question to the directory that is under way.
  private struct Fetch {
    /// `changeCount` when the question began. Its answer may lack later changes.
    let changeCount: Int
    /// Requests that wait for the same answer.
    var waiters: [AsyncStream<Answer>.Continuation] = []
  }

  private let bus: any Bus
  private let clock: any WallClock
  private let log: Log
  private var entries: [Key: Entry] = [:]
  private var fetches: [Key: Fetch] = [:]
  /// Changes of schemas that this worker heard of or made itself.
  private var changeCount = 0

  /// Milliseconds. After that time a change is seen even if its publication was lost.
  private static let freshness: Int64 = 30_000
  /// Milliseconds during which a silent directory is not asked again.
  private static let silence: Int64 = 1000
  private static let deadline = Duration.seconds(2)

  init(bus: any Bus, clock: any WallClock, log: Log) {
    self.bus = bus
    self.clock = clock
    self.log = log
  }

  func schema(of container: ContainerID, _ environment: Environment) async throws(RecordError) -> EnvironmentSchema {
    let key = Key(container: container, environment: environment)
    let changesToSee = changeCount
    while true {
      if let entry = entries[key], entry.freshUntil > clock.now { return entry.schema }
      guard let running = fetches[key] else { break }
      let answer = await answer(of: key)
      if running.changeCount >= changesToSee || Task.isCancelled { return try answer.get() }
    }
    fetches[key] = Fetch(changeCount: changeCount)
    // Leaves the caller's executor, which may be the bus's own thread: models and schemas take time to decode.
    let answer = await withTaskExecutorPreference(globalConcurrentExecutor) { await fetch(key) }
    for waiter in fetches.removeValue(forKey: key)?.waiters ?? [] {
      waiter.yield(answer)
      waiter.finish()
    }
    return try answer.get()
  }

  /// Waits for the answer to another request's question.
  private func answer(of key: Key) async -> Answer {
    let (stream, continuation) = AsyncStream.makeStream(of: Answer.self, bufferingPolicy: .bufferingNewest(1))
    fetches[key]?.waiters.append(continuation)
    for await answer in stream { return answer }
    return .failure(RecordError(.tryAgainLater, "The request was cancelled", retryAfter: 1))
  }

  private func fetch(_ key: Key) async -> Answer {
    let changesSeen = changeCount
    let freshUntil = clock.now + Self.freshness
    do {
      let reply = try await bus.call(
        FetchSchema(container: key.container, environment: key.environment), to: .role(.share), within: Self.deadline)
      // Also one of a lower version: a directory from a backup has an earlier state, and so has a container that was
      // made anew. No later answer can be there, because one question at a time is under way.
      let schema =
        if let entry = entries[key], entry.schema.version == reply.version { entry.schema } else {
          EnvironmentSchema(reply)
        }
      entries[key] = Entry(schema: schema, freshUntil: changesSeen == changeCount ? freshUntil : 0)
      return .success(schema)
    } catch  where error.code == .notFound {
      entries[key] = nil
      return .failure(RecordError(.notFound, "The container \(key.container.rawValue) does not exist"))
    } catch {
      guard let entry = entries[key] else {
        return .failure(RecordError(.tryAgainLater, "The directory does not answer", retryAfter: 1))
      }
      // The client gave up, which does not show that the directory is silent.
      if error.code == .cancelled { return .success(entry.schema) }
      log.warning(
        "the directory does not answer; its last schema is used",
        ["code": .text(error.code.rawValue), "version": .integer(entry.schema.version)])
      entries[key]?.freshUntil = clock.now + Self.silence
      return .success(entry.schema)
    }
  }

  func extend(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) async throws(RecordError) {
    let key = Key(container: container, environment: .development)
    do {
      _ = try await bus.call(
        ExtendSchema(container: container, fields: fields), to: .role(.share), within: Self.deadline)
    } catch  where error.code == .refused {
      // Dropped because another caller declared a field otherwise meanwhile. The schema, read again, shows how.
    } catch  where error.code == .notFound {
      throw RecordError(.notFound, "The container \(container.rawValue) does not exist")
    } catch {
      throw RecordError(.tryAgainLater, "The directory does not answer: the schema can't be extended", retryAfter: 1)
    }
    changeCount += 1
    entries[key]?.freshUntil = 0
  }

  /// Not cached: only exports without a waiting request ask, and those are few. Without an answer the workers'
  /// own quota holds.
  func standing(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async -> UserStanding?
  {
    do {
      let message = FetchStanding(userRecordName: userRecordName, container: container, environment: environment)
      return try await bus.call(message, to: .role(.share), within: Self.deadline).standing
    } catch {
      log.warning(
        "the directory does not answer; a user's own quota is not known", ["code": .text(error.code.rawValue)])
      return nil
    }
  }

  /// Marks the schemas that a change names as stale.
  func invalidate(_ change: DirectoryChanged) {
    changeCount += 1
    let stale = Set(change.schemas)
    for key in entries.keys where stale.contains(key.text) { entries[key]?.freshUntil = 0 }
  }
}
