// The zone commands against a scripted server and a folder of their own.

import Crypto
import Foundation
import JSON
import Synchronization
import Testing

@testable import Console

/// A server that answers with zones' pages and keeps the requests.
private final class ZoneServer: Sendable {
  let requests = Mutex<[(method: String, target: String, body: String)]>([])
  let problems = Mutex<[String]>([])
  let output = Mutex<[String]>([])
  private let answers: @Sendable (_ method: String, _ target: String, _ body: String) -> (Int, [UInt8])

  init(_ answers: @escaping @Sendable (_ method: String, _ target: String, _ body: String) -> (Int, [UInt8])) {
    self.answers = answers
  }

  func run(_ words: String...) async -> Int32 { await run(words) }

  func run(_ words: [String]) async -> Int32 {
    let terminal = Terminal(
      output: { line in self.output.withLock { $0.append(line) } },
      problem: { line in self.problems.withLock { $0.append(line) } }, input: { [] })
    let http = HTTPSender { method, url, _, body, _ in
      let target = url.replacing("http://s", with: "")
      let text = String(decoding: body, as: UTF8.self)
      self.requests.withLock { $0.append((method, target, text)) }
      let (status, answer) = self.answers(method, target, text)
      if status == 302 {
        return .success(HTTPSender.Answer(status: 302, body: [], location: String(decoding: answer, as: UTF8.self)))
      }
      return .success(HTTPSender.Answer(status: status, body: answer))
    }
    return await Console(environment: ["AQUIFER_SERVER": "http://s"], terminal: terminal, http: http).run(
      ["--json"] + words + ["--container", "C", "--owner", "_o", "--zone", "Z"])
  }

  var targets: [String] { requests.withLock { $0.map { "\($0.method) \($0.target)" } } }
}

struct ZoneCommandTests {
  private let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-zone-\(UUID().uuidString)")

  private static let content: [UInt8] = [1, 2, 3]
  private static let hash = Hex.encode(SHA256.hash(content))

  private static func line(_ name: String, asset: Bool = false) -> String {
    let fields = asset ? #"{"x":{"type":"ASSETID","value":{"sha256":"\#(hash)","size":3}}}"# : "{}"
    return #"{"record":{"recordName":"\#(name)","recordType":"T","fields":\#(fields)}}"#
  }

  private static let base = "/admin/1/zone/C/development/_o/Z"

  /// - Parameter bucket: the address to which the asset's own leads; nil: the server has the content.
  private func exportingServer(_ content: [UInt8] = Self.content, bucket: String? = nil) -> ZoneServer {
    ZoneServer { _, target, _ in
      switch target {
      case Self.base + "/export":
        let asset = #"{"asset":{"sha256":"\#(Self.hash)","size":3,"downloadURL":"http://s/assets/1/x"}}"#
        return (
          200,
          Array(
            """
            {\"format\":\"aquifer.zone/1\",\"sequence\":7}\n\(asset)\n\(Self.line("a", asset: true))\n{\"more\":true,\
            \"after\":\"a b\",\"sequence\":7}\n
            """
            .utf8)
        )
      case Self.base + "/export?after=a%20b&sequence=7": return (200, Array("\(Self.line("c"))\n{\"end\":true}\n".utf8))
      case "/assets/1/x":
        if let bucket { return (302, Array(bucket.utf8)) }
        return (200, content)
      case "https://bucket/x?signature=1": return (200, content)
      default: return (404, Array("{}".utf8))
      }
    }
  }

