// The object plane: its services, and a call on one store (docs/protocol/mirror-api.md).

import Assets
package import Mirroring
import ObjectModel
package import RecordStore
package import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

/// The stores of the shards this worker holds: their saves, exports and imports.
package struct ObjectPlane: Sendable {
  package let context: ObjectContext
  package let exports = ShardExports()
  let imports = ImportJournal()
  package let moves = MoveRuns()

  package init(context: ObjectContext) {
    self.context = context
  }

  package func schemasChanged() { exports.signalAll(.schemaChanged) }

  /// Facts on a store's exports that are known without reading its changes.
  package func facts(of mirror: StoredMirror, in database: DatabaseID, quarantined: Int = 0, _ id: MirrorID) async
    -> StoreFacts
  {
    var isModelKnown = true
    do {
      isModelKnown =
        try await context.schemas.schema(of: database.container, database.environment).mirrorModels[mirror.modelHash]
        != nil
    } catch {
      // Dropped because a directory that is away says nothing about models.
    }
    return StoreFacts(
      pendingCount: mirror.lastTransactionNumber - mirror.exportedTransactionNumber, quarantinedCount: quarantined,
      isExporting: exports.runs.isRunning(id), isFailing: exports.runs.isFailing(id), isModelKnown: isModelKnown,
      throttledUntil: exports.throttledUntil(id.key, on: id.shard, at: context.clock.now))
  }

  /// Exports a shard's stores until the task is cancelled.
  /// - Parameter forward: forwards a batch of a shared store to the owners of its objects.
  package func run(on store: any ShardStore, forward: @escaping ExportLoop.Forward) async {
    await ExportLoop(store: store, context: context, exports: exports, forward: forward).run()
  }
}
