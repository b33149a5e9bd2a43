// The answer to a pushed or validated model (docs/protocol/mirror-api.md#models-and-schemas): the same bytes
// from the server and offline.

import JSON
public import ObjectModel
import Records

public enum ModelAnswer {
  /// The answer for a model that can be mirrored, or for a schema text.
  /// - Parameters:
  ///   - index: nil if the environment has no model.
  ///   - configuration: lists its entities only; nil, or a configuration that the model lacks, lists all.
  ///   - added: the parts that the schema gained or would gain.
  ///   - schema: the schema's text, if the request asked for it.
  ///   - consequences: nil if the request did not ask for them.
  public static func json(
    _ index: ModelIndex?, configuration: String?, added: [SchemaFieldName], schema: String?,
    consequences: SchemaConsequences? = nil
  ) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 4096)
    writer.beginObject()
    writeText(index?.modelHash, "modelHash", to: &writer)
    writer.key("entities")
    writer.beginArray()
    if let index {
      for entity in index.entities(inConfiguration: configuration) ?? index.entities { write(entity, to: &writer) }
    }
    writer.endArray()
    writer.key("added")
    writer.beginArray()
    for field in added {
      writer.beginObject()
      writer.member("recordType", field.recordType)
      writer.key("field")
      if let name = field.field { writer.string(name) } else { writer.null() }
      writer.endObject()
    }
    writer.endArray()
    consequences?.write(to: &writer)
    if let schema { writer.member("schema", schema) }
    writer.endObject()
    return writer.bytes
  }

  /// The body of the 422 for a model that cannot be mirrored, with all of its problems.
  /// - Parameter uuid: the request's identifier; nil offline.
  public static func refusal(_ problems: [ModelProblem], uuid: String?) -> [UInt8] {
    let count = problems.count == 1 ? "one problem" : "\(problems.count) problems"
    let error = RecordError(.badRequest, "The model has \(count)", cocoaErrorCode: .mirroring)
    var writer = JSONWriter(reservingByteCount: 1024)
    writer.beginObject()
    if let uuid { writer.member("uuid", uuid) }
    error.writeMembers(to: &writer)
    writer.key("problems")
    writer.beginArray()
    for problem in problems {
      writer.beginObject()
      writeText(problem.entity, "entity", to: &writer)
      writeText(problem.property, "property", to: &writer)
      writer.member("rule", problem.rule.rawValue)
      writer.member("message", problem.message)
      writer.member("suggestion", problem.suggestion)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  private static func write(_ entity: EntityDescription, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("name", entity.name)
    writer.member("rootEntity", entity.rootName)
    writer.member("recordType", entity.recordType)
    writer.member("isAbstract", entity.isAbstract)
    writer.key("attributes")
    writer.beginArray()
    for attribute in entity.attributes {
      writer.beginObject()
      writer.member("name", attribute.name)
      writer.member("type", attribute.type.rawValue)
      writeText(attribute.isMirrored ? attribute.fieldName : nil, "field", to: &writer)
      if attribute.isMirrored, let asset = attribute.assetFieldName { writer.member("assetField", asset) }
      if attribute.isEncrypted { writer.member("isEncrypted", true) }
      writer.endObject()
    }
    writer.endArray()
    writer.key("relationships")
    writer.beginArray()
    for relationship in entity.relationships {
      writer.beginObject()
      writer.member("name", relationship.name)
      writer.member("destination", relationship.destinationName)
      writer.member("isToMany", relationship.isToMany)
      writeText(relationship.inverse?.name, "inverse", to: &writer)
      // A to-one has a field, and a many-to-many has records; the to-many side of a one-to-many is stored in its
      // inverse's field.
      if case .field(let name) = relationship.storage { writer.member("field", name) }
      if relationship.link != nil { writer.member("recordType", ReservedName.linkRecordType) }
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
  }

  private static func writeText(_ text: String?, _ name: String, to writer: inout JSONWriter) {
    writer.key(name)
    if let text { writer.string(text) } else { writer.null() }
  }
}
