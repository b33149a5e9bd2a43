// records/resolve, accept, decline and requestAccess in the shard of a short GUID
// (docs/protocol/record-plane.md#records-resolve).

import JSON
package import RecordStore
package import Records
package import ServiceBus
import ServiceKit
import Sharing
import WebServices
import ZoneCommit

/// Resolves short GUIDs for callers who may know them, and carries out the callers' acts.
///
/// To any other caller a short GUID looks as if it had never been given out.
package struct ShareResolution: Sendable {
  package let context: RecordContext
  package let request: ResolveShortGUIDs
  /// Brings a database to its environment's generation.
  var settle: @Sendable (DatabaseID) async throws(RecordError) -> Void = { (_) async throws(RecordError) in }

  package init(
    context: RecordContext, request: ResolveShortGUIDs,
    settle: @escaping @Sendable (DatabaseID) async throws(RecordError) -> Void = { (_) async throws(RecordError) in }
  ) {
    self.context = context
    self.request = request
    self.settle = settle
  }

  /// The result for one item.
  enum Outcome: Sendable {
    case found(LocatedShare)
    /// The caller may ask for access, and learns nothing more.
    case requestable(isRequested: Bool)
    case left
    case failed(RecordError)
    case nothing
  }

  /// - Throws: errors of the shard or of the directory; an item that is not found is null.
  package func answer(from store: any ShardStore) async throws(RecordError) -> [UInt8] {
    guard let user = request.caller.userRecordName else {
      return write(request.items.map { _ in .nothing }, for: KnownUser(userRecordName: ""))
    }
    // Before the search, so that time and failures do not depend on its result.
    let caller = try await SharePeople(owner: user, caller: user, looking: [], in: context.people).caller
    let located = try await located(in: store)
    if located.allSatisfy({ $0 == nil }) { return write(located.map { _ in .nothing }, for: caller) }
    for database in Set(located.compactMap { $0?.database.id }) { try await settle(database) }
    if request.purpose == .resolve {
      return write(
        try await self.located(in: store).map { $0.map { resolved($0, for: caller) } ?? .nothing }, for: caller)
    }
    return write(try await acted(for: caller, located, in: store), for: caller)
  }

  private func located(in store: any ShardStore) async throws(RecordError) -> [LocatedShare?] {
    let request = request
    do {
      return try await store.read { snapshot in
        // A request may name one short GUID many times, and its record may be large.
        var known: [String: LocatedShare?] = [:]
        return try request.items.map { item in
          if let found = known[item.shortGUID] { return found }
          let found = try LocatedShare(item.shortGUID, for: request, in: snapshot)
          known[item.shortGUID] = .some(found)
          return found
        }
      }
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
  }

  // MARK: Doing

  private func acted(for caller: KnownUser, _ located: [LocatedShare?], in store: any ShardStore)
    async throws(RecordError) -> [Outcome]
  {
    let schema = try await context.schemas.schema(of: request.container, request.environment)
    let terms = CommitTerms(
      .shareAct, Stamp(timestamp: context.clock.now, userRecordName: caller.userRecordName), schema, shard: store.shard,
      context)
    let act = ShareAct(
      request: request, caller: caller, terms: terms,
      making: ShareState.Making(at: context.clock.now, shard: store.shard, context.random))
    let result: ShareAct.Result
    do {
      result = try await store.enqueue(expecting: { act.lookups(located) }) { transaction in
        try act.commit(in: transaction)
      }.value
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
    result.effects.publish(by: context)
    return result.outcomes
  }

  private func resolved(_ located: LocatedShare, for caller: KnownUser) -> Outcome {
    switch AccessMatrix.verdict(.seeMetadata, located.standing(of: caller)) {
    case .allowed: .found(located)
    case .denied, .absent:
      located.isRequestable(by: caller)
        ? .requestable(isRequested: located.state?.requesters.contains { caller.matches($0.identity) } ?? false)
        : .nothing
    }
  }

  // MARK: Answering

  private func write(_ outcomes: [Outcome], for caller: KnownUser) -> [UInt8] {
    var output = JSONWriter(reservingByteCount: 1024 * (outcomes.count + 1))
    output.beginArray()
    for (item, outcome) in zip(request.items, outcomes) {
      switch outcome {
      case .nothing: output.null()
      case .found(let located): write(located, as: item, for: caller, to: &output)
      case .failed(let error):
        output.beginObject()
        error.writeMembers(to: &output)
        output.endObject()
      case .left, .requestable:
        output.beginObject()
        writeHead(isOwn: false, to: &output)
        if case .requestable(let isRequested) = outcome {
          output.member("allowsAccessRequests", true)
          output.member("participantStatus", isRequested ? "REQUESTED" : "UNKNOWN")
        } else {
          output.member("participantStatus", AcceptanceStatus.removed.wireName)
        }
        output.endObject()
      }
    }
    output.endArray()
    return output.bytes
  }

  private func writeHead(isOwn: Bool, to output: inout JSONWriter) {
    output.member("containerIdentifier", request.container.rawValue)
    output.member("environment", request.environment.rawValue)
    output.member("databaseScope", isOwn ? "PRIVATE" : "SHARED")
  }

  private func write(
    _ located: LocatedShare, as item: ResolveShortGUIDs.Item, for caller: KnownUser, to output: inout JSONWriter
  ) {
    let standing = located.standing(of: caller)
    let zone = Zone.ID(zoneName: located.zone.zoneName, ownerName: located.database.id.owner)
    // The assets of the share itself, such as its thumbnail, are for all who are invited.
    var records = context.signing.writer(for: zone, reader: nil, baseURL: request.baseURL, shard: request.shard)
    var shown = ShownShares(to: caller)
    if let share = located.share, let state = share.state {
      shown.shares[share.name] = ShownShares.Share(shortGUID: share.shortGUID, state: state)
    }
    if let share = located.share, let root = share.rootRecordName { shown.roots[root] = share.name }
    records.shares = shown
    output.beginObject()
    writeHead(isOwn: standing == .owner, to: &output)
    output.key("zoneID")
    zone.write(to: &output)
    if let record = located.record {
      output.key("share")
      records.write(record.record, tag: record.tag, as: .complete, to: &output)
    }
    if let share = located.share { output.member("webpageURL", "\(request.baseURL)/share/\(share.shortGUID)") }
    if let root = located.root {
      output.member("rootRecordName", root.record.recordName)
      // The client looks up a record without room here by its name; a caller who has not accepted can't read it.
      if item.fetchesRootRecord, output.bytes.count <= RecordPlaneCall.pageByteCount,
        AccessMatrix.verdict(.readRecords, standing) == .allowed
      {
        output.key("rootRecord")
        var roots = context.signing.writer(
          for: zone, reader: standing == .owner ? nil : reader(of: located, caller), baseURL: request.baseURL,
          shard: request.shard)
        roots.shares = shown
        roots.write(
          root.record, tag: root.tag,
          as: RecordPresentation(desiredKeys: DesiredKeys(item.desiredKeys), numbersAsStrings: false), to: &output)
      }
    }
    output.key("ownerIdentity")
    if let owner = located.state?.owner {
      owner.identity.write(showsAddress: false, to: &output)
    } else {
      output.beginObject()
      output.member("userRecordName", zone.ownerName)
      output.endObject()
    }
    writeParticipant(located, standing, caller, to: &output)
    output.endObject()
  }

  private func reader(of located: LocatedShare, _ caller: KnownUser) -> AssetURL.Reader {
    AssetURL.Reader(
      container: request.container, environment: request.environment, owner: located.database.id.owner,
      userRecordName: caller.userRecordName, zoneName: located.zone.zoneName)
  }

  private func writeParticipant(
    _ located: LocatedShare, _ standing: ShareStanding, _ caller: KnownUser, to output: inout JSONWriter
  ) {
    let own = located.state?.participant(for: caller)
    let invitation = own ?? located.state?.participants.first { $0.oneTimeGUID == located.shortGUID }
    let role = standing == .owner ? ParticipantRole.owner : invitation?.role ?? .publicUser
    let permission =
      standing == .owner
      ? SharePermission.readWrite : invitation?.permission ?? located.state?.publicPermission ?? .none
    let acceptance = standing == .owner ? AcceptanceStatus.accepted : own?.acceptance ?? .pending
    output.member("participantType", role.wireName)
    output.member("participantStatus", acceptance.wireName)
    output.member("participantPermission", permission.wireName)
    output.key("potentialMatchList")
    output.beginArray()
    output.endArray()
  }
}

/// The share, record and zone of a short GUID.
struct LocatedShare: Sendable {
  let shortGUID: String
  let database: StoredDatabase
  let zone: StoredZone
  /// nil: nothing is shared; a record alone has the short GUID.
  let share: StoredShare?
  /// The share's record.
  let record: StoredRecord?
  /// The root of the hierarchy; nil: the zone is shared.
  let root: StoredRecord?

  var state: ShareState? { share?.state }

  /// nil when the short GUID leads nowhere in that container and environment.
  init?(_ shortGUID: String, for request: ResolveShortGUIDs, in snapshot: any ShardSnapshot) throws {
    let zoneKey: Int64
    if let (zone, found) = try snapshot.record(withShortGUID: shortGUID) {
      zoneKey = zone
      let isShare = found.record.recordType == ReservedName.shareRecordType
      let share =
        isShare
        ? try snapshot.share(named: found.record.recordName, in: zone)
        : try snapshot.share(ofRoot: found.record.recordName, in: zone)
      self.share = share.flatMap { $0.state == nil ? nil : $0 }
      root = isShare ? nil : found
    } else if let (zone, share) = try snapshot.share(withOneTimeGUID: shortGUID) {
      zoneKey = zone
      self.share = share
      root = try share.rootRecordName.flatMap { try snapshot.record(named: $0, in: zone) }.flatMap {
        $0.isDeleted ? nil : $0
      }
    } else {
      return nil
    }
    guard let zone = try snapshot.zone(key: zoneKey), !zone.isDeleted,
      let database = try snapshot.database(key: zone.databaseKey),
      database.id.container == request.container, database.id.environment == request.environment
    else { return nil }
    self.shortGUID = shortGUID
    self.zone = zone
    self.database = database
    record = try share.flatMap { try snapshot.record(named: $0.name, in: zoneKey) }.flatMap { $0.isDeleted ? nil : $0 }
  }

  private init(_ earlier: LocatedShare, _ share: StoredShare, _ record: StoredRecord) {
    shortGUID = earlier.shortGUID
    database = earlier.database
    zone = earlier.zone
    root = earlier.root
    self.share = share
    self.record = record
  }

  /// The same place once a decision about its share is written.
  func settled(_ decision: ShareDecision, _ record: StoredRecord) -> LocatedShare {
    guard var share else { return self }
    share.state = decision.state
    return LocatedShare(self, share, record)
  }

  /// The rows that an act of a caller looks up here.
  func lookups(by caller: KnownUser) -> [ExpectedLookup] {
    var lookups: [ExpectedLookup] = []
    if let share {
      lookups.append(.record(share.name, zone: zone.zoneName, database: database.id))
      lookups.append(.share(share.name, zone: zone.zoneName, database: database.id))
      lookups.append(.members(caller.userRecordName, zone: zone.zoneName, database: database.id))
    }
    if let root = root?.record {
      // A root's own short GUID leads to its record, and then to its share; a one-time GUID leads to the share first.
      lookups.append(
        root.shortGUID == shortGUID
          ? .shareOfRoot(root.recordName, zone: zone.zoneName, database: database.id)
          : .record(root.recordName, zone: zone.zoneName, database: database.id))
    }
    return lookups
  }

  func standing(of user: KnownUser) -> ShareStanding {
    if user.userRecordName == database.id.owner { return .owner }
    return state?.standing(of: user, comingBy: shortGUID) ?? .stranger
  }

  /// Only by the share's own URL: a URL made for one invitee tells a stranger nothing.
  func isRequestable(by user: KnownUser) -> Bool { share?.shortGUID == shortGUID && state?.mayRequest(user) == true }
}
