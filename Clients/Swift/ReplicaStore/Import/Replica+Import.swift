// Pages of imports and resets, each in one commit with its token, history and event (K10).

package import FoundationEssentials
package import MirrorWire

extension Replica {
  @discardableResult package func apply(_ page: ImportPage, event: UUID?) async throws(StoreError) -> AppliedPage {
    let (applied, former) = try await writeBehindZones { [path] writer, outcome in
      var position = writer.position
      if page.reset != nil, position.resetReason == nil { position.beginReset(page.reset?.reason ?? "") }
      position.openConflictCount = page.openConflictCount
      let applied =
        try position.resetReason == nil
        ? writer.apply(page, &position, &outcome) : writer.applyReset(page, &position, &outcome, path: path)
      if let event {
        try EventLog(writer.connection).count(event, saved: applied.savedCount, deleted: applied.deletedCount)
      }
      outcome.position = position
      outcome.isImport = true
      return applied
    }
    guard applied.endedZones.contains(where: { $0.action == .reupload }) else { return applied.sendingAgain(former) }
    do {
      let again = try await sendZonesAgain()
      return applied.sendingAgain(former).sendingAgain(again)
    } catch {
      // Dropped because the page is in the file: the export that comes next goes on, or says what is wrong.
      return applied.sendingAgain(ZoneReupload.Result(isEmpty: false, errors: former.errors))
    }
  }

  /// Puts the objects of ended zones into the outbox, some in each commit, so that the app's saves go on beside.
  /// If the process ends, the next import or export goes on with it.
  func sendZonesAgain() async throws(StoreError) -> ZoneReupload.Result { try await writeBehindZones { _, _ in }.again }

  /// Runs `body` in a commit in which no object of an ended zone is left that is not in the outbox.
  func writeBehindZones<Value: Sendable>(
    _ body: @escaping @Sendable (Writer, inout Writer.Outcome) throws -> Value
  ) async throws(StoreError) -> (value: Value, again: ZoneReupload.Result) {
    var again = ZoneReupload.Result()
    while true {
      let step: ZoneStep<Value> = try await write { writer, outcome in
        guard let slice = try ZoneReupload.nextSlice(writer, &outcome) else { return .done(try body(writer, &outcome)) }
        outcome.isImport = true
        return .slice(slice)
      }
      switch step {
      case .slice(let slice): again.add(slice)
      case .done(let value): return (value, again)
      }
    }
  }

  package func beginReset(reason: String) async throws(StoreError) {
    try await write { writer, outcome in
      var position = writer.position
      position.beginReset(reason)
      writer.dropShadow()
      outcome.position = position
    }
  }

  package func abandonReset() async throws(StoreError) {
    try await write { writer, outcome in
      var position = writer.position
      guard position.resetReason != nil else { return }
      position.resetReason = nil
      position.failedResetCount += 1
      position.importToken = position.tokenBeforeReset
      position.tokenBeforeReset = nil
      writer.dropShadow()
      outcome.position = position
    }
  }

  package func objectsToReread(limit: Int) async throws(StoreError) -> [AnyObjectID] {
    if try await figures().objectsToReread == 0 { return [] }
    return try await writeKnowingNames { writer, _, _ in try RereadList(writer.snapshot).objects(limit) }
  }

  package func reread(_ object: AnyObjectID, as answer: ObjectAnswer?) async throws(StoreError) {
    try await writeKnowingNames { writer, outcome, waiting in
      // A save of it came while the server answered. It is asked for again once that save is sent.
      if try waiting.namesObject(object.recordName) { return }
      let history = HistoryWriter(writer.connection, number: writer.lastNumber + 1)
      let application = try PageApplication(writer.snapshot, writer.tables, history, writer.contents, now: writer.now)
      if let answer {
        try application.apply(answer)
      } else if try !application.isSentAgain(object.recordName) {
        // One that the server does not have yet is known to be sent again.
        try application.delete(object.recordName)
      }
      let list = RereadList(writer.snapshot)
      if try list.hasUndone() { try application.showKept(object.recordName) }
      try list.remove(object)
      try writer.finish(history, author: MirroringAuthor.importing, application, &outcome)
      outcome.isImport = true
    }
  }

  /// Runs `body` in a commit that knows each object that the outbox names.
  private func writeKnowingNames<Value: Sendable>(
    _ body: @escaping @Sendable (Writer, inout Writer.Outcome, WaitingSaves) throws -> Value
  ) async throws(StoreError) -> Value {
    while true {
      let step = try await writeBehindZones { writer, outcome -> Value? in
        let waiting = try WaitingSaves(writer.connection)
        return try waiting.readNext() ? nil : body(writer, &outcome, waiting)
      }
      if let value = step.value { return value }
    }
  }
}

/// The outcome of one commit.
private enum ZoneStep<Value: Sendable>: Sendable {
  case slice(ZoneReupload.Result)
  case done(Value)
}

extension MirrorPosition {
  mutating func beginReset(_ reason: String) {
    if resetReason == nil { tokenBeforeReset = importToken }
    resetReason = reason
    importToken = nil
  }

  /// The page that tells of a changed share does so once, and its token does not wait for the share.
  package mutating func noteShares(of zones: [ZoneID]) {
    for zone in zones where staleShares?.contains(zone) != true { staleShares = (staleShares ?? []) + [zone] }
  }
}

