// Leases: of two processes with the same store only one goes on (T-L05). Stores whose clients never ask for one have none. They run by a clock that
// nobody sets.

import Mirroring
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension StoreCall {
  private var steadyNow: Int64 { context.steadyClock?.now ?? now }

  /// Gives the caller the store's lease, or more time for the one he has.
  /// - Returns: the token, and until when it lasts by the wall clock of now.
  /// - Throws: `CONFLICT` with 134410 while another process has it.
  func take(
    _ lease: SetUpStoreRequest.Lease, of mirror: inout StoredMirror, _ state: inout StoredSyncState, at now: Int64
  ) throws(RecordError) -> (token: String, until: Int64) {
    if lease.token != String(mirror.lease) || mirror.lease == 0 {
      guard mirror.lease == 0 || lease.takesOver || state.leaseUntil <= steadyNow else {
        throw Self.fenced(until: state.leaseUntil, at: steadyNow)
      }
      // Never a number of before, also when the store was removed and set up again.
      mirror.lease = max(mirror.lease + 1, now)
    }
    state.leaseUntil = steadyNow + lease.seconds * 1000
    return (String(mirror.lease), now + lease.seconds * 1000)
  }

  /// Whether the call may go on. Who has the lease may, also when its time is over and nobody took it; others may when it is over.
  func checkLease(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    try checkLease(of: mirror, isFenced: request.method != "GET" || request.path.last == "changes", in: snapshot)
  }

  /// - Parameter isFenced: the call writes, or moves the store on; who only looks may.
  private func checkLease(of mirror: StoredMirror, isFenced: Bool, in snapshot: any ShardSnapshot) throws {
    guard isFenced, request.query["lease"] != String(mirror.lease) else { return }
    let until = try snapshot.syncState(of: mirror.key).leaseUntil
    if request.query["lease"] != nil || until > steadyNow { throw Self.fenced(until: until, at: steadyNow) }
  }

  /// A store that is set up without a lease is not to change the one that has one.
  func checkSetUp(_ setUp: SetUpStoreRequest, of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    if mirror.lease != 0, setUp.lease == nil { try checkLease(of: mirror, isFenced: true, in: snapshot) }
  }

  static func fenced(until: Int64, at now: Int64) -> RecordError {
    RecordError(
      .conflict, "Another process uses this store: it has the store's lease", retryAfter: until > now ? Int((until - now + 999) / 1000) : nil,
      cocoaErrorCode: .unrecoverable)
  }
}

extension StoredSyncState {
  /// What the store was told so far was by the model it has now (I8).
  mutating func changeModel(of mirror: StoredMirror) {
    modelEpoch += 1
    previousModelHash = mirror.modelHash
    previousConfiguration = mirror.configuration
  }
}
