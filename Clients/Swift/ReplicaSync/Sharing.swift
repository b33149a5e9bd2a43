// What the server alone can do with shares, zones and records.

package import MirrorWire
package import ReplicaStore
import FoundationEssentials

/// The sharing calls of one store.
package struct Sharing: Sendable {
  private let loop: SyncLoop
  private let surroundings: Surroundings
  private let syncLimit: Duration

  private static let attemptLimit = 5

  /// - Parameter syncLimit: of the export before a call, and of the import after it.
  package init(_ loop: SyncLoop, surroundings: Surroundings = .system, syncLimit: Duration = .seconds(30)) {
    self.loop = loop
    self.surroundings = surroundings
    self.syncLimit = syncLimit
  }

  // MARK: Shares

  /// Exports first, then moves the connected graph into a zone of its own, or into that of a share.
  /// - Returns: the share, and the names of the objects that moved.
  package func share(
    _ objectIDs: [String], to share: Share?, title: String?, publicPermission: ParticipantPermission
  ) async throws(StoreError) -> (share: Share, moved: [String]) {
    try await loop.syncNow(timeout: syncLimit)
    let request = ShareRequest(
      objectIDs: objectIDs, to: share.map { ZoneID($0.zone) }, title: title,
      publicPermission: publicPermission.rawValue)
    let place = try await loop.callPlace()
    let identifier = surroundings.makeUUID()
    let answer = try await attempt { () throws(SyncFailure) in
      try await place.plane.share(request, requestID: identifier)
    }
    try await keep(answer.share, at: place)
    try await loop.syncNow(timeout: syncLimit)
    return (Share(answer.share, server: place.plane.account.server), answer.moved)
  }

  /// Joins shares by their addresses, and imports them.
  /// - Throws: `invalid` for an address that is no share's, before any is joined; the error of the first share that
  ///   can't be joined, after the others are.
  package func accept(_ urls: [String]) async throws(StoreError) -> [Share] {
    var names: [String] = []
    for url in urls { names.append(try Share.shortGUID(ofAddress: url)) }
    // The store may not be set up yet.
    try await loop.syncNow(timeout: syncLimit)
    let request = AcceptRequest(shortGUIDs: names)
    let place = try await loop.callPlace()
    let answer = try await attempt { () throws(SyncFailure) in try await place.plane.accept(request) }
    try await loop.syncNow(timeout: syncLimit)
    for result in answer.results {
      guard let code = result.serverErrorCode else { continue }
      throw StoreError.server(ckErrorCode: 11, cocoaErrorCode: nil, reason: result.reason ?? code, requestID: "")
    }
    let zones = answer.results.compactMap(\.zoneID)
    let shares = try await serverShares(at: place).filter { share in
      zones.contains { $0.zoneName == share.zoneID.zoneName }
    }
    for share in shares { try await keep(share, at: place) }
    return shares.map { Share($0, server: place.plane.account.server) }
  }

  /// People who can be found; the others are left out.
  package func participants(matching infos: [LookupInfo]) async throws(StoreError) -> [Participant] {
    let place = try await loop.callPlace()
    let request = DiscoverRequest(infos.map(LookUp.init))
    let answer: DiscoverAnswer = try await attempt { () throws(SyncFailure) in
      try await place.plane.record("users/discover", request)
    }
    return answer.users.map(Participant.init)
  }

  /// Saves a share's changes. If somebody else changed it meanwhile, they are made to the server's share.
  package func persist(_ share: Share) async throws(StoreError) -> Share {
    let place = try await loop.callPlace()
    var changed = share
    for _ in 0..<Self.attemptLimit {
      do {
        let record = try await modify(changed, at: place)
        try await keep(record, at: place)
        return Share(record, server: place.plane.account.server)
      } catch {
        guard case .server(14, _, _, _) = error else { throw error }
        let zone = ZoneID(share.zone)
        let shares = try await serverShares(at: place)
        guard let present = shares.first(where: { $0.zoneID.isSame(as: zone) }) else { throw error }
        changed = share.applied(to: Share(present, server: place.plane.account.server))
      }
    }
    throw .server(ckErrorCode: 14, cocoaErrorCode: nil, reason: "the share keeps changing", requestID: "")
  }

  private func modify(_ share: Share, at place: MirroredPlace) async throws(StoreError) -> ShareRecord {
    let request = ModifyShareRequest(share)
    let identifier = surroundings.makeUUID()
    let answer: ModifyShareAnswer = try await attempt { () throws(SyncFailure) in
      try await place.plane.record("records/modify", request, requestID: identifier)
    }
    guard let result = answer.records.first else { throw .damaged("a share's answer has no record") }
    if let code = result.error {
      throw .server(
        ckErrorCode: result.ckErrorCode ?? (code == "CONFLICT" ? 14 : 12), cocoaErrorCode: nil,
        reason: result.reason ?? code, requestID: "")
    }
    guard let record = result.share else { throw .damaged("a share's answer is no share") }
    return record
  }

  private func serverShares(at place: MirroredPlace) async throws(StoreError) -> [ShareRecord] {
    try await attempt { () throws(SyncFailure) in try await place.plane.shares() }.shares
  }

  private func keep(_ record: ShareRecord, at place: MirroredPlace) async throws(StoreError) {
    let permission: ZonePermission =
      place.plane.scope != "shared"
      ? .owner : record.currentUserParticipant?.permission == "READ_WRITE" ? .readWrite : .readOnly
    let bytes: [UInt8]
    do {
      bytes = try record.json()
    } catch {
      throw .damaged(error.reason)
    }
    try await place.store.cacheShare(Data(bytes), permission: permission, of: record.zoneID)
  }

  /// The shares that the replica knows, offline too.
  package func cachedShares() async throws(StoreError) -> [Share] {
    let server = loop.plane.account.server
    return try await loop.store.zones().compactMap { zone in
      // Dropped because a share that an earlier version kept is fetched again.
      zone.share.flatMap { try? ShareRecord(json: [UInt8]($0)) }.map { Share($0, server: server) }
    }
  }

  // MARK: Zones and records

  /// Leaves as a participant, ends as the owner. Imports what that changes.
  package func purge(_ zone: Zone, keepCopy: Bool) async throws(StoreError) {
    try await loop.syncNow(timeout: syncLimit)
    let place = try await loop.callPlace()
    let request = PurgeRequest(zoneID: ZoneID(zone), keepCopy: keepCopy)
    let identifier = surroundings.makeUUID()
    _ = try await attempt { () throws(SyncFailure) in try await place.plane.purge(request, requestID: identifier) }
    try await loop.syncNow(timeout: syncLimit)
  }

  /// - Parameter zone: nil: the store's default zone.
  /// - Returns: the names of the objects that moved.
  package func move(_ objectIDs: [String], to zone: Zone?) async throws(StoreError) -> [String] {
    try await loop.syncNow(timeout: syncLimit)
    let place = try await loop.callPlace()
    let request = MoveRequest(objectIDs: objectIDs, to: zone.map { ZoneID($0) })
    let identifier = surroundings.makeUUID()
    let answer = try await attempt { () throws(SyncFailure) in
      try await place.plane.move(request, requestID: identifier)
    }
    try await loop.syncNow(timeout: syncLimit)
    return answer.moved
  }

  /// Asks the server what may be done with objects, and keeps the answer.
  package func fetchPermissions(_ objectIDs: [String]) async throws(StoreError) -> PermissionsAnswer {
    let place = try await loop.callPlace()
    let answer = try await attempt { () throws(SyncFailure) in try await place.plane.permissions(objectIDs) }
    try await place.store.cachePermissions(answer)
    return answer
  }

  /// The answer of `POST records`: records as the record plane writes them.
  package func records(_ objectIDs: [String]) async throws(StoreError) -> [[UInt8]?] {
    let place = try await loop.callPlace()
    return try await attempt { () throws(SyncFailure) in try await place.plane.records(objectIDs) }
  }

  package func explain(_ objectID: String) async throws(StoreError) -> ExplainAnswer {
    let place = try await loop.callPlace()
    return try await attempt { () throws(SyncFailure) in try await place.plane.explain(objectID) }
  }

  /// Sends a call again under its identifier while the server may not have acted or asks for it.
  private func attempt<Answer: Sendable>(
    _ call: () async throws(SyncFailure) -> Answer
  ) async throws(StoreError) -> Answer {
    var backoff = Backoff(seed: surroundings.makeSeed())
    while true {
      do throws(SyncFailure) {
        return try await call()
      } catch {
        let pause: Duration
        switch error {
        case .transport: pause = backoff.failed()
        case .server(let refusal):
          switch refusal.remedy {
          case .tryAgain, .reachServer: pause = backoff.failed(retryAfter: refusal.retryAfter)
          default: throw StoreError(error)
          }
        default: throw StoreError(error)
        }
        guard backoff.failureCount < Self.attemptLimit, (try? await surroundings.sleep(pause)) != nil else {
          throw StoreError(error)
        }
      }
    }
  }
}

