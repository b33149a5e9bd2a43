// The name of a zone, and whose it is.

public struct ZoneID: Hashable, Sendable, Codable {
  public var zoneName: String
  /// The record name of the owner; nil in a request: the owner of the database.
  public var ownerRecordName: String?

  /// The name of the zone for all objects of a private database that lie in no share.
  package static let homeName = "com.apple.coredata.cloudkit.zone"

  public init(zoneName: String, ownerRecordName: String? = nil) {
    self.zoneName = zoneName
    self.ownerRecordName = ownerRecordName
  }
}
