// Grants leases, by which one of two processes with the same store goes on (T-L05). A store whose clients ask for none
// has none. Leases use a clock that nobody sets.

import Mirroring
package import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension StoreCall {
  private var steadyNow: Int64 { context.steadyClock.now }

  /// Gives the caller the store's lease, or extends the one they have.
  /// - Returns: the token, and the end of the lease by the present wall clock.
  /// - Throws: `CONFLICT` with 134410 while another process has it.
  func take(
    _ lease: SetUpStoreRequest.Lease, of mirror: inout StoredMirror, _ state: inout StoredSyncState, at now: Int64
  ) throws(RecordError) -> (token: String, until: Int64) {
    let tokens = [lease.token, lease.newToken.map { String($0) }]
    if mirror.lease == 0 || !tokens.contains(String(mirror.lease)) {
      guard mirror.lease == 0 || lease.takesOver || state.leaseUntil <= steadyNow else {
        throw Self.fenced(until: state.leaseUntil, at: steadyNow)
      }
      // The server's number never repeats, even after the store is removed and set up again.
      mirror.lease = lease.newToken ?? max(mirror.lease + 1, now)
    }
    state.leaseUntil = steadyNow + lease.seconds * 1000
    return (String(mirror.lease), now + lease.seconds * 1000)
  }

  /// Checks whether the call may go on. The holder may, even after the lease's end if nobody took it; a call without a
  /// token may after the end; a call with another token never may.
  func checkLease(of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    try checkLease(of: mirror, isFenced: request.route.method != "GET" || isImport, in: snapshot)
  }

  private var isImport: Bool {
    if case .store(.fetchChanges, _, _) = request.route { true } else { false }
  }

  /// - Parameter isFenced: the call writes or moves the store on; a call that only reads is free.
  private func checkLease(of mirror: StoredMirror, isFenced: Bool, in snapshot: any ShardSnapshot) throws {
    guard isFenced, request.query["lease"] != String(mirror.lease) else { return }
    let until = try snapshot.syncState(of: mirror.key).leaseUntil
    if request.query["lease"] != nil || until > steadyNow { throw Self.fenced(until: until, at: steadyNow) }
  }

  /// Refuses a setup without a lease while another process has the store's lease.
  func checkSetUp(_ setUp: SetUpStoreRequest, of mirror: StoredMirror, in snapshot: any ShardSnapshot) throws {
    if mirror.lease != 0, setUp.lease == nil { try checkLease(of: mirror, isFenced: true, in: snapshot) }
  }

  static func fenced(until: Int64, at now: Int64) -> RecordError {
    RecordError(
      .conflict, "Another process uses this store: it has the store's lease",
      retryAfter: until > now ? Int((until - now + 999) / 1000) : nil,
      cocoaErrorCode: .unrecoverable)
  }
}

extension StoredSyncState {
  /// Begins a model epoch: earlier deliveries were by the former model (I8).
  package mutating func changeModel(of mirror: StoredMirror) {
    modelEpoch += 1
    previousModelHash = mirror.modelHash
    previousConfiguration = mirror.configuration
  }
}
