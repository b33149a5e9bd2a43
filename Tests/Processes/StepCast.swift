// The cast of the step-by-step kills: three users over two workers, their operations on graphs, and their views.

import Foundation
import Records
import Testing

/// A post with two attachments and a tag, and the state of its sharing.
struct StepGraph: Sendable {
  let post: String
  private(set) var attachments: [String]
  let tag: String
  /// An attachment that bob adds.
  let bobs: String
  /// The share's zone; nil before it is shared.
  var zoneName: String?
  var shortGUID = ""
  /// True when the objects are in the share's zone.
  var isInside = false
  var isShared = false
  var bobIsIn = false
  var carolIsIn = false

  init(_ number: Int) {
    func id(_ kind: Int) -> String { String(format: "%08X-0000-4000-8000-%012X", number, kind) }
    post = id(1)
    attachments = [id(2), id(3)]
    tag = id(4)
    bobs = id(5)
  }

  mutating func addBobs() { attachments.append(bobs) }

  var objectIDs: [String] { [post] + attachments + [tag] }

  /// The graph for every user who sees it.
  var graph: Graph {
    var graph = Graph()
    graph.objects[post] = Graph.Object(entity: "Post", attributes: ["title": .string(post), "isPinned": false])
    for id in attachments {
      graph.objects[id] = Graph.Object(
        entity: "Attachment", attributes: ["fileName": .string(id)], toOnes: ["post": post])
    }
    graph.objects[tag] = Graph.Object(entity: "Tag", attributes: ["name": .string(tag)])
    graph.pairs = [Graph.Pair(tag, post)]
    return graph
  }

  private func insert(_ attachment: String) -> Value {
    MainJob.insert("Attachment", attachment, ["fileName": .string(attachment)], ["post": .string(post)])
  }

  var bobsInserts: [Value] { [insert(bobs)] }

  var inserts: [Value] {
    [MainJob.insert("Post", post, ["title": .string(post)])]
      + attachments.map(insert)
      + [MainJob.insert("Tag", tag, ["name": .string(tag)], ["posts": [.string(post)]])]
  }
}

/// A device with its copy of all objects, as a client library keeps it.
actor StepDevice {
  nonisolated let device: Device
  private(set) var graph = Graph()
  private var token = Value.null
  /// Changes imported since the last look.
  private(set) var news: [Value] = []

  init(_ device: Device) { self.device = device }

  /// Imports all pages, repeating requests that are told to come later.
  func pull() async throws {
    while true {
      let query =
        token.string.map { "?after=" + ($0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "") } ?? ""
      let page = try await device.repeated("GET", "/changes\(query)")
      for change in page["changes"].elements { try graph.apply(change) }
      news += page["changes"].elements
      token = page["importToken"]
      if page["moreComing"].bool != true && page["caughtUp"].bool == true { return }
    }
  }

  /// Imports repeatedly. At each time the owner must have the whole graph in one zone, and a guest the whole graph or
  /// nothing.
  func watch(_ shape: StepGraph, asOwner: Bool, _ note: Comment) async throws {
    while !Task.isCancelled {
      try await pull()
      let part = part(shape)
      #expect(part == shape.graph || !asOwner && part == Graph(), note)
      #expect(zones(of: shape).count <= 1, note)
    }
  }

  /// Adds an object saved on this device, which is not imported.
  func have(_ id: String, _ object: Graph.Object) { graph.objects[id] = object }

  func takeNews() -> [Value] {
    defer { news = [] }
    return news
  }

  /// The copy's part that belongs to a graph.
  func part(_ shape: StepGraph) -> Graph {
    var part = Graph()
    part.objects = graph.objects.filter { shape.objectIDs.contains($0.key) }
    part.pairs = graph.pairs.filter { pair in pair.ends.contains { shape.objectIDs.contains($0) } }
    return part
  }

  /// The zones of the graph's objects in the copy.
  func zones(of shape: StepGraph) -> Set<String> {
    Set(part(shape).objects.values.map { $0.zone["zoneName"].string ?? "?" })
  }
}

