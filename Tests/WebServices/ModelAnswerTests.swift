import JSON
import ObjectModel
import Testing
import WebServices

private let index = ModelIndex(
  ManagedObjectModel(entities: [
    Entity(
      name: "Post",
      attributes: [
        Attribute(name: "title", type: .string), Attribute(name: "draft", type: .string, isTransient: true),
        Attribute(name: "secret", type: .integer64, allowsCloudEncryption: true),
      ],
      relationships: [
        Relationship(
          name: "tags", destinationName: "Tag", inverseName: "posts", inverseEntityName: "Tag", isToMany: true),
        Relationship(
          name: "parent", destinationName: "Post", inverseName: "children", inverseEntityName: "Post", isToMany: false),
        Relationship(
          name: "children", destinationName: "Post", inverseName: "parent", inverseEntityName: "Post", isToMany: true),
      ]),
    Entity(name: "ImagePost", parentName: "Post"),
    Entity(
      name: "Tag",
      relationships: [
        Relationship(
          name: "posts", destinationName: "Post", inverseName: "tags", inverseEntityName: "Post", isToMany: true)
      ]),
  ]))

@Test func `a model is answered with its entities and where they are stored`() throws {
  let answer = try JSONValue(
    parsing: ModelAnswer.json(
      index, configuration: nil,
      added: [
        SchemaFieldName(recordType: "CD_Post", field: "CD_title"), SchemaFieldName(recordType: "CDMR", field: nil),
      ], schema: nil))
  #expect(answer["modelHash"]?.string == index.modelHash)
  let entities = answer["entities"]?.elements ?? []
  #expect(entities.map { $0["name"]?.string } == ["ImagePost", "Post", "Tag"])
  #expect(entities.map { $0["rootEntity"]?.string } == ["Post", "Post", "Tag"])
  #expect(entities.map { $0["recordType"]?.string } == ["CD_Post", "CD_Post", "CD_Tag"])
  let attributes = entities[0]["attributes"]?.elements ?? []
  #expect(attributes.map { $0["name"]?.string } == ["draft", "secret", "title"])
  #expect(attributes.map { $0["field"]?.string } == [nil, "CD_secret", "CD_title"])
  #expect(attributes.map { $0["assetField"]?.string } == [nil, nil, "CD_title_ckAsset"])
  #expect(attributes.map { $0["isEncrypted"]?.bool } == [nil, true, nil])
  let relationships = entities[0]["relationships"]?.elements ?? []
  #expect(relationships.map { $0["name"]?.string } == ["children", "parent", "tags"])
  #expect(relationships.map { $0["field"]?.string } == [nil, "CD_parent", nil])
  #expect(relationships.map { $0["recordType"]?.string } == [nil, nil, "CDMR"])
  #expect(answer["added"]?.elements.map { $0["field"]?.string } == ["CD_title", nil])
  #expect(answer["schema"] == nil)
}

@Test func `a refused model is answered with all problems at once`() throws {
  let bad = ModelIndex(
    ManagedObjectModel(entities: [
      Entity(
        name: "A", attributes: [Attribute(name: "x", type: .objectID)],
        relationships: [
          Relationship(
            name: "b", destinationName: "A", inverseName: nil, inverseEntityName: nil, isToMany: true, isOrdered: true)
        ])
    ]))
  let problems = ModelValidator.problems(of: bad)
  #expect(problems.count >= 3)
  let answer = try JSONValue(parsing: ModelAnswer.refusal(problems, uuid: "U"))
  #expect(answer["uuid"]?.string == "U")
  #expect(answer["serverErrorCode"]?.string == "BAD_REQUEST")
  #expect(answer["cocoaErrorCode"]?.int64 == 134060)
  let listed = answer["problems"]?.elements ?? []
  #expect(listed.count == problems.count)
  for (element, problem) in zip(listed, problems) {
    #expect(element["entity"]?.string == problem.entity)
    #expect(element["property"]?.string == problem.property)
    #expect(element["rule"]?.string == problem.rule.rawValue)
    #expect(element["message"]?.string == problem.message)
    #expect(element["suggestion"]?.string == problem.suggestion)
  }
  #expect(try JSONValue(parsing: ModelAnswer.refusal(problems, uuid: nil))["uuid"] == nil)
}
