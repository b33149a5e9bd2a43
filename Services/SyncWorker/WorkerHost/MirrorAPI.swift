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
    if request.path.first == "zones" { return try await ZoneCall(request, body: body, in: store, context.object).respond(startNext: startNext) }
    let endpoint = try Endpoint.of(request)
    guard let user = request.caller.userRecordName else { throw RecordError(.authenticationRequired, "request needs authorization") }
    let call = StoreCall(request: request, body: body, storeIdentifier: request.path[1], user: user, store: store, plane: objects)
    guard request.scope == .shared else { return try await endpoint.answer(call, startNext) }
    // A call on the shared scope goes to the user's home, which asks the guests in others' databases.
    guard request.database.owner == user else { throw call.missing }
    if let answer = try await SharedCall(call: call, context: context).respond(startNext: startNext) { return answer }
    return try await endpoint.answer(call, startNext)
  }

  /// Answers a request of a shared store's home about an owner's database.
  func respond(
    toGuest message: GuestRequest, body: [UInt8], in store: any ShardStore, startNext: @Sendable () -> Void
  ) async throws(RecordError) -> PlaneAnswer {
    let request = message.request
    guard request.scope == .shared, request.path.count >= 2, request.path[0] == "stores", let user = request.caller.userRecordName,
      user != request.database.owner, !request.database.isPublic
    else { throw RecordError(.badRequest, "only a shared store's home asks so") }
    let call = StoreCall(request: request, body: body, storeIdentifier: request.path[1], user: user, store: store, plane: objects)
    if let answer = try await GuestCall(call: call, store: message.store).respond(startNext: startNext) { return answer }
    return try await Endpoint.of(request).answer(call, startNext)
  }

  /// Exports and forwards a shard's stores until the task is cancelled.
  func run(on store: any ShardStore) async {
    await objects.run(on: store) { [context] mirrorKey, store in
      try await SharedForward(store: store, context: context, mirrorKey: mirrorKey).run().map { ForwardProgress(moreComing: $0.moreComing, retryAt: $0.retryAt) }
    }
  }
}