extension ZoneID {
  init(_ zone: Zone) { self.init(zoneName: zone.zoneName, ownerRecordName: zone.ownerRecordName) }
}

extension LookUp {
  fileprivate init(_ info: LookupInfo) {
    switch info {
    case .emailAddress(let address): self.init(emailAddress: address)
    case .phoneNumber(let number): self.init(phoneNumber: number)
    case .userRecordName(let name): self.init(userRecordName: name)
    }
  }
}

/// `records/modify` with one share.
private struct ModifyShareRequest: Encodable {
  struct Field: Encodable { let value: String? }
  struct Record: Encodable {
    let recordType = "cloudkit.share"
    let recordName: String
    let recordChangeTag: String?
    let publicPermission: String
    let participants: [ParticipantRecord]
    let fields: [String: Field]

    private enum CodingKeys: String, CodingKey {
      case recordType, recordName, recordChangeTag, publicPermission, participants, fields
    }
  }
  struct Operation: Encodable {
    let operationType = "update"
    let record: Record

    private enum CodingKeys: String, CodingKey { case operationType, record }
  }
  let operations: [Operation]
  let zoneID: ZoneID

  init(_ share: Share) {
    let record = share.record
    operations = [
      Operation(
        record: Record(
          recordName: record.recordName, recordChangeTag: record.recordChangeTag,
          publicPermission: share.publicPermission.rawValue, participants: share.participants.map(\.record),
          fields: ["cloudkit.title": Field(value: share.title)]))
    ]
    zoneID = record.zoneID
  }
}

private struct ModifyShareAnswer: Decodable, Sendable {
  struct Item: Decodable, Sendable {
    let error: String?
    let ckErrorCode: Int?
    let reason: String?
    let share: ShareRecord?

    private enum CodingKeys: String, CodingKey { case serverErrorCode, ckErrorCode, reason }

    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      error = try container.decodeIfPresent(String.self, forKey: .serverErrorCode)
      ckErrorCode = try container.decodeIfPresent(Int.self, forKey: .ckErrorCode)
      reason = try container.decodeIfPresent(String.self, forKey: .reason)
      share = error == nil ? try ShareRecord(from: decoder) : nil
    }
  }
  let records: [Item]
}
