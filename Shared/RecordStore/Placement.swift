// Objects of mirrored stores that are not in a default zone: which records are theirs.

import Records

extension StoredZone {
  /// Whether a new record of that type is noted among the placements: an object's, outside of the zones in which objects are looked for first.
  func places(recordType: String) -> Bool {
    zoneName != ReservedName.privateMirrorZone && zoneName != ReservedName.defaultZone && recordType.hasPrefix(ReservedName.recordTypePrefix)
  }
}
