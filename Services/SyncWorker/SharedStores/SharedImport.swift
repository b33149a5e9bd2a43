// The import of a shared store: joins the pages of its guests into one, owner after owner by name.

import History
import JSON
import Mirroring
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

/// Collects owners' pages into one answer.
private struct SharedPage {
  var token: SharedImportToken
  /// As JSON, divided by commas.
  private var changes: [[UInt8]] = []
  private(set) var count = 0
  private(set) var problems: [MirroringProblem] = []
  var moreComing = false
  var isReset = true
  private(set) var deletedCount = 0
  private var (done, total) = (Int64(0), Int64(0))

  init(_ token: SharedImportToken) { self.token = token }

  var savedCount: Int { count - deletedCount }

  /// - Throws: an error when the page has an unreadable import token.
  mutating func add(_ page: GuestPage, of owner: String) throws(RecordError) {
    do {
      token[owner] = try SyncToken(page.importToken, as: .importBatch)
    } catch {
      throw error.recordError
    }
    if page.changeCount > 0 { changes.append(page.changes) }
    count += page.changeCount
    deletedCount += page.deletedCount
    problems += page.quarantined.map(\.problem)
    if page.moreComing { moreComing = true }
    if !page.isResetDone { isReset = false }
    done += page.done
    total += page.total
  }

  /// Adds the losses that the home tells by itself.
  mutating func add(_ losses: SharedLosses, of user: String) {
    changes += losses.gone.map(\.json)
    count += losses.gone.count
    deletedCount += losses.gone.count
    token[user] = losses.position
    if losses.moreComing { moreComing = true }
  }

  /// - Parameter isComplete: the page covers every owner.
  func json(isComplete: Bool, isInitialImportDone: Bool, reset: ResetReason?) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: changes.reduce(1024) { $0 + $1.count })
    writer.beginObject()
    writer.key("changes")
    writer.beginArray()
    for run in changes { writer.raw(run) }
    writer.endArray()
    if !problems.isEmpty {
      writer.key("quarantined")
      writer.problems(problems)
    }
    writer.member("importToken", token.text)
    writer.member("moreComing", moreComing)
    writer.member("caughtUp", isComplete && !moreComing)
    writer.key("progress")
    writer.beginObject()
    writer.member("done", done)
    writer.member("total", total)
    writer.endObject()
    writer.key("initialImport")
    writer.beginObject()
    writer.member("done", isInitialImportDone)
    writer.endObject()
    if let reset {
      writer.key("reset")
      writer.beginObject()
      writer.member("reason", reset.name)
      writer.member("done", isReset && isComplete && !moreComing)
      writer.endObject()
    }
    writer.endObject()
    return writer.bytes
  }
}

extension SharedCall {
  /// The number of owners asked at once: their pages must fit into one answer.
  private static let groupCount = 4
  private static let changesLimit = 1000

  func fetchChanges() async throws(RecordError) -> PlaneAnswer {
    let presented = try importToken()
    let limit = try call.integer("limit", default: Limit.recordsPerResponse, maximum: Self.changesLimit)
    let waits = try call.integer("wait", default: 0, minimum: 0, maximum: 60) > 0
    let started = call.now
    let mirror = try await call.locate()
    _ = try await call.model(of: mirror)
    // Owners must have the store's own saves before the client sees their records, or it would see older ones.
    let home = home(of: mirror)
    let behind = try await forwardEverything(home)
    let owners = try await importedOwners(home, presented)
    var page = SharedPage(presented ?? SharedImportToken())
    page.token.makeRoom(for: owners.map(\.name) + [home.user])
    // Losses come before the owners' changes: an object that was made again must follow its deletion.
    let losses = try await home.losses(after: presented?[home.user], limit: limit, in: call.store)
    page.add(losses, of: home.user)
    var unreached = behind.intersection(owners.map(\.name))
    var ended: [SharedOwner] = []
    var rest = owners.filter { !behind.contains($0.name) }[...]
    while !rest.isEmpty, page.count < limit, !page.moreComing {
      let group = Array(rest.prefix(Self.groupCount))
      rest = rest.dropFirst(Self.groupCount)
      let share = max((limit - page.count) / group.count, 1)
      let token = page.token
      let answers = await askAll(group.map(\.name)) { owner throws(RecordError) in
        var query = ["limit": String(share)]
        if let after = token[owner] { query["after"] = after.text }
        query["assets"] = call.request.query["assets"]
        let page = try await home.ask(owner, .fetchChanges, query: query).decoded(as: GuestPage.self)
        // Dropped because the guest keeps it until the next import.
        if page.hasKept { try? await home.collect(from: owner, into: call.store) }
        return page
      }
      for (owner, answer) in zip(group, answers.map(\.result)) {
        switch answer {
        case .success(let part):
          let before = page.count
          try page.add(part, of: owner.name)
          if !owner.isActive, page.count == before, !part.moreComing { ended.append(owner) }
        // Dropped because the owner has nothing for this user any more.
        case .failure(let error) where error.isAbsence: page.token.finish(owner)
        // The token is not of the owner's database as it is now, so the client's whole copy is in doubt.
        case .failure(let error) where error.code == .badRequest: throw error
        case .failure: unreached.insert(owner.name)
        }
      }
    }
    if !rest.isEmpty { page.moreComing = true }
    if !owners.isEmpty, unreached.count >= owners.count {
      throw RecordError(.tryAgainLater, "No owner who shares with the user can be reached", retryAfter: 1)
    }
    // The client has been told of these owners' end.
    for owner in ended where presented?[owner.name] != nil && page.count == 0 {
      if await dismiss(owner.name, home) { page.token.finish(owner) }
    }
    // Wakes the callers that wait until the store has everything.
    if let presented, await call.imports.confirm(presented.progress, of: call.held(mirror), stored: 0) {
      call.context.noticed(call.id(of: mirror))
    }
    let isComplete = unreached.isEmpty && losses.isComplete
    let (isFirstDone, reset) = try await note(
      page, after: presented, of: mirror, isComplete: isComplete, started: started)
    let mayWait = waits && page.count == 0 && !page.moreComing && isComplete
    return PlaneAnswer(
      mayWait: mayWait, body: page.json(isComplete: isComplete, isInitialImportDone: isFirstDone, reset: reset))
  }

