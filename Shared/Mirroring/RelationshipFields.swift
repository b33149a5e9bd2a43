// Finds the fields that point to other records, on both planes: they fill the index of references.

public import ObjectModel
public import Records

/// The to-one fields of every record type, in all models of an environment.
///
/// A record is indexed by the relationships of every model version, so that a deletion by a client with a later model
/// finds the pointers that earlier clients wrote.
public struct RelationshipFields: Sendable {
  /// Field names by record type, ascending.
  private let fieldNames: [String: [String]]

  public init(models: some Sequence<ModelIndex>) {
    var names: [String: Set<String>] = [:]
    for model in models {
      for entity in model.entities {
        for relationship in entity.mirroredToOnes {
          if case .field(let name) = relationship.storage { names[entity.recordType, default: []].insert(name) }
        }
      }
    }
    fieldNames = names.mapValues { $0.sorted() }
  }

  /// The names of a record type's to-one fields, ascending.
  public func fieldNames(ofRecordType recordType: String) -> [String] { fieldNames[recordType] ?? [] }

  /// A record's pointers: its to-one fields, or both ends of a link record under `CD_recordNames`.
  public func references(of record: Record) -> [(field: String, target: String)] {
    if let link = LinkRecord(record) {
      let (first, second) = link.recordNames
      let field = ReservedName.linkRecordNames
      return first == second ? [(field, first)] : [(field, first), (field, second)]
    }
    return fieldNames(ofRecordType: record.recordType).compactMap { name in
      record.fields.string(name).flatMap { $0.isEmpty ? nil : (name, $0) }
    }
  }
}
