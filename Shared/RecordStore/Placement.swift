// Tracks the zones of mirrored stores' objects that are not in a default zone.

import Records

/// Links an object with a zone that has, had or is to get the object's record.
public struct StoredPlacement: Hashable, Sendable {
  /// The zone's key. The zone may have ended.
  public let zone: Int64
  /// The object's next export writes its record to this zone. At most one placement of an object is assigned.
  public let isAssigned: Bool

  public init(zone: Int64, isAssigned: Bool) {
    self.zone = zone
    self.isAssigned = isAssigned
  }
}

/// How much a database knows about the zones of its objects.
public enum PlacementState: Int, Hashable, Sendable {
  /// The database never had a mirrored store. No call looks for objects, and nothing is noted.
  case untracked = 0
  /// Every object that is or was outside the default zones is noted.
  case noted = 1
  /// As `noted`, and no object ever was outside the default zones.
  case empty = 2
  /// The first store has just been made. New objects are noted, and earlier ones follow, a slice a commit.
  case filling = 3
}

extension StoredZone {
  /// True for a record type of objects, outside the default zones. A new record of that kind is noted among the
  /// placements.
  package func places(recordType: String) -> Bool {
    !isLookedInFirst && recordType.hasPrefix(ReservedName.recordTypePrefix)
  }

  /// True for the default zones of mirrored stores, which a search for an object visits first.
  package var isLookedInFirst: Bool {
    zoneName == ReservedName.privateMirrorZone || zoneName == ReservedName.defaultZone
  }
}
