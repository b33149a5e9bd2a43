// An environment's schema and models, prepared once for all requests that use them.

import Indexing
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import WebServices

/// An environment's schema and models as the directory last gave them.
struct EnvironmentSchema: Sendable {
  let version: Int64
  let schema: Schema
  let models: [String: ManagedObjectModel]
  let latestModelHash: String?
  /// `schema` for lookups.
  let schemaIndex: SchemaIndex
  /// The grants of `schema` for the public database.
  let grants: GrantIndex
  /// `models` for lookups, by hash.
  let modelIndexes: [String: ModelIndex]
  /// `models` for mirroring, by hash.
  let mirrorModels: [String: MirrorModel]
  /// The latest model's rules for conflicts.
  let conflictRules: ConflictRules
  /// The to-one fields of all models.
  let relationshipFields: RelationshipFields
  /// How often the environment was reset.
  let generation: Int64
  /// The unique constraints; nil if there are none.
  let uniqueRules: UniqueRules?
  /// The custom roles of users, by record name.
  let userRoles: [String: [String]]

  init(
    version: Int64, schema: Schema, models: [String: ManagedObjectModel] = [:], latestModelHash: String? = nil, userRoles: [String: [String]] = [:],
    generation: Int64 = 0, rules: EnvironmentRules = .none
  ) {
    self.generation = generation
    self.version = version
    self.userRoles = userRoles
    self.schema = schema
    self.models = models
    self.latestModelHash = latestModelHash
    schemaIndex = SchemaIndex(schema)
    grants = GrantIndex(schema)
    let indexes = models.mapValues { ModelIndex($0) }
    modelIndexes = indexes
    conflictRules = ConflictRules(latestModelHash.flatMap { indexes[$0] })
    mirrorModels = modelIndexes.mapValues { MirrorModel($0) }
    uniqueRules = UniqueRules(rules, models: mirrorModels, latestModelHash: latestModelHash)
    relationshipFields = RelationshipFields(models: modelIndexes.values)
  }

  /// No records, no models, no rules: for writes that need none.
  static let none = EnvironmentSchema(version: 0, schema: .initial)

  /// The pointers out of a record for the index of references: relationships of any model, and references in the zone.
  func references(of record: Record) -> [OutgoingReference] {
    var references = relationshipFields.references(of: record).map { OutgoingReference(field: $0.field, target: $0.target) }
    // The hierarchy below a shared record needs parents; no other record has one.
    if let parent = record.parent { references.append(OutgoingReference(field: ReservedName.parentReference, target: parent)) }
    for element in record.fields {
      switch element.field.value {
      case .reference(let reference) where reference.zoneID == nil:
        references.append(OutgoingReference(field: element.name, target: reference.recordName, action: reference.action))
      case .list(element: .reference, let values):
        // A list may name a record twice; the index holds it once.
        var seen: Set<Reference> = []
        for case .reference(let reference) in values where reference.zoneID == nil && seen.insert(reference).inserted {
          references.append(OutgoingReference(field: element.name, target: reference.recordName, action: reference.action))
        }
      default: break
      }
    }
    return references
  }

  /// The latest model, or some known model if the latest is not known.
  var anyModel: MirrorModel? { latestModelHash.flatMap { mirrorModels[$0] } ?? mirrorModels.min { $0.key < $1.key }?.value }

  /// True if the schema or the unique constraints declare the index, so that a store may keep it.
  func declares(_ index: FieldIndex, in environment: Environment) -> Bool {
    index.kind == .unique ? uniqueRules?.indexes.contains(index) ?? false : schemaIndex.declares(index, in: environment)
  }

  init(_ reply: FetchSchema.Reply) {
    self.init(
      version: reply.version, schema: reply.schema, models: reply.models, latestModelHash: reply.latestModelHash, userRoles: reply.userRoles ?? [:],
      generation: reply.generation ?? 0, rules: reply.rules ?? .none)
  }
}
