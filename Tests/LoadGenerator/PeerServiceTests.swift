// The requests for other systems: whole JSON, records of the benchmark's size, and no name twice.

import Foundation
import Testing

@testable import aquifer_load

struct PeerServiceTests {
  private static func body(_ maker: RequestMaker) throws -> [String: Any] {
    let text = String(decoding: maker.request, as: UTF8.self)
    let body = try #require(text.range(of: "\r\n\r\n")).upperBound
    let found = try JSONSerialization.jsonObject(with: Data(text[body...].utf8))
    return try #require(found as? [String: Any])
  }

  /// The names and the bytes of the records in a request.
  private static func records(_ service: PeerService, _ maker: RequestMaker) throws -> [(name: String, size: Int)] {
    let body = try body(maker)
    func list(_ key: String, _ inner: (([String: Any]) -> [String: Any]?)) throws -> [[String: Any]] {
      guard let many = body[key] as? [[String: Any]] else { return [body] }
      return try many.map { try #require(inner($0)) }
    }
    switch service {
    case .couchdb:
      return try list("docs") { $0 }.map { (try #require($0["_id"] as? String), "\($0)".utf8.count) }
    case .kinto:
      return try list("requests") { $0["body"] as? [String: Any] }.map { record in
        let data = try #require(record["data"] as? [String: Any])
        return (try #require(data["id"] as? String), "\(data)".utf8.count)
      }
    case .etcd:
      return try list("success") { $0["requestPut"] as? [String: Any] }.map { put in
        let key = try #require(put["key"] as? String)
        let value = try #require((put["value"] as? String).flatMap { Data(base64Encoded: $0) })
        #expect(Data(base64Encoded: key)?.count == 27)
        return (key, value.count)
      }
    }
  }

  @Test(arguments: PeerService.allCases, [1, 200])
  func `a request has so many records of 1 KB, and the next one has others`(_ service: PeerService, _ count: Int) throws
  {
    var maker = service.maker(
      count: count, client: 3, host: "127.0.0.1:5984", authorization: "Basic YTpi", random: FastRandom(seed: 7))
    let head = String(decoding: maker.request.prefix(200), as: UTF8.self)
    #expect(head.hasPrefix("POST /") && head.contains("Authorization: Basic YTpi\r\n"))
    #expect(service == .etcd || count > 1 && service == .kinto || head.contains("-3"))
    var names: Set<String> = []
    for _ in 0..<3 {
      let records = try Self.records(service, maker)
      #expect(records.count == count)
      #expect(records.allSatisfy { (900...1_400).contains($0.size) }, "\(records.first?.size ?? 0) bytes")
      names.formUnion(records.map(\.name))
      maker.advance()
    }
    #expect(names.count == 3 * count)
  }

  @Test func `another system takes single and bulk saves, and needs no operator of Aquifer`() throws {
    let options = try Options(
      ["--peer", "couchdb", "--workload", "w1a:1,w1b:16"], environment: ["PEER_AUTHORIZATION": "Basic YTpi"])
    #expect(options.peer == .couchdb && options.peerAuthorization == "Basic YTpi")
    for wrong in [["--peer", "mongodb"], ["--peer", "etcd", "--workload", "w2:1"]] {
      #expect(throws: Options.UsageError.self) { try Options(wrong, environment: [:]) }
    }
  }

  @Test func `an answer of created is a success, and a refusal is none`() {
    for (status, isSuccess) in [("200 OK", true), ("201 Created", true), ("202 Accepted", true), ("412 X", false)] {
      var reader = ResponseReader()
      reader.append("HTTP/1.1 \(status)\r\nContent-Length: 2\r\n\r\n{}".utf8)
      #expect(reader.outcome() == .complete(isSuccess: isSuccess, closes: false), "\(status)")
    }
  }
}
