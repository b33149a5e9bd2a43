// Tells of commits: to mirroring, to watched requests, to the app.

import Synchronization

/// Everybody who wants to hear of a store's commits.
final class CommitHub: Sendable {
  private struct Observer {
    let note: @Sendable (Commit) -> Void
    let finish: @Sendable () -> Void
  }

  private struct State {
    var observers: [Int: Observer] = [:]
    var next = 0
    var lastNumber: Int64 = 0
    var changeCount = 0
    var figures: (changeCount: Int, figures: MirrorFigures)?
  }

  private let state = Mutex(State())

  /// Of the latest history transaction.
  var lastNumber: Int64 { state.withLock { $0.lastNumber } }
  func begin(at number: Int64) { state.withLock { $0.lastNumber = number } }

  /// A commit changed something that figures count.
  func noteChange() { state.withLock { $0.changeCount += 1 } }

  /// The number of such commits so far, and the figures after the latest, if they are known.
  var figures: (changeCount: Int, known: MirrorFigures?) {
    state.withLock { state in
      let known = state.figures.flatMap { $0.changeCount == state.changeCount ? $0.figures : nil }
      return (state.changeCount, known)
    }
  }

  /// - Parameter changeCount: from before the figures were read.
  func keep(_ figures: MirrorFigures, changeCount: Int) {
    state.withLock { state in
      if changeCount == state.changeCount { state.figures = (changeCount, figures) }
    }
  }

  func publish(_ commit: Commit) {
    let observers = state.withLock { state in
      state.lastNumber = commit.transactionNumber
      return Array(state.observers.values)
    }
    for observer in observers { observer.note(commit) }
  }

  /// - Parameters:
  ///   - note: runs on the writer's thread after each commit, so it only takes notes.
  ///   - finish: runs when the store closes.
  func observe(_ note: @escaping @Sendable (Commit) -> Void, finish: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      state.next += 1
      state.observers[state.next] = Observer(note: note, finish: finish)
      return state.next
    }
  }

  func close() {
    let observers = state.withLock { state in
      defer { state.observers = [:] }
      return Array(state.observers.values)
    }
    for observer in observers { observer.finish() }
  }

  func remove(_ number: Int) { state.withLock { $0.observers[number] = nil } }
}

/// A note that waits to be taken; later ones merge into it.
package final class MergedNote<Note: Sendable>: Sendable {
  private let note = Mutex<Note?>(nil)
  private let merge: @Sendable (Note, Note) -> Note

  package init(_ merge: @escaping @Sendable (Note, Note) -> Note) { self.merge = merge }

  package func add(_ new: Note) { note.withLock { note in note = note.map { merge($0, new) } ?? new } }

  package func take() -> Note? {
    note.withLock { note in
      defer { note = nil }
      return note
    }
  }
}

extension CommitHub {
  /// Commits as a stream; however slow its reader, one commit waits, into which later ones merge.
  func commits() -> AsyncStream<Commit> {
    let note = MergedNote<Commit> { $0.merged(with: $1) }
    let (ticks, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let number = observe(
      { commit in
        note.add(commit)
        continuation.yield()
      }, finish: { continuation.finish() })
    continuation.onTermination = { [weak self] _ in self?.remove(number) }
    return AsyncStream(unfolding: {
      for await _ in ticks { if let commit = note.take() { return commit } }
      return nil
    })
  }
}

extension Commit {
  package func merged(with later: Commit) -> Commit {
    Commit(
      transactionNumber: later.transactionNumber, isImport: isImport || later.isImport,
      hasExports: hasExports || later.hasExports,
      entityNames: entityNames.union(later.entityNames))
  }
}
