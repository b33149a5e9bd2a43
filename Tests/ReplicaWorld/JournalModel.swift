// The model of the stories, as a file and as code.

import ReplicaStore

/// Every kind of relationship, and large values.
let journalXML = """
  <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
  <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" usedWithCloudKit="YES">
    <entity name="Post" representedClassName="Post" syncable="YES">
      <attribute name="title" optional="YES" attributeType="String"/>
      <attribute name="score" optional="YES" attributeType="Integer 64" usesScalarValueType="NO"/>
      <attribute name="photo" optional="YES" attributeType="Binary" allowsExternalBinaryDataStorage="YES"/>
      <attribute name="sketch" optional="YES" attributeType="Binary" allowsExternalBinaryDataStorage="YES"/>
      <relationship name="cover" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Cover" \
  inverseName="post" inverseEntity="Cover"/>
      <relationship name="remarks" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Remark" \
  inverseName="post" inverseEntity="Remark"/>
      <relationship name="tags" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Tag" \
  inverseName="posts" inverseEntity="Tag"/>
    </entity>
    <entity name="Cover" representedClassName="Cover" syncable="YES">
      <attribute name="name" optional="YES" attributeType="String"/>
      <relationship name="post" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Post" \
  inverseName="cover" inverseEntity="Post"/>
    </entity>
    <entity name="Remark" representedClassName="Remark" syncable="YES">
      <attribute name="text" optional="YES" attributeType="String"/>
      <relationship name="post" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Post" \
  inverseName="remarks" inverseEntity="Post"/>
    </entity>
    <entity name="Tag" representedClassName="Tag" syncable="YES">
      <attribute name="name" optional="YES" attributeType="String"/>
      <relationship name="posts" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Post" \
  inverseName="tags" inverseEntity="Post"/>
    </entity>
  </model>
  """

/// The journal as code.
let journalEntities = [
  EntityDescription(
    "Post",
    attributes: [
      AttributeDescription("title", .string), AttributeDescription("score", .integer64),
      AttributeDescription("photo", .binary, .external), AttributeDescription("sketch", .binary, .external),
    ],
    relationships: [
      RelationshipDescription("cover", to: "Cover", inverse: "post", isToMany: false),
      RelationshipDescription("remarks", to: "Remark", inverse: "post", isToMany: true),
      RelationshipDescription("tags", to: "Tag", inverse: "posts", isToMany: true),
    ]),
  EntityDescription(
    "Cover", attributes: [AttributeDescription("name", .string)],
    relationships: [RelationshipDescription("post", to: "Post", inverse: "cover", isToMany: false)]),
  EntityDescription(
    "Remark", attributes: [AttributeDescription("text", .string)],
    relationships: [RelationshipDescription("post", to: "Post", inverse: "remarks", isToMany: false)]),
  EntityDescription(
    "Tag", attributes: [AttributeDescription("name", .string)],
    relationships: [RelationshipDescription("posts", to: "Post", inverse: "tags", isToMany: true)]),
]

extension EntityDescription {
  /// The columns of a row: attributes, then to-one relationships.
  var columns: [(name: String, isToOne: Bool)] {
    attributes.map { ($0.name, false) } + relationships.filter { !$0.isToMany }.map { ($0.name, true) }
  }

  /// - Parameter name: of the journal.
  static func columns(_ name: String) -> [(name: String, isToOne: Bool)] {
    journalEntities.first { $0.name == name }?.columns ?? []
  }
}
