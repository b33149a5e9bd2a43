// An environment's schema and models, made ready once for all requests that are served with them.

import ObjectModel
import ServiceBus
import WebServices

/// An environment's schema and models, as the directory last told.
struct EnvironmentSchema: Sendable {
  let version: Int64
  let schema: Schema
  let models: [String: ManagedObjectModel]
  let latestModelHash: String?
  /// `schema` for lookups.
  let schemaIndex: SchemaIndex
  /// `models` for lookups, by hash.
  let modelIndexes: [String: ModelIndex]

  init(version: Int64, schema: Schema, models: [String: ManagedObjectModel] = [:], latestModelHash: String? = nil) {
    self.version = version
    self.schema = schema
    self.models = models
    self.latestModelHash = latestModelHash
    schemaIndex = SchemaIndex(schema)
    modelIndexes = models.mapValues { ModelIndex($0) }
  }

  init(_ reply: FetchSchema.Reply) {
    self.init(version: reply.version, schema: reply.schema, models: reply.models, latestModelHash: reply.latestModelHash)
  }
}