  @Test func `T-X04 an export is written page by page, ends with a line that vouches for it, and is read back`()
    async throws
  {
    defer { try? FileManager.default.removeItem(at: folder) }
    let server = exportingServer()
    #expect(await server.run("zone", "export", folder.path) == 0, "\(server.problems.withLock { $0 })")
    let text = try String(contentsOf: folder.appending(path: "zone.jsonl"), encoding: .utf8)
    let lines = text.split(separator: "\n")
    #expect(lines.count == 4 && lines[1] == Self.line("a", asset: true) && lines[2] == Self.line("c"))
    #expect(try Array(Data(contentsOf: folder.appending(path: "assets/\(Self.hash)"))) == Self.content)
    let answer = try JSONValue(parsing: Array((server.output.withLock { $0.last } ?? "").utf8))
    #expect(answer["records"]?.int64 == 2 && answer["assets"]?.int64 == 1 && answer["sequence"]?.int64 == 7)
    let export = try ZoneExport(folder: folder.path)
    #expect(export.records.count == 2 && export.assets == [ZoneExport.Asset(hash: Self.hash, byteCount: 3)])
    #expect(
      export.pages(recordLimit: 1, byteLimit: 1 << 20).count == 2
        && export.pages(recordLimit: 9, byteLimit: 10).count == 2)
    #expect(
      export.pages(recordLimit: 9, byteLimit: 1 << 20).map { String(decoding: $0, as: UTF8.self) } == [
        "\(Self.line("a", asset: true))\n\(Self.line("c"))\n"
      ])

    // The console asks for missing assets, uploads and sends them. The second page need not find the zone empty.
    let receiver = ZoneServer { method, target, body in
      if target == Self.base + "/assets" {
        return (200, Array(#"{"assets":[{"present":false,"uploadURL":"http://s/upload"}]}"#.utf8))
      }
      if target == "/upload" { return (200, []) }
      return (200, Array(#"{"imported":2,"unchanged":0}"#.utf8))
    }
    #expect(await receiver.run("zone", "import", folder.path) == 0)
    #expect(receiver.targets == ["POST \(Self.base)/assets", "POST /upload", "POST \(Self.base)/import"])
    #expect(await receiver.run("zone", "import", folder.path, "--merge") == 0)
    #expect(receiver.targets.last == "POST \(Self.base)/import?merge=true")
  }

  @Test func `a content that is in a bucket is fetched from there`() async throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let server = exportingServer(bucket: "https://bucket/x?signature=1")
    #expect(await server.run("zone", "export", folder.path) == 0, "\(server.problems.withLock { $0 })")
    #expect(try Array(Data(contentsOf: folder.appending(path: "assets/\(Self.hash)"))) == Self.content)
    // It is fetched once from the bucket, which leads nowhere else.
    try FileManager.default.removeItem(at: folder)
    let circle = exportingServer(bucket: "http://s/assets/1/x")
    #expect(await circle.run("zone", "export", folder.path) == 1)
    #expect(circle.problems.withLock { $0.last }?.hasSuffix("can't be fetched: the server answered 302") == true)
  }

  @Test func `an altered, cut or missing file is not sent, and content that arrives altered is not kept`() async throws
  {
    defer { try? FileManager.default.removeItem(at: folder) }
    let altered = exportingServer([9])
    #expect(await altered.run("zone", "export", folder.path) == 1)
    #expect(
      !FileManager.default.fileExists(atPath: folder.appending(path: "zone.jsonl").path), "half an export has no name")
    try FileManager.default.removeItem(at: folder)
    #expect(await exportingServer().run("zone", "export", folder.path) == 0)
    #expect(await exportingServer().run("zone", "export", folder.path) == 1)

    let receiver = ZoneServer { _, _, _ in (200, Array("{}".utf8)) }
    let file = folder.appending(path: "zone.jsonl")
    let whole = try Data(contentsOf: file)
    for broken in [Data(), whole.dropLast(30), whole.dropFirst(1), whole + Data("{}\n".utf8)] {
      try broken.write(to: file)
      #expect(await receiver.run("zone", "import", folder.path) == 1)
    }
    try whole.write(to: file)
    try Data([9, 9, 9]).write(to: folder.appending(path: "assets/\(Self.hash)"))
    #expect(await receiver.run("zone", "import", folder.path) == 1)
    #expect(await receiver.run("zone", "import", "/nowhere/at/all") == 1)
    #expect(receiver.targets.isEmpty)
  }

  @Test func `T-X03 a restore goes on where the server says, with the sequence that a date meant`() async throws {
    let server = ZoneServer { _, _, body in
      (
        200,
        Array(
          #"""
          {"restored":3,"deleted":1,"sequence":5,"through":9,"after":\#(body.contains("after") ? 9 : 7),\#
          "moreComing":\#(!body.contains("after"))}
          """#
          .utf8)
      )
    }
    #expect(await server.run("zone", "restore", "--date", "2026-11-20T07:33:24Z") == 0)
    #expect(
      server.requests.withLock { $0.map(\.body) } == [
        #"{"date":"2026-11-20T07:33:24Z"}"#, #"{"sequence":5,"through":9,"after":7}"#,
      ])
    #expect(server.output.withLock { $0 } == [#"{"restored":6,"deleted":2,"sequence":5}"#])
    let refusing = ZoneServer { _, _, _ in (400, Array(#"{"serverErrorCode":"BAD_REQUEST","reason":"not known"}"#.utf8))
    }
    #expect(await refusing.run("zone", "restore", "--to", "5") == 1)
    for words in [["--to", "x"], ["--to", "5", "--date", "d"], []] {
      let quiet = ZoneServer { _, _, _ in (200, []) }
      #expect(await quiet.run(["zone", "restore"] + words) == 2 && quiet.targets.isEmpty, "\(words)")
    }
  }
}
