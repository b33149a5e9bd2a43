// A shared store's status, reset, removal and quarantine: joins the home's state with the guests'.

import JSON
import Mirroring
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension SharedCall {
  /// The status of any store, plus its guests' pending work; `unreachedOwners` names the owners without an answer. A
  /// barrier is an import token, or the sync token of a save's answer.
  func status() async throws(RecordError) -> PlaneAnswer {
    let waits = try call.integer("wait", default: 0, minimum: 0, maximum: 60) > 0
    let barrier = try barrier()
    if waits, barrier == nil { throw RecordError(.badRequest, "wait needs caughtUp: a token to wait for") }
    let home = try await home()
    if waits { call.watch(home.mirror) }
    var status = try await withoutBarrier.storeStatus()
    let owners = try await home.owners().filter(\.isActive).map(\.name)
    let guests = await askAll(owners) { owner throws(RecordError) in
      try await home.ask(owner, .status, query: barrier?[owner].map { ["caughtUp": $0.text] } ?? [:]).decoded(
        as: GuestStatus.self)
    }
    // Changes that wait at home for an owner count as pending too.
    var isCaughtUp = status.pending.quarantined == 0 && (barrier != nil || status.caughtUp)
    var unreached: [String] = []
    for (owner, guest) in guests {
      switch guest {
      case .success(let guest):
        status.pending.downloads += guest.downloads
        status.pending.quarantined += guest.quarantined
        status.pending.notImported += guest.notImported
        if guest.quarantined > 0, status.activity == .nothingPending { status.activity = .quarantined }
        if !guest.isCaughtUp, barrier == nil || barrier?[owner] != nil { isCaughtUp = false }
      // Dropped because an owner who knows nothing of the user has no pending work.
      case .failure(let error) where error.isAbsence: break
      case .failure:
        unreached.append(owner)
        isCaughtUp = false
      }
    }
    status.caughtUp = isCaughtUp
    status.unreachedOwners = unreached
    return PlaneAnswer(mayWait: waits && !isCaughtUp, body: status.json)
  }

  private func barrier() throws(RecordError) -> SharedImportToken? {
    guard let text = call.request.query["caughtUp"], !text.isEmpty else { return nil }
    do {
      return try SharedImportToken(text)
    } catch {
      throw error.recordError
    }
  }

  /// The call without its query, for the home alone.
  private var withoutBarrier: StoreCall {
    StoreCall(
      request: call.request.asking([:]), body: call.body, storeIdentifier: call.storeIdentifier, user: call.user,
      store: call.store, plane: call.plane)
  }

  // MARK: Ends

  /// Resets the guests before the home: a client that asks in between goes on with its copy.
  func reset(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let mirror = try await call.locate()
    let home = home(of: mirror)
    try await settle(home)
    for (_, answer) in await askAll(
      try await home.owners().filter(\.isActive).map(\.name),
      { owner throws(RecordError) in
        try await home.ask(owner, StoreRoute.reset, body: call.body, requestID: call.request.requestID).check()
      })
    {
      if case .failure(let error) = answer, !error.isAbsence { throw error }
    }
    return try await call.reset(startNext: startNext)
  }

  /// Removes the store and its guests, once owners have its saves and the journal has the held-back changes.
  func forget(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let mirror = try await call.locate()
    let home = home(of: mirror)
    try await settle(home)
    for owner in try await home.owners().map(\.name) {
      guard await dismiss(owner, home) else {
        throw RecordError(.tryAgainLater, "An owner's database does not answer", retryAfter: 1)
      }
    }
    try await call.shortenHistory()
    let commit = call.store.enqueue { transaction in try transaction.deleteMirror(try call.mirror(in: transaction).key)
    }
    startNext()
    try await call.value(of: commit)
    await call.imports.forget(call.held(mirror))
    return PlaneAnswer(body: StoreAnswer.empty)
  }

  /// - Throws: `TRY_AGAIN_LATER` while an owner does not take the store's saves.
  private func settle(_ home: SharedHome) async throws(RecordError) {
    guard try await forwardEverything(home).isEmpty else {
      throw RecordError(.tryAgainLater, "The store's changes can't be exported yet", retryAfter: 1)
    }
  }

  // MARK: What guests hold back

  func listQuarantine() async throws(RecordError) -> PlaneAnswer {
    let home = try await home()
    var query = call.request.query
    // Pages of several owners share no position: `after` is dropped, as one answer nearly always holds all rows.
    query["after"] = nil
    let asked = query
    let answers = await askAll(try await home.owners().filter(\.isActive).map(\.name)) { owner throws(RecordError) in
      try await home.ask(owner, .listQuarantine, query: asked).decoded(as: AnswerParts.self)
    }
    let waiting =
      asked["direction"] == "import"
      ? [] : try await call.read { snapshot in try WaitingParts.objects(of: home.mirror, in: snapshot) }
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("quarantined")
    writer.beginArray()
    for object in waiting {
      writer.beginObject()
      object.writeMembers(to: &writer)
      writer.endObject()
    }
    var moreComing = false
    var unreached: [String] = []
    for (owner, answer) in answers {
      guard case .success(let page) = answer else {
        if case .failure(let error) = answer, !error.isAbsence { unreached.append(owner) }
        continue
      }
      for entry in page.parts { writer.raw(entry.json) }
      if page.moreComing { moreComing = true }
    }
    writer.endArray()
    writer.member("lastQuarantined", "0")
    writer.member("moreComing", moreComing)
    writer.key("unreachedOwners")
    writer.beginArray()
    for owner in unreached { writer.string(owner) }
    writer.endArray()
    writer.endObject()
    return PlaneAnswer(body: writer.bytes)
  }

  func retryQuarantine() async throws(RecordError) -> PlaneAnswer {
    let home = try await home()
    var count = 0
    let answers = await askAll(try await home.owners().filter(\.isActive).map(\.name)) { owner throws(RecordError) in
      try await home.ask(owner, StoreRoute.retryQuarantine, body: call.body).decoded(as: RetriedCount.self).retried
    }
    for (_, answer) in answers {
      switch answer {
      case .success(let retried): count += retried
      // Dropped because an owner who knows nothing of the user holds nothing back.
      case .failure(let error) where error.isAbsence: break
      case .failure(let error): throw error
      }
    }
    return PlaneAnswer(body: StoreAnswer.retried(count))
  }
}
