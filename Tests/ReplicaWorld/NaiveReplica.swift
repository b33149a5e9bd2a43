// A replica in dictionaries: it keeps the rules of a replica as simply as it can, and breaks one of them on purpose.

package import FoundationEssentials
package import MirrorWire
package import ReplicaStore
import Synchronization

package final class NaiveReplica: MirroredStore {
  package let broken: Rule?
  private let state: Mutex<NaiveFile>
  /// What the next process finds: without saves that nothing has followed, if that rule is broken.
  private let durable: Mutex<NaiveFile>
  private let listeners = Mutex<[AsyncStream<Commit>.Continuation]>([])
  /// Commits until the replica dies as a killed process does; nil: it lives.
  private let life = Mutex<Int?>(nil)

  package init(_ file: NaiveFile, broken: Rule? = nil) {
    state = Mutex(file)
    durable = Mutex(file)
    self.broken = broken
  }

  var file: NaiveFile { state.withLock { $0 } }
  var graph: NaiveGraph { state.withLock { $0.graph } }

  /// Dies before the commit that comes after so many others.
  func die(after commits: Int) { life.withLock { $0 = commits } }
  var isDead: Bool { life.withLock { $0 == -1 } }

  /// - Returns: the replica of another process, after this one ended without a word.
  func afterDeath() -> NaiveReplica { NaiveReplica(durable.withLock { $0 }, broken: broken) }

  private func commit<Value>(isDurable: Bool = true, _ body: (inout NaiveFile) throws -> Value) throws(StoreError)
    -> Value
  {
    let lives = life.withLock { life -> Bool in
      guard let left = life else { return true }
      life = left > 0 ? left - 1 : -1
      return left > 0
    }
    guard lives else { throw .closed }
    do {
      return try state.withLock { file in
        var copy = file
        let value = try body(&copy)
        file = copy
        if isDurable { durable.withLock { $0 = copy } }
        return value
      }
    } catch let error as StoreError {
      throw error
    } catch {
      throw .damaged("\(error)")
    }
  }

  private func tell(_ commit: Commit) { listeners.withLock { for listener in $0 { listener.yield(commit) } } }

  // MARK: Edits

  /// Saves edits as one transaction, as an app does.
  package func save(_ edit: @escaping @Sendable (inout any JournalEdit) -> Void) async throws {
    let number = try commit(isDurable: broken != .commitsSaves) { file in
      var changes = NaiveEdit(file.graph, writesPartners: broken != .writesPartners)
      var edits: any JournalEdit = changes
      edit(&edits)
      guard let edited = edits as? NaiveEdit else { return file.lastNumber }
      changes = edited
      if changes.changes.isEmpty { return file.lastNumber }
      file.lastNumber += 1
      file.graph = changes.graph
      let identifier = "\(file.position.storeIdentifier)-\(file.lastNumber)"
      let transaction = Transaction(
        transactionID: identifier, timestamp: WireDate.text(Date.now), author: "app",
        importToken: file.position.importToken, changes: changes.changes)
      file.outbox.append((file.lastNumber, transaction))
      for property in changes.touched { file.pending[property] = file.lastNumber }
      for change in changes.changes where change.changeType != .update {
        // An earlier object of that name stays deleted, and what imports tell of it is not the new one's.
        if change.changeType == .delete { file.deleted[change.objectID] = file.lastNumber }
        file.inserted[change.objectID] = change.changeType == .insert ? file.lastNumber : nil
      }
      return file.lastNumber
    }
    tell(Commit(transactionNumber: number, isImport: false, hasExports: true, entityNames: []))
  }

  // MARK: Positions

  package func position() async throws(StoreError) -> MirrorPosition { file.position }
  package func updatePosition(_ change: @escaping @Sendable (inout MirrorPosition) -> Void) async throws(StoreError) {
    try commit { change(&$0.position) }
  }
  package func commits() -> AsyncStream<Commit> {
    let (stream, continuation) = AsyncStream<Commit>.makeStream()
    listeners.withLock { $0.append(continuation) }
    return stream
  }
  package func figures() async throws(StoreError) -> MirrorFigures {
    let file = file
    return MirrorFigures(
      pendingTransactions: file.outbox.count, pendingObjects: Set(file.pending.keys.map(\.object)).count,
      rejectedCount: file.rejected.count, objectsToReread: file.toReread.count)
  }

  // MARK: Export

  package func nextBatch(transactionLimit: Int, byteLimit: Int) async throws(StoreError) -> ExportBatch? {
    try commit { file in
      if broken == .sendsAgain, let sent = file.sent {
        // Gives up on what was sent, as if it had arrived.
        file.outbox.removeAll { sent.contains($0.number) }
        file.settle()
        file.sent = nil
      }
      let isRepeated = file.sent != nil
      guard let first = file.outbox.first?.number else { return nil }
      let rows = file.sent ?? first...(file.outbox.prefix(transactionLimit).last?.number ?? first)
      file.sent = rows
      let transactions = try file.outbox.filter { rows.contains($0.number) }.map { try $0.transaction.json() }
      return ExportBatch(
        rows: rows, transactions: transactions, checksums: [], isRepeated: isRepeated, receipts: [:],
        savedCount: 0, deletedCount: 0)
    }
  }

  package func acknowledge(_ batch: ExportBatch, historyToken: String) async throws(StoreError) {
    try commit { file in
      file.exported += file.outbox.filter { batch.rows.contains($0.number) }
      file.outbox.removeAll { batch.rows.contains($0.number) }
      file.settle()
      file.sent = nil
      file.position.serverHistoryToken = historyToken
      file.applyLatePage(broken)
    }
  }

  package func sendAgain() async throws(StoreError) {
    try commit { file in
      file.outbox = file.exported + file.outbox
      for place in file.outbox.indices { file.outbox[place].transaction.importToken = nil }
      file.exported = []
      file.sent = nil
    }
  }

  package func refuse(_ batch: ExportBatch, at index: Int?, error: ServerError) async throws(StoreError) -> [Rejected] {
    try commit { file in
      let rows = file.outbox.filter { batch.rows.contains($0.number) }
      guard let refused = rows.count == 1 ? rows.first : index.flatMap({ rows.indices.contains($0) ? rows[$0] : nil })
      else {
        file.sent = batch.rows.lowerBound...rows[rows.count / 2 - 1].number
        return []
      }
      let objects = refused.transaction.changes.map { AnyObjectID(entityName: $0.entity, recordName: $0.objectID) }
      let rejected = Rejected(
        identifier: refused.transaction.transactionID, transactionNumber: refused.number,
        author: refused.transaction.author, objects: objects, error: error, isConsequence: false, date: Date.now)
      file.outbox.removeAll { $0.number == refused.number }
      file.sent = nil
      file.settle()
      file.rejected.append(rejected)
      file.undecided.insert(rejected.identifier)
      file.toReread += objects
      return [rejected]
    }
  }

  package func rejected() async throws(StoreError) -> [Rejected] { file.rejected }
  package func undecided() async throws(StoreError) -> [Rejected] {
    let file = file
    return file.rejected.filter { file.undecided.contains($0.identifier) }
  }
  package func revert(_ identifier: String) async throws(StoreError) {
    try commit { _ = $0.undecided.remove(identifier) }
  }
  package func keep(_ identifier: String) async throws(StoreError) {
    throw .invalid("a naive replica keeps no refused save")
  }
  package func retry(_ identifier: String) async throws(StoreError) { throw .invalid("a naive replica does not retry") }
  package func discard(_ identifier: String) async throws(StoreError) {
    try commit { $0.rejected.removeAll { $0.identifier == identifier } }
  }
  package func adopt(_ winners: [AnyObjectID: String], for identifiers: [String]) async throws(StoreError) {
    throw .invalid("a naive replica does not adopt")
  }

  // MARK: Import

  package func apply(_ page: ImportPage, event: UUID?) async throws(StoreError) -> AppliedPage {
    // The rule is broken by a token that is kept although the process dies before the page.
    if broken == .commitsTokens, life.withLock({ $0 == 0 }) {
      state.withLock { $0.position.importToken = page.importToken }
      durable.withLock { $0.position.importToken = page.importToken }
    }
    let applied = try commit { file in
      guard broken == .appliesPages else { return file.apply(page, broken: broken) }
      file.applyLatePage(broken)
      file.latePage = page
      file.position.importToken = page.importToken
      return AppliedPage(
        importToken: page.importToken, savedCount: 0, deletedCount: 0, endedZones: [], didSwap: false)
    }
    // Told by the commit too, because a request that follows the page may fail.
    tell(Commit(transactionNumber: file.lastNumber, isImport: true, hasExports: applied.sendsAgain, entityNames: []))
    return applied
  }

  package func beginReset(reason: String) async throws(StoreError) {
    try commit { file in
      file.position.resetReason = reason
      file.position.importToken = nil
      file.shadow = NaiveGraph()
    }
  }
  package func abandonReset() async throws(StoreError) {
    try commit { file in
      file.position.resetReason = nil
      file.position.failedResetCount += 1
      file.shadow = nil
    }
  }
  package func objectsToReread(limit: Int) async throws(StoreError) -> [AnyObjectID] {
    let file = file
    let free = file.toReread.filter { object in !file.outbox.contains { $0.transaction.names(object.recordName) } }
    return Array(free.prefix(limit))
  }
  package func reread(_ object: AnyObjectID, as answer: ObjectAnswer?) async throws(StoreError) {
    try commit { file in
      // The answer is older than a save that waits. It is asked for again.
      if file.outbox.contains(where: { $0.transaction.names(object.recordName) }) { return }
      file.toReread.removeAll { $0 == object }
      file.reread(object, answer)
    }
  }

  // MARK: Events, zones, contents

  package func record(_ event: MirrorEvent) async throws(StoreError) {
    try commit { file in
      file.events.removeAll { $0.identifier == event.identifier }
      file.events.append(event)
    }
  }
  package func mirrorEvents(
    after date: Date?, afterEvent: UUID?, type: MirrorEvent.Kind?
  ) async throws(StoreError) -> [MirrorEvent] { file.events.filter { type == nil || $0.kind == type } }

  package func zones() async throws(StoreError) -> [CachedZone] {
    file.shares.map { zone, cached in
      CachedZone(
        zoneID: zone, share: cached.share, permission: cached.permission, isPaused: false, objectCount: 0,
        pendingCount: 0)
    }
  }
  package func cacheShare(_ share: Data?, permission: ZonePermission, of zoneID: ZoneID) async throws(StoreError) {
    try commit { $0.shares[zoneID] = (share, permission) }
  }
  package func cachePermissions(_ answer: PermissionsAnswer) async throws(StoreError) {}
  package func contentsToUpload(for batch: ExportBatch, validAt date: Date) async throws(StoreError) -> [Content] { [] }
  package func keepReceipt(_ receipt: AssetReference, for checksum: String, until expiry: Date) async throws(StoreError)
  {}
  package func contentsToDownload(byteLimit: Int64, limit: Int) async throws(StoreError) -> [Content] { [] }
  package func content(_ checksum: String) async throws(StoreError) -> (content: Content, owner: AnyObjectID)? { nil }
  package func holders(of checksum: String, limit: Int) async throws(StoreError) -> [AnyObjectID] { [] }
  package func keepAddress(
    _ downloadURL: String, of owner: AnyObjectID, for checksum: String, until expiry: Date
  ) async throws(StoreError) {}
  package func forgetAddress(of checksum: String) async throws(StoreError) {}
  package func partialPath(of checksum: String) -> String { "" }
  package func acceptContent(_ checksum: String) async throws(StoreError) -> Bool { false }
}

extension NaiveReplica: JournalReplica {
  package var store: any MirroredStore { self }
  package func shown() async throws -> [String] {
    var file = file
    file.applyLatePage(broken)
    return file.graph.shown
  }
  package func reopened() async throws -> any JournalReplica { afterDeath() }
  package func close() async {}
}

extension Transaction {
  /// Whether a change is of the object, or links something with it.
  fileprivate func names(_ name: String) -> Bool {
    changes.contains { change in
      if change.objectID == name { return true }
      return (change.relationships ?? [:]).values.contains {
        if case .toManyEdits(let added, let removed) = $0 { (added + removed).contains(name) } else { false }
      }
    }
  }
}
