// Which fields of a record point to other records: what the index of references is filled from, for both planes.

public import ObjectModel
public import Records

/// The to-one fields of every record type in all models of an environment.
///
/// A record written by a client of one model version is indexed with the relationships of every version, so that a newer
/// client's deletion finds the pointers an older one wrote.
public struct RelationshipFields: Sendable {
  /// By record type, ascending.
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

  /// The names of the to-one fields of a record type, ascending.
  public func fieldNames(ofRecordType recordType: String) -> [String] { fieldNames[recordType] ?? [] }

  /// The pointers out of a record: its to-one fields, or both ends of a link record under `CD_recordNames`.
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
