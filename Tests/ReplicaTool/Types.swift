// The entities that are measured, as a generator writes them.

import AquiferClient
import FoundationEssentials

struct Photo: ManagedObject {
  struct Columns: Sendable {
    let displayName = Attribute<String?>("displayName")
    let size = Attribute<Int64>("size")
    let tags = ToMany<Tag>("tags")
  }
  static let entityName = "Photo"
  static let columns = Columns()

  let id: ObjectID<Photo>
  var displayName: String?
  var uniqueName: String?
  var size: Int64

  init(id: ObjectID<Photo> = ObjectID(), displayName: String? = nil, uniqueName: String? = nil, size: Int64 = 0) {
    (self.id, self.displayName, self.uniqueName, self.size) = (id, displayName, uniqueName, size)
  }
  init(_ row: borrowing Row) {
    (id, displayName, uniqueName, size) = (row.objectID(Photo.self), row.value(1), row.value(2), row.value(3))
  }
  func write(to row: inout RowWriter) {
    row.value(1, displayName)
    row.value(2, uniqueName)
    row.value(3, size)
  }
}

struct Tag: ManagedObject {
  struct Columns: Sendable { let name = Attribute<String?>("name") }
  static let entityName = "Tag"
  static let columns = Columns()

  let id: ObjectID<Tag>
  var name: String?

  init(id: ObjectID<Tag> = ObjectID(), name: String? = nil) { (self.id, self.name) = (id, name) }
  init(_ row: borrowing Row) { (id, name) = (row.objectID(Tag.self), row.value(1)) }
  func write(to row: inout RowWriter) { row.value(1, name) }
}

extension ManagedObjectModel {
  static let measured = ManagedObjectModel(
    hash: "measured",
    entities: [
      EntityDescription(
        "Photo",
        attributes: [
          AttributeDescription("displayName", .string), AttributeDescription("uniqueName", .string),
          AttributeDescription("size", .integer64),
        ],
        relationships: [RelationshipDescription("tags", to: "Tag", inverse: "photos", isToMany: true)]),
      EntityDescription(
        "Tag", attributes: [AttributeDescription("name", .string)],
        relationships: [RelationshipDescription("photos", to: "Photo", inverse: "tags", isToMany: true)]),
    ])
}
