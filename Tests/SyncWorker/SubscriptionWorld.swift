// Shortcuts for tests of subscriptions on the record plane, and one-line forms of notifications.

import JSON
import RecordStore
import Records
import ServiceBus
import Testing

extension RecordPlaneWorld {
  /// Creates a subscription; its type gives the parts that `text` leaves out.
  @discardableResult func subscribe(
    _ identifier: String, _ text: String, user: String = "_alice", scope: DatabaseScope = .private,
    operation: String = "create"
  ) async throws -> PlaneReply {
    try await post(
      "subscriptions/modify",
      #"""
      {"operations":[{"operationType":"\#(operation)","subscription":{"subscriptionID":"\#(identifier)",\#(text)}}]}
      """#,
      user: user,
      scope: scope)
  }

  /// A subscription to notes; `filters` as JSON.
  func subscribeToNotes(
    _ identifier: String, on events: String = #""create","update","delete""#, filters: String = "[]", more: String = "",
    user: String = "_alice",
    scope: DatabaseScope = .private
  ) async throws {
    let query = #""query":{"recordType":"Note","filterBy":\#(filters)},"firesOn":[\#(events)]"#
    let reply = try await subscribe(
      identifier, #""subscriptionType":"query",\#(query)\#(more)"#, user: user, scope: scope)
    try #require(reply.json["subscriptions"]?.elements.first?.code == nil, "\(reply.text)")
  }

  /// The notifications since the last call, as `user subscription: what`.
  func told() throws -> [String] { try changes.takeNotifications().map { try $0.line } }
}

extension SubscriptionNotification {
  /// `user subscription: qry record event`, `… fet zone`, `… met zone`.
  var line: String {
    get throws {
      let ck = try #require(try JSONValue(parsing: json)["ck"])
      #expect(ck["nid"]?.string == notificationID)
      #expect(ck["cid"]?.string == container.rawValue)
      let kind = try #require(["qry", "fet", "met"].first { ck[$0] != nil })
      let subject = try #require(ck[kind])
      #expect(subject["sid"]?.string == subscriptionID)
      let event = subject["fo"]?.int64.map { " " + ["?", "create", "update", "delete"][Int($0)] } ?? ""
      return
        "\(userRecordName) \(subscriptionID): \(kind) \(subject["rid"]?.string ?? subject["zid"]?.string ?? "")\(event)"
    }
  }
}