/// The result of one attempt.
enum StepOutcome: Sendable {
  case answered(Value)
  /// There is no answer, or it is "later".
  case unanswered
}

extension Device {
  /// Makes one attempt.
  func attempt(_ method: String, _ path: String, _ body: Value? = nil, requestID: String) async throws -> StepOutcome {
    let bytes = try body?.json
    // Dropped because a broken connection leaves the outcome open.
    guard
      let answer = try? await user.app.installation.send(
        method, url + path, bearer: user.token, headers: [("X-Request-ID", requestID)], bytes: bytes)
    else {
      return .unanswered
    }
    if answer.status == 503 || answer.text.contains("TRY_AGAIN_LATER") { return .unanswered }
    guard answer.status == 200 else { throw Unexpected("\(method) \(path): \(answer.status) \(answer.text)") }
    return .answered(try answer.json)
  }

  /// Repeats the same request until it is answered.
  func repeated(_ method: String, _ path: String, _ body: Value? = nil, requestID: String = UUID().uuidString)
    async throws -> Value
  {
    for _ in 0..<1000 {
      if case .answered(let answer) = try await attempt(method, path, body, requestID: requestID) { return answer }
      try await Task.sleep(for: .milliseconds(20))
    }
    throw Unexpected("\(method) \(path) is not answered")
  }
}

/// The users who request the operations, and their devices.
struct StepPeople: Sendable {
  let alice, bob, carol: User
  let phone, bobs: Device
}

/// The owner, two guests, and their devices. Different workers hold the owner's shard and the first guest's.
final class StepCast {
  static let home = "com.apple.coredata.cloudkit.zone"

  let installation: Installation
  let people: StepPeople
  /// The workers' names.
  let (ownersWorker, guestsWorker): (String, String)
  /// The observing devices: alice's other device, and those of the guests.
  let (tablet, bobs, carols): (StepDevice, StepDevice, StepDevice)
  /// Another device of alice's, which imports while a process is away.
  let watcher: StepDevice

  var alice: User { people.alice }
  var bob: User { people.bob }
  var carol: User { people.carol }
  var phone: Device { people.phone }

  init(_ installation: Installation) async throws {
    self.installation = installation
    let app = try await App(
      installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
    let holders = try await installation.admin("GET", "/admin/1/shards")["shards"].elements.map {
      $0["worker"].string ?? ""
    }
    let container = try #require(ContainerID(rawValue: app.container))
    let layout = try #require(ShardLayout(createdCount: holders.count))
    func shard(_ user: User) -> Int {
      layout.shard(of: DatabaseID(container: container, environment: .development, owner: user.recordName))
    }
    let alice = try await app.user("alice", email: "alice@example.org")
    ownersWorker = holders[shard(alice)]
    var (found, number): (User?, Int) = (nil, 0)
    while found == nil {
      let user = try await app.user("bob \(number)", email: "bob\(number)@example.org")
      if holders[shard(user)] != holders[shard(alice)] { found = user }
      number += 1
    }
    let bob = try #require(found)
    guestsWorker = holders[shard(bob)]
    let carol = try await app.user("carol", email: "carol@example.org")
    tablet = StepDevice(try await alice.device("tablet"))
    watcher = StepDevice(try await alice.device("watcher"))
    let device = try await bob.device("b", in: "shared")
    bobs = StepDevice(device)
    people = StepPeople(alice: alice, bob: bob, carol: carol, phone: try await alice.device("phone"), bobs: device)
    carols = StepDevice(try await carol.device("c", in: "shared"))
  }

  /// Makes a graph in the default zone and imports it on alice's tablet.
  func make(_ number: Int) async throws -> StepGraph {
    let shape = StepGraph(number)
    _ = try await phone.repeated(
      "POST", "/transactions?wait=export", Device.transactions(shape.inserts, id: UUID().uuidString))
    try await tablet.pull()
    try await watcher.pull()
    _ = await tablet.takeNews()
    #expect(await tablet.part(shape) == shape.graph)
    return shape
  }
}

/// The operations on a graph, in order.
enum StepOperation: String, CaseIterable {
  case share, accept, write, moveOut, moveIn, leave, stop

