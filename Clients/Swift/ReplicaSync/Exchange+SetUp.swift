// Set-ups: whose store it is, by which model, and who has its lease.

import FoundationEssentials
import MirrorWire
import ReplicaStore

extension Exchange {
  func setUp() async throws -> ExchangeResult {
    let position = try await store.position()
    let account = try await plane.userRecordName()
    // Not even the store's name is sent as somebody else.
    if let former = position.account, former != account { return try await changeAccount(from: former, to: account) }
    var request = SetUpRequest(modelHash: position.modelHash, configuration: position.configuration)
    request.deviceName = options.deviceName
    request.zonePolicy = options.zonePolicy
    request.owner = position.account.map { .user(recordName: $0) } ?? .nobody
    request.lease = options.lease
    request.leaseToken = position.leaseToken
    request.newLeaseToken = try await newLeaseToken(position)
    let (asked, answer) = (request, try await answer(to: request))
    if answer.accountChange?.cocoaErrorCode == ServerError.accountChanged { throw Self.accountChanged }
    try await store.updatePosition { position in
      position.setUpModelHash = asked.modelHash
      position.setUpIdentifier = answer.storeIdentifier
      position.account = account
      position.leaseToken = answer.leaseToken
      position.leaseUntil = answer.leaseUntil.flatMap(WireDate.date)
    }
    return ExchangeResult(answer: .isSetUp)
  }

  /// The file has it before the server: a lease whose answer is lost on its way would else keep this very store out
  /// until it ends.
  private func newLeaseToken(_ position: MirrorPosition) async throws -> Int64? {
    guard options.lease != nil else { return nil }
    if let token = position.newLeaseToken { return token }
    let token = Int64(surroundings.makeSeed() >> 12) + 1
    try await store.updatePosition { $0.newLeaseToken = token }
    return token
  }

  private func answer(to request: SetUpRequest) async throws -> SetUpAnswer {
    do {
      return try await plane.setUp(request)
    } catch {
      // Another process has the lease, so no token of before comes back.
      if case .server(let refusal) = error, refusal.remedy == .giveUpLease {
        try await store.updatePosition { $0.newLeaseToken = nil }
      }
      throw error
    }
  }

  private func changeAccount(from former: String, to user: String) async throws -> ExchangeResult {
    guard let successor = await options.hooks.accountChanged?(former, user) else { throw Self.accountChanged }
    var result = ExchangeResult(answer: .failed(Self.accountChanged))
    result.successor = successor
    return result
  }

  private static let accountChanged = SyncFailure.server(
    ServerError(
      status: 409, serverErrorCode: "CONFLICT", reason: "the store has the objects of another account",
      cocoaErrorCode: ServerError.accountChanged))

  /// Prolongs the lease when half of it is over.
  func prolongLease(_ position: MirrorPosition) async throws {
    guard let lease = options.lease, let until = position.leaseUntil,
      until.timeIntervalSince(surroundings.now()) < Double(lease) / 2
    else { return }
    _ = try await setUp()
  }
}
