// An environment's schema and models, prepared once for all requests that use them.

package import Indexing
package import Mirroring
package import ObjectModel
package import RecordStore
package import Records
package import ServiceBus
package import WebServices

/// An environment's schema and models as the directory last gave them.
package struct EnvironmentSchema: Sendable {
  package let version: Int64
  package let schema: Schema
  let models: [String: ManagedObjectModel]
  package let latestModelHash: String?
  /// `schema` for lookups.
  package let schemaIndex: SchemaIndex
  /// The grants of `schema` for the public database.
  let grants: GrantIndex
  /// `models` for lookups, by hash.
  package let modelIndexes: [String: ModelIndex]
  /// `models` for mirroring, by hash.
  package let mirrorModels: [String: MirrorModel]
  /// The latest model's rules for conflicts.
  package let conflictRules: ConflictRules
  /// The to-one fields of all models.
  package let relationshipFields: RelationshipFields
  /// How often the environment was reset.
  package let generation: Int64
  /// The unique constraints; nil if there are none.
  package let uniqueRules: UniqueRules?
  /// The custom roles of users, by record name.
  let userRoles: [String: [String]]

  init(
    version: Int64, schema: Schema, models: [String: ManagedObjectModel] = [:], latestModelHash: String? = nil,
    userRoles: [String: [String]] = [:],
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
    let formerNames = FormerNames(models.sorted { $0.key < $1.key }.map(\.value))
    let indexes = models.mapValues { ModelIndex($0, formerNames) }
    modelIndexes = indexes
    conflictRules = ConflictRules(latestModelHash.flatMap { indexes[$0] })
    mirrorModels = modelIndexes.mapValues { MirrorModel($0) }
    uniqueRules = UniqueRules(rules, models: mirrorModels, latestModelHash: latestModelHash)
    relationshipFields = RelationshipFields(models: modelIndexes.values)
  }

  /// No records, no models, no rules: for writes that need none.
  package static let none = EnvironmentSchema(version: 0, schema: .initial)

  /// The pointers out of a record for the index of references: relationships of any model, and references in the zone.
  package func references(of record: Record) -> [OutgoingReference] {
    var references = relationshipFields.references(of: record).map {
      OutgoingReference(field: $0.field, target: $0.target)
    }
    // The hierarchy below a shared record needs parents; no other record has one.
    if let parent = record.parent {
      references.append(OutgoingReference(field: ReservedName.parentReference, target: parent))
    }
    for element in record.fields {
      switch element.field.value {
      case .reference(let reference) where reference.zoneID == nil:
        references.append(
          OutgoingReference(field: element.name, target: reference.recordName, action: reference.action))
      case .list(element: .reference, let values):
        // A list may name a record twice; the index holds it once.
        var seen: Set<Reference> = []
        for case .reference(let reference) in values where reference.zoneID == nil && seen.insert(reference).inserted {
          references.append(
            OutgoingReference(field: element.name, target: reference.recordName, action: reference.action))
        }
      default: break
      }
    }
    return references
  }

  /// The asset in a field, or else in that of a former name, under which stores read it (R18).
  package func asset(in field: String, of record: Record) -> Asset? {
    if let value = record.fields[field]?.value {
      guard case .asset(let asset) = value else { return nil }
      return asset
    }
    let attributes = modelIndexes.sorted { $0.key < $1.key }.compactMap { _, model in
      model.entity(recordType: record.recordType, entityName: record.fields.string(ReservedName.entityName))?
        .mirroredAttributes.first { $0.assetFieldName == field }
    }
    for former in attributes.flatMap(\.formers).compactMap(\.assetFieldName) {
      if case .asset(let asset)? = record.fields[former]?.value { return asset }
    }
    return nil
  }

  /// The latest model, or some known model if the latest is not known.
  var anyModel: MirrorModel? {
    latestModelHash.flatMap { mirrorModels[$0] } ?? mirrorModels.min { $0.key < $1.key }?.value
  }

  /// True if the schema or the unique constraints declare the index, so that a store may keep it.
  package func declares(_ index: FieldIndex, in environment: Environment) -> Bool {
    index.kind == .unique ? uniqueRules?.indexes.contains(index) ?? false : schemaIndex.declares(index, in: environment)
  }

  package init(_ reply: FetchSchema.Reply) {
    self.init(
      version: reply.version, schema: reply.schema, models: reply.models, latestModelHash: reply.latestModelHash,
      userRoles: reply.userRoles ?? [:],
      generation: reply.generation ?? 0, rules: reply.rules ?? .none)
  }
}

/// Where workers get schemas from: a cache over the share service, or a fixed value in tests.
package protocol SchemaSource: Sendable {
  /// - Throws: `RecordError.notFound` for an unknown container, `.tryAgainLater` if the directory is away and
  ///   nothing is cached.
  func schema(of container: ContainerID, _ environment: Environment) async throws(RecordError) -> EnvironmentSchema
  /// Adds to a development schema; returns when the directory has it.
  func extend(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) async throws(RecordError)
  /// The standing of a user without a request; nil if there is none, or the directory is silent.
  func standing(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async -> UserStanding?
}
