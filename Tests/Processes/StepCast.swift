// Who takes part where processes are killed step by step: three people over two workers, what they do to one graph after another, and what each sees.

import Foundation
import Records
import Testing

/// A post with two attachments and a tag, and how far its sharing has come.
struct StepGraph: Sendable {
  let post: String
  private(set) var attachments: [String]
  let tag: String
  /// An attachment that bob puts in.
  let bobs: String
  /// The share's zone; nil before it is shared.
  var zoneName: String?
  var shortGUID = ""
  /// Whether the objects are in the share's zone.
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

  /// What it is to whoever sees it.
  var graph: Graph {
    var graph = Graph()
    graph.objects[post] = Graph.Object(entity: "Post", attributes: ["title": .string(post), "isPinned": false])
    for id in attachments { graph.objects[id] = Graph.Object(entity: "Attachment", attributes: ["fileName": .string(id)], toOnes: ["post": post]) }
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

/// A device with its copy of everything, as a client library keeps it.
actor StepDevice {
  nonisolated let device: Device
  private(set) var graph = Graph()
  private var token = Value.null
  /// What was imported since it was last looked at.
  private(set) var news: [Value] = []

  init(_ device: Device) { self.device = device }

  /// Imports until there is no more, as often as it is told to come later.
  func pull() async throws {
    while true {
      let query = token.string.map { "?after=" + ($0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "") } ?? ""
      let page = try await device.repeated("GET", "/changes\(query)")
      for change in page["changes"].elements { try graph.apply(change) }
      news += page["changes"].elements
      token = page["importToken"]
      if page["moreComing"].bool != true && page["caughtUp"].bool == true { return }
    }
  }

  /// Imports again and again. The owner has all of a graph, in one zone, whenever he looks; a guest has all of it or nothing.
  func watch(_ shape: StepGraph, asOwner: Bool, _ note: Comment) async throws {
    while !Task.isCancelled {
      try await pull()
      let part = part(shape)
      #expect(part == shape.graph || !asOwner && part == Graph(), note)
      #expect(zones(of: shape).count <= 1, note)
    }
  }

  /// What was saved on this very device: it is not imported.
  func have(_ id: String, _ object: Graph.Object) { graph.objects[id] = object }

  func takeNews() -> [Value] {
    defer { news = [] }
    return news
  }

  /// What the copy has of a graph.
  func part(_ shape: StepGraph) -> Graph {
    var part = Graph()
    part.objects = graph.objects.filter { shape.objectIDs.contains($0.key) }
    part.pairs = graph.pairs.filter { pair in pair.ends.contains { shape.objectIDs.contains($0) } }
    return part
  }

  /// The zones that the copy has the graph's objects in.
  func zones(of shape: StepGraph) -> Set<String> { Set(part(shape).objects.values.map { $0.zone["zoneName"].string ?? "?" }) }
}

/// What one attempt came to.
enum StepOutcome: Sendable {
  case answered(Value)
  /// There is no answer, or it is "later".
  case unanswered
}

extension Device {
  /// One attempt.
  func attempt(_ method: String, _ path: String, _ body: Value? = nil, requestID: String) async throws -> StepOutcome {
    let bytes = try body?.json
    // Dropped because a connection that broke tells nothing but that.
    guard let answer = try? await user.app.installation.send(method, url + path, bearer: user.token, headers: [("X-Request-ID", requestID)], bytes: bytes) else {
      return .unanswered
    }
    if answer.status == 503 || answer.text.contains("TRY_AGAIN_LATER") { return .unanswered }
    guard answer.status == 200 else { throw Unexpected("\(method) \(path): \(answer.status) \(answer.text)") }
    return .answered(try answer.json)
  }

  /// The same request until it is answered.
  func repeated(_ method: String, _ path: String, _ body: Value? = nil, requestID: String = UUID().uuidString) async throws -> Value {
    for _ in 0..<1000 {
      if case .answered(let answer) = try await attempt(method, path, body, requestID: requestID) { return answer }
      try await Task.sleep(for: .milliseconds(20))
    }
    throw Unexpected("\(method) \(path) is not answered")
  }
}

/// Who asks for operations, and with which devices.
struct StepPeople: Sendable {
  let alice, bob, carol: User
  let phone, bobs: Device
}

/// Owner, two guests, and their devices. The owner's shard and the first guest's are with different workers.
final class StepCast {
  static let home = "com.apple.coredata.cloudkit.zone"

  let installation: Installation
  let people: StepPeople
  /// The workers' names.
  let (ownersWorker, guestsWorker): (String, String)
  /// What looks: alice's other device, and those of the guests.
  let (tablet, bobs, carols): (StepDevice, StepDevice, StepDevice)
  /// Another one of alice's, that looks while a process is away.
  let watcher: StepDevice

  var alice: User { people.alice }
  var bob: User { people.bob }
  var carol: User { people.carol }
  var phone: Device { people.phone }

  init(_ installation: Installation) async throws {
    self.installation = installation
    let app = try await App(installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
    let holders = try await installation.admin("GET", "/admin/1/shards")["shards"].elements.map { $0["worker"].string ?? "" }
    let container = try #require(ContainerID(rawValue: app.container))
    func shard(_ user: User) -> Int { DatabaseID(container: container, environment: .development, owner: user.recordName).shard(of: holders.count) }
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

  /// A graph in the default zone, that alice's tablet has.
  func make(_ number: Int) async throws -> StepGraph {
    let shape = StepGraph(number)
    _ = try await phone.repeated("POST", "/transactions?wait=export", Device.transactions(shape.inserts, id: UUID().uuidString))
    try await tablet.pull()
    try await watcher.pull()
    _ = await tablet.takeNews()
    #expect(await tablet.part(shape) == shape.graph)
    return shape
  }
}

/// What is done to a graph, one after the other.
enum StepOperation: String, CaseIterable {
  case share, accept, write, moveOut, moveIn, leave, stop

  var isMove: Bool { [.share, .moveOut, .moveIn].contains(self) }
  /// Whether another request for the same is answered the same when it is done; an end of something finds nothing to end.
  var isRepeatable: Bool { ![.leave, .stop, .write].contains(self) }
}

extension StepPeople {
  /// One attempt.
  func attempt(_ operation: StepOperation, _ shape: StepGraph, requestID: String) async throws -> StepOutcome {
    let zoneID: Value = ["zoneName": .string(shape.zoneName ?? ""), "ownerRecordName": .string(alice.recordName)]
    switch operation {
    case .share:
      let people = [(bob, "READ_WRITE"), (carol, "READ_ONLY")].map { user, permission -> Value in
        ["type": "USER", "permission": .string(permission), "userIdentity": ["lookupInfo": ["userRecordName": .string(user.recordName)]]]
      }
      let body: Value = ["objectIDs": [.string(shape.attachments[1])], "to": nil, "title": .string(shape.post), "participants": .array(people)]
      return try await phone.attempt("POST", "/shares", body, requestID: requestID)
    case .accept: return try await bobs.attempt("POST", "/accept", ["shortGUIDs": [["value": .string(shape.shortGUID)]]], requestID: requestID)
    case .write:
      return try await bobs.attempt("POST", "/transactions?wait=export", Device.transactions(shape.bobsInserts, id: requestID), requestID: requestID)
    case .moveOut: return try await phone.attempt("POST", "/move", ["objectIDs": [.string(shape.tag)], "to": nil], requestID: requestID)
    case .moveIn: return try await phone.attempt("POST", "/move", ["objectIDs": [.string(shape.post)], "to": zoneID], requestID: requestID)
    case .leave: return try await bobs.attempt("POST", "/purge", ["zoneID": zoneID], requestID: requestID)
    case .stop:
      let operations: Value = [["operationType": "forceDelete", "record": ["recordName": "cloudkit.zoneshare"]]]
      return try await alice.attempt("records/modify", ["zoneID": zoneID, "operations": operations], requestID: requestID)
    }
  }
}

extension StepCast {
  /// The graph as it is when the operation is wholly done.
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
  /// One attempt of a call on the record plane.
  func attempt(_ action: String, _ body: Value, in database: String = "private", requestID: String) async throws -> StepOutcome {
    let token = token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let url = "\(app.installation.ready.gateway)/database/1/\(app.container)/development/\(database)/\(action)?ckAPIToken=\(app.apiToken)&ckWebAuthToken=\(token)"
    let bytes = try body.json
    // Dropped because a connection that broke tells nothing but that.
    guard let answer = try? await app.installation.send("POST", url, headers: [("X-Request-ID", requestID)], bytes: bytes) else { return .unanswered }
    if answer.status == 503 || answer.text.contains("TRY_AGAIN_LATER") { return .unanswered }
    guard answer.status == 200 else { throw Unexpected("\(action): \(answer.status) \(answer.text)") }
    return .answered(try answer.json)
  }
}
