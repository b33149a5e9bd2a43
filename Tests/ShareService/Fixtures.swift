// A share service in a folder of its own, and shortcuts for tests.

import Crypto
import Foundation
import JSON
import ObjectModel
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import ShareService

final class FixedClock: WallClock {
  private let time = Atomic<Int64>(1_700_000_000_000)
  var now: Int64 { time.add(1, ordering: .relaxed).newValue }
  /// Unit: milliseconds.
  func advance(by span: Int64) { time.add(span, ordering: .relaxed) }
}

/// Unique but repeatable bytes.
final class SeededRandom: RandomSource {
  private let state: Mutex<UInt64>
  init(seed: UInt64) { state = Mutex(seed) }

  func bytes(_ count: Int) -> [UInt8] {
    state.withLock { state in
      (0..<count).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return UInt8(truncatingIfNeeded: state >> 33)
      }
    }
  }
}

/// A data folder that is removed with the value.
final class TemporaryFolder: Sendable {
  let path: String

  init() {
    var template = Array((NSTemporaryDirectory() + "aquifer-share-" + String(repeating: "X", count: 6)).utf8CString)
    path =
      mkdtemp(&template) == nil
      ? "" : String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    precondition(!path.isEmpty, "no temporary folder")
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// A share service that is called without a bus.
struct World {
  let folder: TemporaryFolder
  let service: ShareService
  let operators: OperatorAPI
  let published: Published
  let reports: Reports
  let clock: FixedClock

  /// The workers' reports by subject, as JSON; a complete report without rows where the test sets none.
  final class Reports: Sendable {
    private let answers = Mutex<[String: [String]]>([:])
    private let asked = Mutex<[(subject: String, query: [String: String])]>([])

    /// Sets the answers; the last one repeats.
    func set(_ subject: String, _ answers: String...) { self.answers.withLock { $0[subject] = answers } }
    var questions: [(subject: String, query: [String: String])] { asked.withLock { $0 } }

    fileprivate func list(_ subject: String, _ query: [String: String]) -> ClusterList? {
      asked.withLock { $0.append((subject, query)) }
      let text = answers.withLock { answers -> String? in
        guard let list = answers[subject], let first = list.first else { return nil }
        if list.count > 1 { answers[subject] = Array(list.dropFirst()) }
        return first
      }
      guard subject == "fields" || OperatorNoun(rawValue: subject)?.isListOfContainer == true else { return nil }
      // Dropped because a list that can't be read is none.
      guard let report = try? JSONValue(parsing: Array((text ?? Self.nothing(subject, query)).utf8)),
        let rows = report[subject]?.elements
      else { return nil }
      return ClusterList(
        rows: rows, uncountedShards: report["uncountedShards"]?.elements.compactMap(\.int64),
        silent: report["silent"]?.elements.compactMap(\.string) ?? [])
    }

    /// No rows; for fields, rows with 0 records.
    private static func nothing(_ subject: String, _ query: [String: String]) -> String {
      let fields = (query["fields"] ?? "").split(separator: "\n").map { $0.split(separator: "\t") }
      let rows = fields.map { #"{"recordType":"\#($0[0])","field":"\#($0[1])","records":0}"# }
      return #"{"\#(subject)":[\#(rows.joined(separator: ","))],"uncountedShards":[],"silent":[]}"#
    }
  }

  /// The announced changes.
  final class Published: Sendable {
    private let list = Mutex<[DirectoryChanged]>([])
    func add(_ change: DirectoryChanged) { list.withLock { $0.append(change) } }
    func take() -> [DirectoryChanged] {
      list.withLock { list in
        defer { list = [] }
        return list
      }
    }
  }

  static let operatorToken = "an operator's token for tests"
  static let photos = "iCloud.org.example.photos"

  init(
    in folder: TemporaryFolder = TemporaryFolder(), seed: UInt64 = 1, shardCount: Int? = nil,
    clock: FixedClock = FixedClock(), rotation: Duration? = nil,
    grace: Duration? = nil
  ) throws {
    self.folder = folder
    self.clock = clock
    let random = SeededRandom(seed: seed)
    var configuration = ShareService.Configuration(
      dataPath: folder.path, shardCount: shardCount, operatorToken: Self.operatorToken)
    configuration.passwordCost = .cheapest
    if case .postgreSQL = DirectoryEngine.current { configuration.database = try DirectoryEngine.database(of: folder) }
    configuration.tokenRotation = rotation
    configuration.tokenGrace = grace
    service = try Self.whenFree { try ShareService(configuration, clock: clock, random: random, log: .silent) }
    let (published, reports) = (Published(), Reports())
    self.published = published
    self.reports = reports
    operators = OperatorAPI(
      directory: service.directory, jobs: service.jobs, removals: service.removals, passwords: service.passwords,
      random: random, log: .silent,
      publish: { published.add($0) },
      report: { reports.list($0, $1)?.answer(as: $0) }, list: { reports.list($0, $1) }, command: { _, _ in nil })
  }

  /// A world with the container `photos`.
  static func withContainer(
    in folder: TemporaryFolder = TemporaryFolder(), shardCount: Int? = nil, rotation: Duration? = nil,
    grace: Duration? = nil
  ) async throws -> World {
    let world = try World(in: folder, shardCount: shardCount, rotation: rotation, grace: grace)
    try await world.ok("POST", "/admin/1/containers", #"{"container":"\#(photos)"}"#)
    _ = world.published.take()
    return world
  }

  /// Repeats what another session's lock keeps out: the server may not have seen its end yet.
  static func whenFree<Value>(_ body: () throws -> Value) throws -> Value {
    while true {
      do { return try body() } catch let led as PostgreSQLDirectory.Led where led.epoch == nil { usleep(10_000) }
    }
  }

  /// A new service on the same folder, as after a restart.
  func restarted() async throws -> World {
    await service.close()
    return try World(in: folder, seed: 99, clock: clock)
  }

  func call(
    _ method: String, _ path: String, _ body: String = "", query: [String: String] = [:], member: StaffMember? = nil
  ) async -> OperatorAnswer {
    let request = OperatorRequest(
      method: method, path: path.split(separator: "/").map(String.init), query: query, member: member)
    return await operators.answer(request, body: Array(body.utf8))
  }

  @discardableResult
  func ok(_ method: String, _ path: String, _ body: String = "", query: [String: String] = [:]) async throws
    -> JSONValue
  {
    let answer = await call(method, path, body, query: query)
    #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
    #expect(answer.contentType == "application/json")
    return try JSONValue(parsing: answer.body)
  }

  /// An error dictionary, whose status is checked against its code.
  @discardableResult
  func refused(_ method: String, _ path: String, _ body: String = "", query: [String: String] = [:], status: Int)
    async throws -> JSONValue
  {
    let answer = await call(method, path, body, query: query)
    #expect(answer.status == status, "\(String(decoding: answer.body, as: UTF8.self))")
    let dictionary = try JSONValue(parsing: answer.body)
    #expect(dictionary["uuid"]?.string?.count == 36)
    #expect(dictionary["serverErrorCode"]?.string != nil)
    #expect(dictionary["reason"]?.string?.isEmpty == false)
    return dictionary
  }

  func text(_ path: String) async -> String {
    let answer = await call("GET", path)
    #expect(answer.contentType.hasPrefix("text/plain"))
    return String(decoding: answer.body, as: UTF8.self)
  }

  func user(_ name: String) async throws -> (recordName: String, token: String) {
    let answer = try await ok("POST", "/admin/1/users", #"{"name":"\#(name)"}"#)
    return (try #require(answer["userRecordName"]?.string), try #require(answer["webAuthToken"]?.string))
  }

  func apiToken(_ environment: String = "development") async throws -> String {
    let answer = try await ok(
      "POST", "/admin/1/tokens", #"{"container":"\#(Self.photos)","environment":"\#(environment)"}"#)
    return try #require(answer["apiToken"]?.string)
  }

  func authenticate(
    _ container: String? = World.photos, _ environment: Records.Environment? = .development, api: String? = nil,
    user: String? = nil
  ) async throws -> Authenticate.Reply {
    try await service.directory.authenticate(
      Authenticate(
        container: container.flatMap { ContainerID(rawValue: $0) }, environment: environment, apiToken: api,
        userToken: user))
  }

  static let container = ContainerID(rawValue: photos)!

  func schema(_ environment: Records.Environment = .development) async throws -> FetchSchema.Reply {
    try await service.directory.fetchSchema(FetchSchema(container: Self.container, environment: environment))
  }
}

/// A model file with one entity.
func modelXML(_ entity: String = "Post", attributes: [String: String] = ["title": "String"]) -> String {
  let lines = attributes.sorted { $0.key < $1.key }.map {
    #"<attribute name="\#($0.key)" optional="YES" attributeType="\#($0.value)"/>"#
  }
  return
    #"""
    <model type="com.apple.IDECoreDataModeler.DataModel"><entity name="\#(entity)">\#(lines.joined())</entity></model>
    """#
}
