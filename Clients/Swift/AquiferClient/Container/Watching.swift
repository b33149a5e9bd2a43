// Watched requests, and commits as they happen.

public import ReplicaStore
import Synchronization

/// A commit of a store (`NSPersistentStoreRemoteChange`), or several that happened while nobody looked.
public struct RemoteChange: Sendable {
  public let store: PersistentStore
  public let historyToken: HistoryToken
  /// One of the commits came from the server.
  public let isImport: Bool
  public let entityNames: Set<String>
}

extension PersistentContainer {
  /// What a request finds, now and whenever a save or an import changes it. Results that are equal to the last are not
  /// told; commits that happen while a result is made lead to one more.
  public func values<Object>(of request: FetchRequest<Object>) -> some AsyncSequence<[Object], any Error> & Sendable {
    let (ticks, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    continuation.yield()
    let watches = opened.filter { store in request.stores?.contains(store.store) ?? true }.map { store in
      let watched = store.replica.watched(request.query)
      let number = store.observe(
        { commit in if !commit.entityNames.isDisjoint(with: watched) { continuation.yield() } },
        finish: { continuation.finish() })
      return (store, number)
    }
    continuation.onTermination = { _ in for (store, number) in watches { store.stopObserving(number) } }
    let kept = Kept<[Object]>()
    return AsyncThrowingStream<[Object], any Error>(unfolding: { [weak self] in
      for await _ in ticks {
        guard let found = try await self?.fetch(request) else { return nil }
        if kept.replace(with: found) { return found }
      }
      return nil
    })
  }

  /// Each commit of a store, imports too, and changes of shares, which have no history. However slow the reader, one
  /// change waits, into which later ones merge.
  /// - Parameter store: nil: all.
  public func remoteChanges(of store: PersistentStore? = nil) -> some AsyncSequence<RemoteChange, Never> & Sendable {
    let (ticks, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let notes = opened.filter { store == nil || $0.store == store }.map { open in
      let note = MergedNote<Commit> { $0.merged(with: $1) }
      let number = open.observe(
        { commit in
          note.add(commit)
          continuation.yield()
        }, finish: { continuation.finish() })
      return (store: open.store, note: note, stop: { @Sendable in open.stopObserving(number) })
    }
    continuation.onTermination = { _ in for note in notes { note.stop() } }
    let waiting = MergedNote<[RemoteChange]> { $0 + $1 }
    return AsyncStream<RemoteChange>(unfolding: {
      while true {
        if var rest = waiting.take(), !rest.isEmpty {
          let next = rest.removeFirst()
          if !rest.isEmpty { waiting.add(rest) }
          return next
        }
        var iterator = ticks.makeAsyncIterator()
        guard await iterator.next() != nil else { return nil }
        waiting.add(notes.compactMap { note in note.note.take().map { RemoteChange($0, note.store) } })
      }
    })
  }
}

extension RemoteChange {
  fileprivate init(_ commit: Commit, _ store: PersistentStore) {
    self.init(
      store: store, historyToken: HistoryToken([store.identifier: commit.transactionNumber]), isImport: commit.isImport,
      entityNames: commit.entityNames)
  }
}

/// The last result of a watched request.
private final class Kept<Value: Equatable & Sendable>: Sendable {
  private let value = Mutex<Value?>(nil)

  /// - Returns: whether the value is another one.
  func replace(with new: Value) -> Bool {
    value.withLock { value in
      guard value != new else { return false }
      value = new
      return true
    }
  }
}
