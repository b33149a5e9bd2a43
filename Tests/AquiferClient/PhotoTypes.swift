// A small model as a generator writes it.

import AquiferClient
import FoundationEssentials

struct Photo: ManagedObject {
  struct Columns: Sendable {
    let title = Attribute<String?>("title")
    let size = Attribute<Int64>("size")
    let taken = Attribute<Date?>("taken")
    let price = Attribute<Decimal?>("price")
    let album = ToOne<Album>("album")
    let tags = ToMany<Tag>("tags")
  }
  static let entityName = "Photo"
  static let columns = Columns()

  let id: ObjectID<Photo>
  var title: String?
  var size: Int64
  var taken: Date?
  var price: Decimal?
  var place: Place?
  var image: ExternalData?
  var album: ObjectID<Album>?
  let tagCount: Int64

  var tags: FetchRequest<Tag> { FetchRequest(related: "tags", of: id.any) }

  init(
    id: ObjectID<Photo> = ObjectID(), title: String? = nil, size: Int64 = 0, taken: Date? = nil, price: Decimal? = nil,
    place: Place? = nil,
    image: ExternalData? = nil, album: ObjectID<Album>? = nil
  ) {
    (self.id, self.title, self.size, self.taken, self.price) = (id, title, size, taken, price)
    (self.place, self.image, self.album, tagCount) = (place, image, album, 0)
  }

  init(_ row: borrowing Row) {
    id = row.objectID(Photo.self)
    title = row.value(1)
    size = row.value(2)
    taken = row.value(3)
    price = row.value(4)
    place = row.value(5)
    image = row.value(6)
    tagCount = row.value(7)
    album = row.toOne(8)
  }

  func write(to row: inout RowWriter) {
    row.value(1, title)
    row.value(2, size)
    row.value(3, taken)
    row.value(4, price)
    row.value(5, place)
    row.value(6, image)
    row.toOne(8, album)
  }
}

struct Place: Composite {
  var latitude: Double?
  var name: String?
}

struct Album: ManagedObject {
  struct Columns: Sendable {
    let name = Attribute<String>("name")
    let photos = ToMany<Photo>("photos")
  }
  static let entityName = "Album"
  static let columns = Columns()

  let id: ObjectID<Album>
  var name: String

  var photos: FetchRequest<Photo> { FetchRequest(related: "photos", of: id.any) }

  init(id: ObjectID<Album> = ObjectID(), name: String = "") { (self.id, self.name) = (id, name) }
  init(_ row: borrowing Row) { (id, name) = (row.objectID(Album.self), row.value(1)) }
  func write(to row: inout RowWriter) { row.value(1, name) }
}

struct Tag: ManagedObject {
  struct Columns: Sendable {
    let name = Attribute<String?>("name")
    let photos = ToMany<Photo>("photos")
  }
  static let entityName = "Tag"
  static let columns = Columns()

  let id: ObjectID<Tag>
  var name: String?

  init(id: ObjectID<Tag> = ObjectID(), name: String? = nil) { (self.id, self.name) = (id, name) }
  init(_ row: borrowing Row) { (id, name) = (row.objectID(Tag.self), row.value(1)) }
  func write(to row: inout RowWriter) { row.value(1, name) }
}

extension ManagedObjectModel {
  static let photos = ManagedObjectModel(
    hash: "photos-a",
    entities: [
      EntityDescription(
        "Photo",
        attributes: [
          AttributeDescription("title", .string), AttributeDescription("size", .integer64, defaultValue: "0"),
          AttributeDescription("taken", .date),
          AttributeDescription("price", .decimal), AttributeDescription("place", .composite),
          AttributeDescription("image", .binary, .external),
          AttributeDescription("tagCount", .integer64, .derived, derivation: "tags.@count"),
        ],
        relationships: [
          RelationshipDescription("album", to: "Album", inverse: "photos", isToMany: false),
          RelationshipDescription("tags", to: "Tag", inverse: "photos", isToMany: true),
        ]),
      EntityDescription(
        "Album", attributes: [AttributeDescription("name", .string, .required)],
        relationships: [RelationshipDescription("photos", to: "Photo", inverse: "album", isToMany: true)]),
      EntityDescription(
        "Tag", attributes: [AttributeDescription("name", .string)],
        relationships: [RelationshipDescription("photos", to: "Photo", inverse: "tags", isToMany: true)]),
      EntityDescription("Draft", attributes: [AttributeDescription("text", .string)]),
    ], configurations: ["Cloud": ["Photo", "Album", "Tag"], "Local": ["Draft"]])
}

struct Draft: ManagedObject {
  struct Columns: Sendable { let text = Attribute<String?>("text") }
  static let entityName = "Draft"
  static let columns = Columns()

  let id: ObjectID<Draft>
  var text: String?

  init(id: ObjectID<Draft> = ObjectID(), text: String? = nil) { (self.id, self.text) = (id, text) }
  init(_ row: borrowing Row) { (id, text) = (row.objectID(Draft.self), row.value(1)) }
  func write(to row: inout RowWriter) { row.value(1, text) }
}