  private func importToken() throws(RecordError) -> SharedImportToken? {
    guard let text = call.request.query["after"], !text.isEmpty else { return nil }
    do {
      return try SharedImportToken(text)
    } catch {
      throw error.recordError
    }
  }

  /// Active owners, after former ones: the client may not know of their end, even if its token lacks them.
  private func importedOwners(_ home: SharedHome, _ token: SharedImportToken?) async throws(RecordError)
    -> [SharedOwner]
  {
    let all = try await home.owners()
    // Beyond the limit no token could remember for long which owners are finished.
    let isAsking = token == nil || all.count <= SharedImportToken.ownerLimit
    let owners = all.filter { owner in
      if owner.isActive || token?[owner.name] != nil { return true }
      return isAsking && token?.isFinished(owner) != true
    }
    if owners.count > SharedImportToken.ownerLimit {
      call.context.log.warning(
        "a shared store has more owners than its token has room for",
        ["store": .text(call.storeIdentifier), "owners": .integer(Int64(owners.count))])
    }
    let (active, former) = (owners.filter(\.isActive), owners.filter { !$0.isActive })
    return Array(former.prefix(max(SharedImportToken.ownerLimit - active.count, 0)))
      + active.prefix(SharedImportToken.ownerLimit)
  }

  /// Records a page's effect on the store: its event, the completed first import and the completed reset.
  /// - Returns: whether the first import is complete, and the reason of a reset under way.
  private func note(
    _ page: SharedPage, after presented: SharedImportToken?, of mirror: StoredMirror, isComplete: Bool, started: Int64
  ) async throws(RecordError) -> (isFirstDone: Bool, reset: ResetReason?) {
    let state = try await call.read { snapshot in try snapshot.syncState(of: mirror.key) }
    var imported = ImportedPage()
    imported.savedCount = page.savedCount
    imported.deletedCount = page.deletedCount
    imported.problems = page.problems
    imported.moreComing = page.moreComing
    imported.sequence = page.token.progress
    imported.completesFirstImport = state.firstImportAt == nil && !page.moreComing && isComplete
    imported.isFirstRun = state.firstImportAt == nil
    imported.completesReset =
      state.openResetCount > 0 && presented != nil && page.isReset && !page.moreComing && isComplete
    let reset = state.openResetCount > 0 ? ResetReason(rawValue: state.resetReason) ?? .other : nil
    let id = call.id(of: mirror)
    let event = await call.imports.note(
      imported, after: presented?.progress ?? 0, of: call.held(mirror), at: started,
      identifier: call.context.random.uuid())
    let isFirstDone = state.firstImportAt != nil || imported.completesFirstImport
    let (completesFirst, completesReset) = (imported.completesFirstImport, imported.completesReset)
    guard event != nil || completesFirst || completesReset else { return (isFirstDone, reset) }
    let at = call.now
    let number = try await call.value(
      of: call.store.enqueue { transaction -> Int64 in
        guard let current = try transaction.mirror(key: mirror.key), current.incarnation == mirror.incarnation else {
          return 0
        }
        var state = try transaction.syncState(of: mirror.key)
        if completesFirst, state.firstImportAt == nil { state.firstImportAt = at }
        if completesReset { state.openResetCount = 0 }
        try transaction.put(state, of: mirror.key)
        return try event.map { try transaction.put($0, of: mirror.key) } ?? 0
      })
    if let event, event.endedAt == nil { await call.imports.stored(number, of: call.held(mirror)) }
    if event != nil { call.context.noticed(id) }
    return (isFirstDone, reset)
  }

  // MARK: Guests that are no more

  /// Removes the store's guest at an owner who shares nothing any more; changes that its exports hold back are
  /// journaled.
  /// - Returns: true when the guest is gone.
  func dismiss(_ owner: String, _ home: SharedHome) async -> Bool {
    do throws(RecordError) {
      // A transaction that is sent again after a failed commit would meet a guest that has forgotten it.
      let isSettled = try await call.read { snapshot in
        try snapshot.mirror(key: home.mirror.key).map {
          $0.exportedTransactionNumber == $0.lastTransactionNumber && $0.quarantinedCount == 0
        } ?? false
      }
      guard isSettled else { return false }
      try await home.collect(from: owner, all: true, into: call.store)
      try await home.ask(owner, StoreRoute.forget).check()
      return true
    } catch {
      // Dropped because the next import that finds nothing tries again; an absent guest is gone.
      return error.isAbsence
    }
  }
}