extension Writer {
  fileprivate func apply(_ page: ImportPage, _ position: inout MirrorPosition, _ outcome: inout Outcome) throws
    -> AppliedPage
  {
    let history = HistoryWriter(connection, number: lastNumber + 1)
    let application = try PageApplication(snapshot, tables, history, contents, now: now)
    for change in page.changes {
      try application.apply(change)
      if case .zone(let ended) = change, isSentAgain(ended) {
        try ZoneReupload.begin(application.zone(ended.zoneID), connection)
      }
    }
    try finish(history, author: MirroringAuthor.importing, application, &outcome)
    position.importToken = page.importToken
    position.noteShares(of: application.changedShares)
    if page.isInitialImportDone { position.isInitialImportDone = true }
    return application.applied(page, ZoneReupload.Result(), didSwap: false)
  }

  /// A guest can't make another's zone again.
  private func isSentAgain(_ ended: EndedZone) -> Bool { ended.action == .reupload && !configuration.isShared }

  fileprivate func applyReset(
    _ page: ImportPage, _ position: inout MirrorPosition, _ outcome: inout Outcome, path: String
  ) throws -> AppliedPage {
    let shadow = try shadow(path)
    let told = try shadow.apply(
      { application in for change in page.changes { try application.apply(change) } }, now: now)
    position.importToken = page.importToken
    position.noteShares(of: told.changedShares)
    let history = HistoryWriter(connection, number: lastNumber + 1)
    let application = try PageApplication(snapshot, tables, history, contents, now: now)
    var reupload = ZoneReupload(self, application, importToken: page.importToken)
    // In this commit, because the second file's swap looks at what is sent again.
    for ended in told.endedZones {
      try application.noteEnd(ended)
      if ended.action == .delete { try application.dropSentAgain(of: ended.zoneID) }
      if isSentAgain(ended) { try reupload.insertObjects(of: ended.zoneID) }
    }
    let again = reupload.result
    outcome.hasExports = !again.isEmpty
    let isDone = page.reset?.done ?? page.caughtUp
    if isDone { try shadow.swap(into: application) }
    try finish(history, author: MirroringAuthor.reset, application, &outcome)
    guard isDone else { return told.applied(page, again, didSwap: false) }
    // No page tells of a share that is gone.
    position.noteShares(of: try application.zonesWithShares())
    position.resetReason = nil
    position.tokenBeforeReset = nil
    position.isTokenRefused = nil
    position.failedResetCount = 0
    if page.isInitialImportDone { position.isInitialImportDone = true }
    outcome.endsReset = true
    return AppliedPage(
      importToken: page.importToken, savedCount: application.savedCount, deletedCount: application.deletedCount,
      endedZones: told.endedZones, didSwap: true, sendsAgain: !again.isEmpty, errors: again.errors)
  }

  func finish(_ history: HistoryWriter, author: String, _ application: PageApplication, _ outcome: inout Outcome) throws
  {
    outcome.entityNames = application.entityNames
    guard !history.isEmpty else { return }
    try history.finish(
      timestamp: now, author: author, contextName: nil, bundleID: configuration.bundleID,
      processID: configuration.processID, tables)
    outcome.number = history.number
  }
}

extension AppliedPage {
  /// Adds the objects that later commits sent again.
  fileprivate func sendingAgain(_ again: ZoneReupload.Result) -> AppliedPage {
    AppliedPage(
      importToken: importToken, savedCount: savedCount, deletedCount: deletedCount, endedZones: endedZones,
      didSwap: didSwap, sendsAgain: sendsAgain || !again.isEmpty, errors: errors + again.errors)
  }
}

extension PageApplication {
  fileprivate func applied(_ page: ImportPage, _ again: ZoneReupload.Result, didSwap: Bool) -> AppliedPage {
    AppliedPage(
      importToken: page.importToken, savedCount: savedCount, deletedCount: deletedCount, endedZones: endedZones,
      didSwap: didSwap, sendsAgain: !again.isEmpty, errors: again.errors)
  }

  /// One object as the server has it, with all its pairs.
  fileprivate func apply(_ answer: ObjectAnswer) throws {
    var relationships: [String: String?] = [:]
    for (name, value) in answer.relationships {
      if case .toOne(let target) = value { relationships.updateValue(target, forKey: name) }
    }
    try apply(
      .save(
        ImportedObject(
          entity: answer.entity, objectID: answer.objectID, zoneID: answer.zoneID, attributes: answer.attributes,
          relationships: relationships,
          recordChangeTag: "")))
    guard let entity = schema.entities[answer.entity] else { return }
    let key = try tables.key(of: answer.objectID, entity)
    for (name, value) in answer.relationships.sorted(by: { $0.key < $1.key }) {
      guard case .toMany(let targets) = value, let relationship = entity.toMany[name],
        case .link(let link, let isFirst) = relationship.storage,
        let destination = schema.entities[relationship.destination]
      else { continue }
      let wanted = try Set(targets.map { try tables.key(of: $0, destination) })
      let current = try Set(tables.members(of: relationship, entity, key, destination))
      for (keys, isLinked) in [(wanted.subtracting(current), true), (current.subtracting(wanted), false)] {
        for other in keys.sorted() {
          let isOrdered = link.isSymmetric ? key <= other : isFirst
          try setPair(Pair(link: link, a: isOrdered ? key : other, b: isOrdered ? other : key), isLinked: isLinked)
        }
      }
    }
  }
}