  var isMove: Bool { [.share, .moveOut, .moveIn].contains(self) }
  /// True when another request for the same operation gets the same answer afterwards; leaving and stopping find
  /// nothing the second time.
  var isRepeatable: Bool { ![.leave, .stop, .write].contains(self) }
}

extension StepPeople {
  /// Makes one attempt.
  func attempt(_ operation: StepOperation, _ shape: StepGraph, requestID: String) async throws -> StepOutcome {
    let zoneID: Value = ["zoneName": .string(shape.zoneName ?? ""), "ownerRecordName": .string(alice.recordName)]
    switch operation {
    case .share:
      let people = [(bob, "READ_WRITE"), (carol, "READ_ONLY")].map { user, permission -> Value in
        [
          "type": "USER", "permission": .string(permission),
          "userIdentity": ["lookupInfo": ["userRecordName": .string(user.recordName)]],
        ]
      }
      let body: Value = [
        "objectIDs": [.string(shape.attachments[1])], "to": nil, "title": .string(shape.post),
        "participants": .array(people),
      ]
      return try await phone.attempt("POST", "/shares", body, requestID: requestID)
    case .accept:
      return try await bobs.attempt(
        "POST", "/accept", ["shortGUIDs": [["value": .string(shape.shortGUID)]]], requestID: requestID)
    case .write:
      return try await bobs.attempt(
        "POST", "/transactions?wait=export", Device.transactions(shape.bobsInserts, id: requestID), requestID: requestID
      )
    case .moveOut:
      return try await phone.attempt(
        "POST", "/move", ["objectIDs": [.string(shape.tag)], "to": nil], requestID: requestID)
    case .moveIn:
      return try await phone.attempt(
        "POST", "/move", ["objectIDs": [.string(shape.post)], "to": zoneID], requestID: requestID)
    case .leave: return try await bobs.attempt("POST", "/purge", ["zoneID": zoneID], requestID: requestID)
    case .stop:
      let operations: Value = [["operationType": "forceDelete", "record": ["recordName": "cloudkit.zoneshare"]]]
      return try await alice.attempt(
        "records/modify", ["zoneID": zoneID, "operations": operations], requestID: requestID)
    }
  }
}

extension StepCast {
  /// The graph after the whole operation.
  func done(_ operation: StepOperation, _ shape: StepGraph, in zoneName: String?) -> StepGraph {
    var shape = shape
    switch operation {
    case .share: (shape.zoneName, shape.isInside, shape.isShared) = (zoneName, true, true)
    case .accept: shape.bobIsIn = true
    case .write: shape.addBobs()
    case .moveOut: shape.isInside = false
    case .moveIn: shape.isInside = true
    case .leave: shape.bobIsIn = false
    case .stop: (shape.isShared, shape.bobIsIn, shape.carolIsIn) = (false, false, false)
    }
    return shape
  }
}

extension User {
  /// Makes one attempt of a record plane call.
  func attempt(_ action: String, _ body: Value, in database: String = "private", requestID: String) async throws
    -> StepOutcome
  {
    let token = token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let url =
      """
      \(app.installation.ready.gateway)/database/1/\(app.container)/development/\(database)/\(action)?\
      ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(token)
      """
    let bytes = try body.json
    // Dropped because a broken connection leaves the outcome open.
    guard
      let answer = try? await app.installation.send("POST", url, headers: [("X-Request-ID", requestID)], bytes: bytes)
    else { return .unanswered }
    if answer.status == 503 || answer.text.contains("TRY_AGAIN_LATER") { return .unanswered }
    guard answer.status == 200 else { throw Unexpected("\(action): \(answer.status) \(answer.text)") }
    return .answered(try answer.json)
  }
}
