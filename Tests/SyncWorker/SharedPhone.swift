// A device with a store of the shared database, and the changes that tests save.

import Assets
import Foundation
import InMemoryRecordStore
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Sharing
import Synchronization
import Testing
import WebServices

@testable import ObjectPlane
@testable import RecordPlane
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneCommit

/// The participant's phone.
struct Phone {
  let world: SharedWorld
  var graph = DeviceGraph()
  var token: String?

  init(_ world: SharedWorld) { self.world = world }

  /// Pulls pages until there are no more.
  @discardableResult
  mutating func pull(limit: Int? = nil) async throws -> [JSONValue] {
    var all: [JSONValue] = []
    while true {
      var query: [String: String] = [:]
      if let token { query["after"] = token }
      if let limit { query["limit"] = String(limit) }
      let reply = try await world.send("GET", "changes", query)
      try #require(reply.status == 200, "\(reply.text)")
      let changes = reply.json["changes"]?.elements ?? []
      for change in changes { graph.apply(change) }
      all += changes
      token = reply.json["importToken"]?.string
      if reply.json["moreComing"]?.bool != true { return all }
    }
  }
}

/// Changes as a participant's phone saves them.
enum SharedChange {
  static func change(
    _ kind: String, _ entity: String, _ id: String, _ attributes: String = "", _ relationships: String = ""
  ) -> String {
    #"""
    {"changeType":"\#(kind)","entity":"\#(entity)","objectID":"\#(id)","attributes":{\#(attributes)},\#
    "relationships":{\#(relationships)}}
    """#
  }

  static func rating(_ id: String, of photo: String) -> String {
    change("insert", "Rating", id, #""value":5"#, #""photo":"\#(photo)""#)
  }
  static func rename(_ photo: String, _ name: String) -> String {
    change("update", "Photo", photo, #""displayName":"\#(name)""#)
  }
}
