// A world whose model has conflict policies.

import History
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

extension PhotoModel {
  /// The same model with policies: its hash is the same.
  static let withPolicies: ManagedObjectModel = {
    var model = PhotoModel.model
    for index in model.entities.indices {
      if model.entities[index].name == "Rating" {
        model.entities[index].userInfo[ReservedName.deletePolicyKey] = "editWins"
      }
      for place in model.entities[index].attributes.indices {
        let policy = ["views": "counter", "displayName": "manual", "taken": "max"][
          model.entities[index].attributes[place].name]
        if let policy { model.entities[index].attributes[place].userInfo[ReservedName.conflictPolicyKey] = policy }
      }
    }
    return model
  }()
}

extension ObjectPlaneWorld {
  static func withPolicies(_ kind: StoreKind, _ body: (ObjectPlaneWorld) async throws -> Void) async throws {
    try await with(
      kind, models: [.development: [PhotoModel.withPolicies], .production: []], keepsPastStates: true, body)
  }

  /// Saves one transaction that is exported when this returns.
  @discardableResult
  func edit(
    _ store: String, _ changes: String, token: String? = nil, scope: DatabaseScope = .private, user: String = "_alice"
  ) async throws -> JSONValue {
    let more = token.map { #","importToken":"\#($0)""# } ?? ""
    let reply = try await send(
      request("POST", "stores/\(store)/transactions", query: ["wait": "export"], user: user, scope: scope),
      #"{"transactions":[{"transactionID":"\#(random.uuid())","changes":[\#(changes)]\#(more)}]}"#)
    try #require(reply.status == 200, "\(reply.text)")
    return reply.json
  }

  func conflicts(
    _ store: String, _ query: [String: String] = [:], user: String = "_alice", scope: DatabaseScope = .private
  ) async throws -> [JSONValue] {
    let reply = try await get("\(store)/conflicts", query, user: user, scope: scope)
    try #require(reply.status == 200, "\(reply.text)")
    return reply.json["conflicts"]?.elements ?? []
  }
}
