// Processing common to all requests: the gateway's parsing, the bus's messages, and notifications.

import Authentication
import Gateway
import HTTPServer
import MessagePack
import Notifier
import Records
import ServiceBus
import WebServices

extension HotPath {
  static func wire() throws -> [HotPath] { try gateway() + bus() + pings() }

  private static func gateway() -> [HotPath] {
    let table = RouteTable()
    let target =
      """
      /database/1/iCloud.org.example.notes/production/private/records/modify?clientBuildNumber=2604&\
      clientId=6F0C2E61-4B7D-4C5E-8E1B-000000000000
      """
    let headers = [
      ("host", "sync.example.org"), ("authorization", "Bearer wat_0123456789abcdef0123456789abcdef"),
      ("content-type", "application/json"),
      ("content-length", "1201"),
    ]
    let asset = AssetURL(shard: 3, hash: Notes.key, expiry: 1_795_160_900)
    let assetPath = asset.path(signedWith: Notes.key).split(separator: "/").map(String.init)
    guard let container = ContainerID(rawValue: "iCloud.org.example.notes") else {
      fatalError("the container's name is valid")
    }
    let courier = CourierToken(
      container: container, environment: .production, userRecordName: Notes.user, clientID: "phone", grant: "grant",
      expiry: 1_795_160_900_000
    ).text(signedWith: Notes.key)
    return [
      HotPath("request: target, route and credentials") {
        let parts = try RequestTarget(target)
        let request = HTTPRequest(
          method: .post, target: target, pathSegments: parts.pathSegments, query: parts.query, headers: headers,
          body: [], remoteAddress: "127.0.0.1")
        guard case .match(let match) = table.outcome(of: request.method, request.pathSegments),
          Credentials(of: request).isBearer
        else { return 0 }
        return match.databaseRoute.map { $0.plane == .record ? 1 : 0 } ?? 0
      },
      HotPath("asset URL: verify") {
        AssetURL(segments: assetPath, signedWith: Notes.key, now: 1_795_160_000)?.shard ?? 0
      },
      HotPath("courier token: verify") {
        CourierToken(text: courier, verifiedWith: Notes.key, now: 1_795_160_000_000)?.clientID.utf8.count ?? 0
      },
    ]
  }

  private static func bus() throws -> [HotPath] {
    let request = DatabaseRequest(
      plane: .record, method: "POST", path: ["records", "modify"],
      query: ["clientId": "6F0C2E61-4B7D-4C5E-8E1B-000000000000"], database: try database(),
      scope: .private, caller: Caller(userRecordName: Notes.user, standing: UserStanding(roles: ["editor"])),
      requestID: Notes.name(1),
      baseURL: "https://sync.example.org", traceID: Notes.name(1))
    let reply = DatabaseRequest.Reply(status: 200, contentType: nil, retryAfter: nil, mayWait: true)
    let (requestBytes, replyBytes) = (try request.encoded(), try DatabaseRequest.encoded(reply))
    return [
      HotPath("database request: encode") { try request.encoded().count },
      HotPath("database request: decode") { try DatabaseRequest.decoded(from: requestBytes).route.hashValue },
      HotPath("database reply: encode") { try DatabaseRequest.encoded(reply).count },
      HotPath("database reply: decode") { try DatabaseRequest.decodedReply(from: replyBytes).status },
    ]
  }

  private static func pings() throws -> [HotPath] {
    let change = ZoneChange(
      database: try database(), zoneName: Notes.zone.zoneName, sequence: 123_456,
      syncToken: SyncToken(.zone, incarnation: 0x1234_5678_9abc_def0, sequence: 123_456).text,
      originStore: Notes.name(2), audience: [Notes.user], traceID: Notes.name(1))
    let message = PushZoneChanges(changes: [change])
    let bytes = try message.encoded()
    let content = NotificationContent(
      container: change.database.container, scope: .private, subscriptionID: "notes", info: nil,
      change: .zone(Notes.zone))
    return [
      HotPath("zone change: encode") { try message.encoded().count },
      HotPath("zone change: decode") { try PushZoneChanges.decoded(from: bytes).changes.count },
      HotPath("ping of a zone: write") { Ping(change, as: .private, notificationID: Notes.name(3)).json.count },
      HotPath("ping of a subscription: write") { content.json(notificationID: Notes.name(3)).count },
    ]
  }

  private static func database() throws -> DatabaseID {
    guard let container = ContainerID(rawValue: "iCloud.org.example.notes") else {
      fatalError("the container's name is valid")
    }
    return DatabaseID(container: container, environment: .production, owner: Notes.user)
  }
}
