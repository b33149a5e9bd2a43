// Pinned states of all stores of a container.

import FoundationEssentials
import ReplicaStore

/// One state of the stores for as long as it is held: read transactions that stay open. Holding one keeps the
/// write-ahead logs from beginning anew, so the oldest expire when a log becomes long.
public final class QueryGeneration: Sendable {
  private let pins: [UUID: Generation]

  init(_ pins: [UUID: Generation]) { self.pins = pins }

  /// History transactions that it does not see.
  public var age: Int { pins.values.map(\.age).reduce(0, +) }
  /// Ended by `release`, or by a log that became too long. Reads also throw `generationExpired` once somebody else has
  /// signed in, whose objects are in other files.
  public var isExpired: Bool { pins.values.contains { $0.isExpired } }

  /// Ends it early; letting go of it does, too.
  public func release() { for pin in pins.values { pin.release() } }

  func pin(of store: OpenStore) throws(StoreError) -> Generation {
    guard let pin = pins[store.file.identifier] else { throw .generationExpired }
    return pin
  }

  /// False once a store has another account's file.
  func covers(_ stores: [OpenStore]) -> Bool { stores.allSatisfy { pins[$0.file.identifier] != nil } }

  /// How far the history goes that it sees.
  var token: HistoryToken { HistoryToken(pins.mapValues(\.number)) }
}
