// Finds saved changes with values that may be stored only encrypted.

public import History
public import ObjectModel

extension ModelIndex {
  /// True if one of the changes has the value of an encrypted attribute (R7), in a tombstone, too. One comparison for
  /// models without any.
  public func isEncrypted(_ changes: [HistoryChange]) -> Bool {
    hasEncryptedAttributes && changes.contains(where: isEncrypted)
  }

  private func isEncrypted(_ change: HistoryChange) -> Bool {
    guard let entity = entity(named: change.entity) else { return false }
    return (change.attributes + change.tombstone).contains { entity.attribute(named: $0.name)?.isEncrypted == true }
  }
}
