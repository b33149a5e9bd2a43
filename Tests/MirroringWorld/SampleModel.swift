// The models of the mirroring tests.

package import Mirroring
package import ObjectModel
import Records

package enum Sample {
  package static let model = ManagedObjectModel(entities: [
    Entity(
      name: "Post",
      attributes: [
        Attribute(name: "title", type: .string), Attribute(name: "content", type: .string),
        Attribute(name: "score", type: .integer16, defaultValue: "7"),
        Attribute(name: "draft", type: .string, isTransient: true),
        Attribute(name: "wordCount", type: .integer64, isDerived: true),
        Attribute(name: "scratch", type: .string, userInfo: [ReservedName.ignoredPropertyKey: "YES"]),
      ],
      relationships: [
        toMany("attachments", "Attachment", "post"), toMany("tags", "Tag", "posts"), toOne("cover", "Cover", "post"),
        toOne("author", "Person", "posts"),
      ]),
    Entity(
      name: "Attachment", attributes: [Attribute(name: "name", type: .string)],
      relationships: [toOne("post", "Post", "attachments")]),
    Entity(
      name: "Cover", attributes: [Attribute(name: "data", type: .binary)],
      relationships: [toOne("post", "Post", "cover")]),
    Entity(
      name: "Tag", attributes: [Attribute(name: "name", type: .string)],
      relationships: [toMany("posts", "Post", "tags")]),
    Entity(
      name: "Person", attributes: [Attribute(name: "name", type: .string)],
      relationships: [
        toMany("parents", "Person", "children"), toMany("children", "Person", "parents"),
        toMany("friends", "Person", "friends"),
        toOne("spouse", "Person", "spouse"), toMany("posts", "Post", "author"), toMany("pictures", "Photo", "people"),
      ]),
    Entity(
      name: "Photo", attributes: [Attribute(name: "caption", type: .string)],
      relationships: [toMany("people", "Person", "pictures")]),
    Entity(name: "Picture", parentName: "Photo", attributes: [Attribute(name: "frame", type: .string)]),
    Entity(name: "apple", relationships: [toMany("bananas", "Banana", "apples")]),
    Entity(name: "Banana", relationships: [toMany("apples", "apple", "bananas")]),
    everything,
  ])

  /// One attribute of every type, optional and without defaults.
  package static let everything = Entity(
    name: "Everything",
    attributes: AttributeType.allCases.filter { $0 != .undefined && $0 != .objectID }.map { type in
      let elements: [Attribute] =
        type == .composite
        ? [
          Attribute(name: "city", type: .string), Attribute(name: "number", type: .integer32),
          Attribute(name: "since", type: .date),
          Attribute(name: "area", type: .double), Attribute(name: "price", type: .decimal),
          Attribute(name: "isHome", type: .boolean),
          Attribute(name: "id", type: .uuid), Attribute(name: "key", type: .binary),
        ] : []
      return Attribute(name: String(describing: type), type: type, elements: elements)
    })

  package static let index = ModelIndex(model)
  package static let links = LinkResolver(index)

  package static func entity(_ name: String) -> EntityDescription { index.entity(named: name)! }

  package static func toOne(_ name: String, _ destination: String, _ inverse: String) -> Relationship {
    Relationship(
      name: name, destinationName: destination, inverseName: inverse, inverseEntityName: destination, isToMany: false)
  }

  package static func toMany(_ name: String, _ destination: String, _ inverse: String) -> Relationship {
    Relationship(
      name: name, destinationName: destination, inverseName: inverse, inverseEntityName: destination, isToMany: true)
  }
}
