// changes/database of the shared database: merges the owners' feeds. The token holds a position for each owner.

import JSON
import Records
import ServiceBus
import WebServices

extension SharedDatabase {
  /// An owner's part of a page. With a `problem` the owner can't be reached, and their zones are listed as errors.
  private struct Page {
    let owner: FetchSharedZones.Reply.Owner
    var zones: [AnswerParts.Part] = []
    var problem: RecordError?
  }

  /// Asks each owner's worker for the part of its database that the caller sees. An owner who can't be reached keeps
  /// their position in the token.
  func fetchDatabaseChanges(tokenKeys: [String]) async throws(RecordError) -> Answer<DatabaseRequest.Reply> {
    let changes = try DatabaseChangesRequest(try document())
    var token = try Self.token(at: changes.position)
    let all = try await sharedZones()
    let owners = Self.turned(all.filter { !$0.hasNothingNew(for: token) }, by: token)
    var pages: [Page] = []
    var (count, moreComing, failures) = (0, false, [RecordError]())
    // In waves, because owners beyond a full page need not be asked.
    for start in stride(from: 0, to: owners.count, by: Self.parallelCount) {
      if count >= changes.resultsLimit {
        moreComing = true
        break
      }
      let wave = Array(owners[start..<min(start + Self.parallelCount, owners.count)])
      let known = token
      let outcomes = await outcomes(of: wave.map(\.owner)) { Self.body(changes, after: known[wave[$0].owner]) }
      for (owner, outcome) in zip(wave, outcomes) {
        switch outcome {
        case .refused(let answer): return answer
        case .away(let error):
          failures.append(error)
          pages.append(Page(owner: owner, problem: error))
        case .answered(let answer, _):
          let zones = answer.parts
          // A page can't be cut: only its worker knows the token after its first zones. The next request gets the whole
          // page.
          guard count == 0 || count + zones.count <= changes.resultsLimit else {
            moreComing = true
            continue
          }
          count += zones.count
          if answer.moreComing { moreComing = true }
          if let position = try Self.position(answer.syncToken) { token[owner.owner] = position }
          pages.append(Page(owner: owner, zones: zones))
        }
      }
    }
    if let failure = failures.first, failures.count == pages.count { throw failure }
    token.forget(butOf: all.map(\.owner))
    return Self.answer(
      pages.sorted { $0.owner.owner < $1.owner.owner }, token, tokenKeys: tokenKeys, moreComing: moreComing)
  }

  private static func answer(_ pages: [Page], _ token: SharedFeedToken, tokenKeys: [String], moreComing: Bool)
    -> Answer<DatabaseRequest.Reply>
  {
    var output = JSONWriter(reservingByteCount: 256 * (pages.count + 1))
    output.beginObject()
    output.key("zones")
    output.beginArray()
    for page in pages {
      for zone in page.zones { output.raw(zone.json) }
      if let problem = page.problem { writeErrors(problem, of: page.owner, to: &output) }
    }
    output.endArray()
    for key in tokenKeys { output.member(key, token.text) }
    output.member("moreComing", moreComing)
    output.endObject()
    return answer(output)
  }

  /// Each page begins with another owner, so that a busy owner does not hide the others.
  private static func turned(_ owners: [FetchSharedZones.Reply.Owner], by token: SharedFeedToken) -> [FetchSharedZones
    .Reply.Owner]
  {
    if owners.isEmpty { return [] }
    let start = Int(owners.reduce(UInt64(0)) { $0 &+ UInt64(token[$1.owner]?.sequence ?? 0) } % UInt64(owners.count))
    return Array(owners[start...] + owners[..<start])
  }

  private static func token(at position: ChangesPosition) throws(RecordError) -> SharedFeedToken {
    guard case .token(let text) = position else { return SharedFeedToken() }
    do throws(SyncToken.Refusal) {
      return try SharedFeedToken(text)
    } catch {
      throw error.recordError
    }
  }

  /// The part for one owner: the feed of their database after the token's position for them.
  private static func body(_ changes: DatabaseChangesRequest, after position: SyncToken.Position?) -> [UInt8] {
    var output = JSONWriter()
    output.beginObject()
    if let position {
      output.member("syncToken", SyncToken(.database, [position]).text)
    } else if changes.position == .caughtUp {
      output.member("syncToken", "")
    }
    output.member("resultsLimit", changes.resultsLimit)
    output.endObject()
    return output.bytes
  }

  /// nil for a database without a zone.
  private static func position(_ text: String?) throws(RecordError) -> SyncToken.Position? {
    do throws(SyncToken.Refusal) {
      return try SyncToken(text ?? "", as: .database).positions.first
    } catch {
      throw RecordError(.internalError, "A worker's answer has no token")
    }
  }
}

extension FetchSharedZones.Reply.Owner {
  /// True when every access ended and the token is past the last end.
  fileprivate func hasNothingNew(for token: SharedFeedToken) -> Bool {
    guard let position = token[owner] else { return false }
    return zones.allSatisfy { !$0.isActive && $0.sequence <= position.sequence }
  }
}
