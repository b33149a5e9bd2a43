// Brings a file to another version of its model, in the transaction that opens it.

import SQLite

struct Migration {
  private let connection: Connection
  private let earlier: StoreSchema
  private let schema: StoreSchema
  private let configuration: ReplicaConfiguration

  init(_ connection: Connection, from earlier: StoreSchema, to schema: StoreSchema, _ configuration: ReplicaConfiguration) {
    self.connection = connection
    self.earlier = earlier
    self.schema = schema
    self.configuration = configuration
  }

  func run() throws { throw StoreError.migration(problems: ["none"]) }
}
