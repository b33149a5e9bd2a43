// Answers `ResolveShortGUIDs`: finds the shard, lets the record plane resolve, and waits until an acceptance is known.

import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit
import ZoneCommit

extension Worker {
  /// - Throws: `BusError`. A short GUID that leads nowhere is no error.
  func resolve(_ message: ResolveShortGUIDs) async throws -> [UInt8] {
    let parts = try openParts()
    do {
      let store = try await parts.host.store(ofShard: message.shard, having: message.part)
      let generations = parts.generations
      let resolution = ShareResolution(context: parts.records.context, request: message) {
        database async throws(RecordError) in
        if !generations.isSettled(database) { try await generations.settle(database, in: store) }
      }
      do throws(RecordError) {
        let answer = try await resolution.answer(from: store.turns(of: message.party))
        if message.purpose == .accept {
          try await waitForShareNews(of: message.shard, parts.records.context.commits.effects.shareNews)
        }
        shareCalls[message.purpose.rawValue, "answered"].increment(by: message.items.count)
        return answer
      } catch {
        shareCalls[message.purpose.rawValue, "failed"].increment(by: message.items.count)
        guard error == .shardMoved else { throw error }
        await parts.host.lost(store)
        throw BusError(.notMine, "shard \(store.shard) is no longer held here")
      }
    } catch let error as RecordError {
      throw BusError(error.code == .tryAgainLater ? .overloaded : .internalError, error.reason)
    }
  }
}
