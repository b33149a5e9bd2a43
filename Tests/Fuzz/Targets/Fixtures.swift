// The surroundings in which inputs are read: one schema, one model, one user.

import Crypto
import History
import Indexing
import ObjectModel
import Records
import WebServices

enum Fixture {
  static let user = "_4a1c8e5f0b3d4e6f8a7b9c0d1e2f3a4b"
  static let zone = Zone.ID(zoneName: "Notes", ownerName: user)
  static let now: Int64 = 1_795_160_004_123
  static let stamp = Stamp(timestamp: now, userRecordName: user, deviceID: "phone")
  static let key = [UInt8](0..<32)
  static let name = "6F0C2E61-4B7D-4C5E-8E1B-000000000001"

  static let container = make(ContainerID(rawValue: "iCloud.org.example.notes"), "container")
  static let database = DatabaseID(container: container, environment: .development, owner: user)
  static let assetUser = AssetUser(container: container, environment: .development, userRecordName: user)
  static let links = RecordDictionaryWriter.AssetLinks(
    baseURL: "https://sync.example.org", signingKey: key, expiry: now / 1000 + 900, shard: 3)
  static let assets = AssetReader(user: assetUser, key: key, now: now)
  static let asset = Asset(hash: key, byteCount: 1200)
  static let receipt = AssetReceipt(asset: asset, expiry: .max).text(for: assetUser, signedWith: key)

  /// A field of each type, some of them encrypted.
  static let schema = Schema(recordTypes: [
    Schema.RecordType(
      name: "Note",
      fields: FieldType.allCases.enumerated().map { place, type in
        Schema.Field(
          name: "f\(place)", type: type,
          indexes: type == .bytes || type == .asset ? [] : [.queryable, .sortable, .searchable])
      } + [Schema.Field(name: "secret", type: .string, isEncrypted: true)],
      grants: [], systemIndexes: ["___recordID": .queryable, "___modTime": [.queryable, .sortable]])
  ])
  static let schemaIndex = SchemaIndex(schema)

  /// A value of each type.
  static func value(_ type: FieldType) -> FieldValue {
    if let element = type.element { return .list(element: element, [value(element), value(element)]) }
    return switch type {
    case .int64: .int64(-7)
    case .double: .double(0.1)
    case .string: .string("The quick brown föx")
    case .bytes: .bytes([0, 1, 2, 255])
    case .timestamp: .timestamp(now)
    case .reference: .reference(Reference(recordName: name, action: .deleteSelf))
    case .location: .location(Location(latitude: 52.5, longitude: 13.4, horizontalAccuracy: 5, timestamp: now))
    default: .asset(asset)
    }
  }

  static let record: Record = {
    var fields = Fields()
    for (place, type) in FieldType.allCases.enumerated() { fields["f\(place)"] = Field(value(type)) }
    fields["secret"] = Field(.string("nobody's business"), isEncrypted: true)
    return Record(
      recordName: name, recordType: "Note", fields: fields, created: stamp, modified: stamp, parent: "folder",
      shortGUID: nil)
  }()

  private static let types: [AttributeType] = [
    .integer16, .integer32, .integer64, .decimal, .double, .float, .string, .boolean, .date, .binary, .uuid, .uri,
    .transformable,
  ]

  static let attributes =
    types.map {
      Attribute(
        name: $0.rawValue.lowercased().replacing(" ", with: ""), type: $0, preservesValueOnDeletion: $0 == .string)
    }
    + [
      Attribute(name: "exact", type: .decimal, userInfo: [ReservedName.exactDecimalKey: "YES"]),
      Attribute(name: "secret", type: .string, allowsCloudEncryption: true),
      Attribute(name: "set", type: .string, userInfo: [ReservedName.conflictPolicyKey: "set-union"]),
      Attribute(
        name: "place", type: .composite,
        elements: elements + [Attribute(name: "inner", type: .composite, elements: elements)]),
    ]
  static let elements = types.map { Attribute(name: $0.rawValue.lowercased().replacing(" ", with: ""), type: $0) }

  static let model = ModelIndex(
    ManagedObjectModel(entities: [
      Entity(
        name: "Note", attributes: attributes,
        relationships: [
          Relationship(
            name: "folder", destinationName: "Folder", inverseName: "notes", inverseEntityName: "Folder",
            isToMany: false),
          Relationship(
            name: "tags", destinationName: "Tag", inverseName: "notes", inverseEntityName: "Tag", isToMany: true),
        ]),
      Entity(
        name: "Folder", attributes: [Attribute(name: "name", type: .string)],
        relationships: [
          Relationship(
            name: "notes", destinationName: "Note", inverseName: "folder", inverseEntityName: "Note", isToMany: true)
        ]),
      Entity(
        name: "Tag",
        relationships: [
          Relationship(
            name: "notes", destinationName: "Note", inverseName: "tags", inverseEntityName: "Note", isToMany: true)
        ]),
    ]))

  static func make<Value>(_ value: Value?, _ what: String) -> Value {
    guard let value else { preconditionFailure("the \(what) of the fuzz targets is refused") }
    return value
  }
}
