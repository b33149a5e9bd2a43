// The object plane's calls (docs/protocol/mirror-api.md): hands each one to the module that answers it.

import ObjectModel
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import SharedStores
import ZoneActions
import ZoneCommit

/// The mirror API of the shards this worker holds.
struct MirrorAPI: ShardWork {
  let context: SharedContext
  let objects: ObjectPlane

  init(context: SharedContext) {
    self.context = context
    objects = ObjectPlane(context: context.object)
  }

  /// - Parameter startNext: called once the request has its place in the shard's writer queue.
  func respond(
    to request: DatabaseRequest, body: [UInt8], in store: any ShardStore, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer {
    switch request.route {
    case .zone(let route, let zone):
      return try await ZoneCall(request, ofZone: zone, body: body, in: store, context.object).respond(
        to: route, startNext: startNext)
    case .store(let route, let identifier, let item):
      guard let user = request.caller.userRecordName else {
        throw RecordError(.authenticationRequired, "request needs authorization")
      }
      let call = StoreCall(
        request: request, body: body, storeIdentifier: identifier, user: user, store: store, plane: objects)
      guard request.scope == .shared else { return try await call.respond(to: route, item, startNext: startNext) }
      // A call on the shared scope goes to the user's home, which asks the guests in others' databases.
      guard request.database.owner == user else { throw call.missing }
      if let answer = try await SharedCall(call: call, context: context).respond(to: route, item, startNext: startNext)
      {
        return answer
      }
      return try await call.respond(to: route, item, startNext: startNext)
    case .unknown(let route): throw route.error
    case .guest, .record: throw RecordError(.notFound, "There is no call \(request.route.label)")
    }
  }

  /// Answers a request of a shared store's home about an owner's database.
  func respond(
    toGuest message: GuestRequest, body: [UInt8], in store: any ShardStore, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer {
    let request = message.request
    guard request.scope == .shared, let user = request.caller.userRecordName, user != request.database.owner,
      !request.database.isPublic
    else {
      throw RecordError(.badRequest, "only a shared store's home sends this call")
    }
    func call(_ identifier: String) -> StoreCall {
      StoreCall(request: request, body: body, storeIdentifier: identifier, user: user, store: store, plane: objects)
    }
    switch request.route {
    case .guest(let route, let identifier):
      return try await GuestCall(call: call(identifier), store: message.store).respond(to: route, startNext: startNext)
    case .store(let route, let identifier, let item):
      let guest = GuestCall(call: call(identifier), store: message.store)
      if let answer = try await guest.respond(to: route, startNext: startNext) { return answer }
      return try await call(identifier).respond(to: route, item, startNext: startNext)
    case .record, .zone, .unknown: throw RecordError(.badRequest, "only a shared store's home sends this call")
    }
  }

  /// Exports and forwards a shard's stores until the task is cancelled.
  func run(on store: any ShardStore) async {
    await objects.run(on: store) { [context] mirrorKey, store in
      try await SharedForward(store: store, context: context, mirrorKey: mirrorKey).run().map {
        ForwardProgress(moreComing: $0.moreComing, retryAt: $0.retryAt)
      }
    }
  }
}

extension StoreCall {
  /// Answers a call on a store whose objects are in the database itself.
  /// - Parameter startNext: to be called once the request has its place in the shard's writer queue.
  fileprivate func respond(to route: StoreRoute, _ item: String, startNext: @Sendable () -> Void)
    async throws(RecordError) -> PlaneAnswer
  {
    switch route {
    case .setUp: try await setUp(startNext: startNext)
    case .forget: try await forget(startNext: startNext)
    case .reset: try await reset(startNext: startNext)
    case .saveTransactions: try await saveTransactions(startNext: startNext)
    case .fetchChanges: try await fetchChanges()
    case .fetchHistory: try await fetchHistory()
    case .purgeHistory: try await purgeHistory(startNext: startNext)
    case .fetchConsumers: try await fetchConsumers()
    case .registerConsumer: try await registerConsumer(item, startNext: startNext)
    case .removeConsumer: try await removeConsumer(item, startNext: startNext)
    case .audit: try await audit()
    case .fetchEvents: try await fetchEvents()
    case .status: try await status()
    case .fetchObject: try await object(item)
    case .explainObject: try await explain(item)
    case .fetchRecords: try await records()
    case .checkPermissions: try await permissions()
    case .listQuarantine: try await listQuarantine()
    case .retryQuarantine: try await retryQuarantine(startNext: startNext)
    case .listConflicts: try await listConflicts()
    case .restoreConflict: try await restoreConflict(item, startNext: startNext)
    case .resolveConflict: try await resolveConflict(item, startNext: startNext)
    case .fetchShares: try await fetchShares()
    case .shareObjects: try await shareObjects(startNext: startNext)
    case .acceptShares: try await refuseAccepting()
    case .moveObjects: try await move(startNext: startNext)
    case .purgeZone: try await purgeZone(startNext: startNext)
    case .resumeZone: try await resumeZone(item, startNext: startNext)
    }
  }
}
