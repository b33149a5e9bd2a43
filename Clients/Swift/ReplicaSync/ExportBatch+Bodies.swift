// What a batch sends: its transactions, with receipts in place of contents.

import MirrorWire
import ReplicaStore

extension ExportBatch {
  /// The transactions as they are sent.
  func bodies() throws(WireError) -> [[UInt8]] {
    if checksums.isEmpty { return transactions }
    var bodies: [[UInt8]] = []
    for bytes in transactions {
      var transaction = try Transaction(json: bytes)
      var isChanged = false
      for index in transaction.changes.indices {
        transaction.changes[index].attributes?.mapInPlace { value in
          guard case .asset(let asset) = value, let receipt = receipts[asset.fileChecksum] else { return }
          value = .asset(receipt)
          isChanged = true
        }
      }
      bodies.append(isChanged ? try transaction.json() : bytes)
    }
    return bodies
  }

}

extension Dictionary {
  fileprivate mutating func mapInPlace(_ change: (inout Value) -> Void) {
    for key in keys { change(&self[key]!) }
  }
}
