// Events of mirroring: set-ups, imports and exports, with each object's own error.

public import FoundationEssentials
import MirrorWire
public import ReplicaStore

/// A set-up, import or export (`NSPersistentCloudKitContainer.Event`), told at its start and at its end.
public struct Event: Sendable, Identifiable {
  public enum Kind: Int, Sendable { case setup, `import`, export }

  public let id: UUID
  public let kind: Kind
  public let store: PersistentStore
  public let startDate: Date
  /// nil: it is under way. An event whose process ended is ended when the store opens again.
  public let endDate: Date?
  public let succeeded: Bool
  public let errors: [ObjectError]
  public let savedCount: Int
  public let deletedCount: Int

  public struct ObjectError: Sendable {
    /// nil: the error is the event's own.
    public let object: AnyObjectID?
    public let error: StoreError
  }

  init(_ event: MirrorEvent, _ store: PersistentStore) {
    id = event.identifier
    kind = Kind(rawValue: event.kind.rawValue) ?? .setup
    self.store = store
    startDate = event.startDate
    endDate = event.endDate
    succeeded = event.succeeded
    errors = event.errors.map { ObjectError(object: $0.object, error: StoreError($0.error)) }
    savedCount = event.savedCount
    deletedCount = event.deletedCount
  }
}

extension StoreError {
  init(_ error: ServerError) {
    self = .server(
      ckErrorCode: error.ckErrorCode ?? 0, cocoaErrorCode: error.cocoaErrorCode,
      reason: error.reason.isEmpty ? error.serverErrorCode : error.reason,
      requestID: error.requestID ?? "")
  }
}

extension PersistentContainer {
  /// Events as they happen, each at its start and at its end. A reader that falls 1000 events behind misses the oldest.
  public var events: AsyncStream<Event> { sync.events() }

  /// Events that the stores keep, oldest first (`NSPersistentCloudKitContainerEventRequest`).
  /// - Parameter id: an event; it and what came before it are left out.
  public func events(after date: Date? = nil, afterEvent id: UUID? = nil, type: Event.Kind? = nil)
    async throws(StoreError) -> [Event]
  {
    var events: [Event] = []
    for store in opened {
      let kind = type.flatMap { MirrorEvent.Kind(rawValue: $0.rawValue) }
      events += try await store.replica.mirrorEvents(after: date, afterEvent: id, type: kind).map {
        Event($0, store.store)
      }
    }
    return events.sorted { $0.startDate < $1.startDate }
  }
}
