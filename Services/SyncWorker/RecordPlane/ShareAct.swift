// Uses shares by their URLs, in one commit: accepting, asking for access, declining.

import RecordStore
import Records
import ServiceBus
import Sharing
import ZoneCommit

/// One caller's act on the short GUIDs of one message. It can be repeated: a second run changes nothing.
struct ShareAct: Sendable {
  struct Result: Sendable {
    /// One per item, in order.
    var outcomes: [ShareResolution.Outcome] = []
    /// To be published once the commit is durable.
    var effects = ZoneEffects()
  }

  let request: ResolveShortGUIDs
  let caller: KnownUser
  let terms: CommitTerms
  private var stamp: Stamp { terms.stamp }
  let making: ShareState.Making

  func commit(in transaction: any ShardTransaction) throws -> Result {
    var result = Result()
    for item in request.items { result.outcomes.append(try outcome(of: item, &result, in: transaction)) }
    return result
  }

  private func outcome(
    of item: ResolveShortGUIDs.Item, _ result: inout Result, in transaction: any ShardTransaction
  ) throws -> ShareResolution.Outcome {
    guard let located = try LocatedShare(item.shortGUID, for: request, in: transaction) else { return .nothing }
    guard let share = located.share, let state = share.state else { return .nothing }
    // The owner can't accept an own share, but finds it.
    if located.standing(of: caller) == .owner { return request.purpose == .accept ? .found(located) : .nothing }
    let decision: ShareDecision?
    do throws(RecordError) {
      switch request.purpose {
      case .accept: decision = try state.accepting(caller, by: item.shortGUID, making)
      case .requestAccess:
        decision =
          located.isRequestable(by: caller) || state.participant(for: caller) != nil
          ? try state.requesting(caller, at: stamp.timestamp) : nil
      case .decline: decision = state.leaving(caller)
      case .resolve: decision = nil
      }
    } catch {
      return .failed(error)
    }
    guard let decision else { return .nothing }
    let record = try apply(decision, to: share, located, &result, in: transaction)
    switch request.purpose {
    case .accept:
      // A one-time URL may lead nowhere now.
      if share.shortGUID == item.shortGUID { return .found(record.map { located.settled(decision, $0) } ?? located) }
      return try LocatedShare(item.shortGUID, for: request, in: transaction).map { .found($0) } ?? .nothing
    case .requestAccess: return .requestable(isRequested: true)
    case .decline: return .left
    case .resolve: return .nothing
    }
  }

  /// - Returns: the share's record; nil when nothing changed.
  private func apply(
    _ decision: ShareDecision, to share: StoredShare, _ located: LocatedShare, _ result: inout Result,
    in transaction: any ShardTransaction
  ) throws -> StoredRecord? {
    let commit = try terms.begin(in: located.database, transaction)
    let writer = ShareWriter(writer: commit.serversWriter(to: located.zone))
    guard let record = try writer.apply(decision, to: share, stamp: stamp) else { return nil }
    result.effects.add(try commit.finish())
    return record
  }

  /// What `commit` looks up.
  /// - Parameter located: what a read found, one per item.
  func lookups(_ located: [LocatedShare?]) -> [ExpectedLookup] {
    request.items.map { .shortGUID($0.shortGUID) } + located.flatMap { $0?.lookups(by: caller) ?? [] }
  }
}
