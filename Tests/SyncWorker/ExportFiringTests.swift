// Subscriptions that exports of mirrored stores fire.

import InMemoryRecordStore
import JSON
import ObjectModel
@testable import RecordPlane
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
@testable import WorkerHost

struct ExportFiringTests {
  @Test(arguments: StoreKind.allCases) func `an export fires, too, and its store is the originator`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("phone")
      let records = RecordPlaneWorld(world.store, container: ObjectPlaneWorld.container.rawValue)
      let subscribe = records.request("subscriptions/modify")
      let body =
        #"""
        {"operations":[{"operationType":"create","subscription":{"subscriptionID":"photos","subscriptionType":"query",\#
        "query":{"recordType":"CD_Photo"},"firesOn":["create","delete"],"zoneWide":true,\#
        "notificationInfo":{"additionalFields":["CD_displayName"]}}},{"operationType":"create",\#
        "subscription":{"subscriptionID":"all","subscriptionType":"database"}}]}
        """#
      _ = try await world.records.respond(to: subscribe, body: Array(body.utf8), in: world.store, startNext: {})
      _ = world.changes.take()
      _ = world.changes.takeNotifications()
      try await world.withExports {
        // An export is told of by the loop that follows it, as soon as that runs.
        var told: [SubscriptionNotification] = []
        var number = 0
        while told.isEmpty, number < 100 {
          number += 1
          let photo =
            #"""
            {"changeType":"insert","entity":"Photo","objectID":"P\#(number)","attributes":{"displayName":"Dunes"},\#
            "relationships":{}}
            """#
          let reply = try await world.save("phone", photo, query: ["wait": "export"])
          try #require(reply.status == 200, "\(reply.text)")
          told = try await Self.notifications(2, world)
        }
        let lines = try told.map { try $0.line }
        #expect(lines.first?.hasPrefix("_alice photos: qry P") == true)
        #expect(lines.first?.hasSuffix(" create") == true)
        #expect(lines.dropFirst().first == "_alice all: met com.apple.coredata.cloudkit.zone")
        #expect(told.allSatisfy { $0.originDevice == "phone" })
        #expect(
          told.first.map { String(decoding: $0.json, as: UTF8.self).contains(#""af":{"CD_displayName":"Dunes"}"#) }
            == true)
        #expect(world.changes.take().last?.hasSubscriptions == true)
        _ = try await world.save(
          "phone", #"{"changeType":"delete","entity":"Photo","objectID":"P\#(number)"}"#, query: ["wait": "export"])
        var deleted: [String] = []
        for _ in 0..<50 where !deleted.contains("_alice photos: qry P\(number) delete") {
          deleted += try await Self.notifications(1, world).map { try $0.line }
        }
        #expect(deleted.contains("_alice photos: qry P\(number) delete"))
      }
    }
  }

  /// Notifications, once there are `count`: exports are told of by a task of their own, after the answer.
  private static func notifications(_ count: Int, _ world: ObjectPlaneWorld) async throws -> [SubscriptionNotification]
  {
    var told: [SubscriptionNotification] = []
    for _ in 0..<100 where told.count < count {
      try await Task.sleep(for: .milliseconds(1))
      told += world.changes.takeNotifications()
    }
    return told
  }
}
