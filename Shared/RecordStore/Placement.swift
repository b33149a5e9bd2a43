// Objects of mirrored stores that are not in a default zone: which records are theirs, and where they are to be.

import Records

/// That an object has, had or is to get its record in a zone.
public struct StoredPlacement: Hashable, Sendable {
  /// Its key; it may have ended.
  public let zone: Int64
  /// It is to get its record there with the next export of it; of an object's placements one at most.
  public let isAssigned: Bool

  public init(zone: Int64, isAssigned: Bool) {
    self.zone = zone
    self.isAssigned = isAssigned
  }
}

/// What a database knows of where its objects are.
public enum PlacementState: Int, Hashable, Sendable {
  /// It never had a mirrored store: nobody looks for objects, and nothing is noted.
  case untracked = 0
  /// Every object that is or was in another zone than the default ones is noted.
  case noted = 1
  /// The same, and there never was one.
  case empty = 2
  /// It has got its first store: new ones are noted, and those that were there before are, a slice a commit.
  case filling = 3
}

extension StoredZone {
  /// Whether a new record of that type is noted among the placements: an object's, outside of the zones in which objects are looked for first.
  func places(recordType: String) -> Bool { !isLookedInFirst && recordType.hasPrefix(ReservedName.recordTypePrefix) }

  /// A default zone of a mirrored store.
  var isLookedInFirst: Bool { zoneName == ReservedName.privateMirrorZone || zoneName == ReservedName.defaultZone }
}
