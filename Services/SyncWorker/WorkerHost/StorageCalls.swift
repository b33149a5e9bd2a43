// An operator's calls about a whole shard: copies it for a backup, scrubs it, removes a user's data.

import MessagePack
import ObjectPlane
import RecordPlane
import RecordStore
import Records
import ServiceBus
import ServiceKit

extension Worker {
  func registerStorage(in handlers: inout BusHandlers) {
    handlers.on(CopyShard.self) { [self] message, _, _ in
      try await withStore(of: message.shard) { store in
        let copy = try await store.copy(
          to: BackupPlace(inBackup: message.directory, mark: message.mark, attempt: message.attempt))
        for problem in copy.problems {
          context.log.error(
            "a backup copies damaged data", ["shard": .integer(Int64(store.shard)), "problem": .text(problem)])
        }
        return Answer(Acknowledgement(), body: try MessagePackEncoder().encode(copy))
      }
    }
    handlers.on(ForgetUser.self) { [self] message, _, _ in
      try await withStore(of: message.shard) { store in
        let reply = try await UserRemoval(
          context: try openParts().records.context.commits, user: message.userRecordName
        ).run(on: store)
        if reply != ForgetUser.Reply(zoneCount: 0, shareCount: 0, storeCount: 0, subscriptionCount: 0) {
          context.log.info(
            "a deleted user's data were removed",
            [
              "shard": .integer(Int64(store.shard)), "zones": .integer(Int64(reply.zoneCount)),
              "shares": .integer(Int64(reply.shareCount)),
              "stores": .integer(Int64(reply.storeCount)),
            ])
        }
        return Answer(reply)
      }
    }
    handlers.on(ScrubShard.self) { [self] message, _, _ in
      try await withStore(of: message.shard) { store in
        let report = try await store.verify(readsAssets: message.readsAssets)
        for problem in report.problems {
          context.log.error(
            "a scrub found a problem", ["shard": .integer(Int64(store.shard)), "problem": .text(problem)])
        }
        if report.isStructureDamaged {
          await (try openParts()).host.failed(
            store, .corrupt("shard \(store.shard): \(report.problems.first ?? "damaged"); restore it from a backup"))
        }
        // A damaged shard may miss the objects of good links.
        let links =
          report.problems.isEmpty
          ? try await LooseLinks(store: store, context: try openParts().records.context.commits).run(
            removes: message.mendsLinks == true) : nil
        return Answer(
          ScrubShard.Reply(
            problems: report.problems,
            recordCount: report.recordCount + report.transactionCount + report.pastStateCount,
            assetCount: report.assetCount,
            looseLinkCount: links?.looseCount, removedLinkCount: links?.removedCount))
      }
    }
  }

  /// - Throws: `BusError`: `refused` with a reason for the operator, or a code that makes the caller try again.
  private func withStore<Reply: Sendable>(of shard: Int, _ body: (any ShardStore) async throws -> Answer<Reply>)
    async throws -> Answer<Reply>
  {
    do {
      return try await body(try await openParts().host.store(ofShard: shard))
    } catch let error as RecordError {
      throw BusError(.refused, "shard \(shard): \(error.reason)")
    } catch let error as StoreError {
      switch error {
      case .fenced, .closed: throw BusError(.notMine, "shard \(shard) is no longer held here")
      case .overloaded: throw BusError(.overloaded, "shard \(shard) has too much to do")
      case .tooSlow:
        throw BusError(
          .refused, "shard \(shard) changes faster than a reader can read all of it: try again when there is less to do"
        )
      case .full(let reason), .io(let reason), .corrupt(let reason), .foreign(let reason), .missingKey(let reason),
        .unavailable(let reason), .unreachable(let reason):
        throw BusError(.refused, reason)
      case .newerFormat, .outOfService: throw BusError(.refused, "shard \(shard) is out of service")
      }
    }
  }
}
