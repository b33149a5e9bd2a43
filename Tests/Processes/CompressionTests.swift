// Compressed answers of an installation, read by curl: the same content, and nothing else changes.

import Foundation
import HTTPClient
import Testing

@Suite struct CompressionTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let gzip = [("Accept-Encoding", "gzip")]

  /// The decoded content of an address.
  private func curl(_ user: User, _ url: String) throws -> String {
    let words = ["-sS", "--fail", "--compressed", "-H", "Authorization: Bearer \(user.token)", url]
    let run = try CommandLineTool.run(words, executable: URL(filePath: "/usr/bin/curl"))
    guard run.code == 0 else { throw Unexpected("curl: \(run.problem)") }
    return run.output
  }

  @Test(.timeLimit(.minutes(1)))
  func `a page of changes comes compressed to a client that asks, with the same content`() async throws {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let (phone, laptop) = (try await user.device("phone"), try await user.device("laptop"))
      let changes = (0..<1000).map { number -> Value in
        [
          "changeType": "insert", "entity": "Tag", "objectID": .string(UUID().uuidString),
          "attributes": ["name": .string("tag \(number)")],
        ]
      }
      _ = try await phone.save(changes)
      let url =
        """
        \(installation.ready.gateway)/mirror/1/\(user.app.container)/development/private/stores/\(laptop.store)/\
        changes?limit=1000
        """
      let plain = try await installation.send("GET", url, bearer: user.token)
      #expect(plain.header("Content-Encoding") == nil && plain.header("Vary")?.contains("Accept-Encoding") == true)
      let compressed = try await installation.send("GET", url, bearer: user.token, headers: Self.gzip)
      #expect(
        compressed.header("Content-Encoding") == "gzip"
          && compressed.header("Content-Type") == plain.header("Content-Type"))
      #expect(
        compressed.bytes.count * 4 < plain.bytes.count, "\(plain.bytes.count) bytes became \(compressed.bytes.count)")
      #expect(try curl(user, url) == plain.text)
      print("· a page of 1000: \(plain.bytes.count) bytes, compressed \(compressed.bytes.count)")
    }
  }

  @Test(.timeLimit(.minutes(1))) func `HEAD says what GET does, and assets, their parts and streams stay as they are`()
    async throws
  {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let document = "\(installation.ready.gateway)/openapi.json"
      let (got, headed) = (
        try await installation.send("GET", document, headers: Self.gzip),
        try await installation.send("HEAD", document, headers: Self.gzip)
      )
      #expect(got.header("Content-Encoding") == "gzip" && headed.bytes.isEmpty)
      for name in ["Content-Encoding", "Content-Length", "Content-Type", "Vary"] {
        #expect(headed.header(name) == got.header(name), "\(name)")
      }
      #expect(got.header("Content-Length") == "\(got.bytes.count)")

      // Text that would shrink well.
      let content = [UInt8](repeating: 0x61, count: 100_000)
      _ = try await user.saveNote("n", blob: try await user.upload(content))
      let asset = try #require(try await user.note("n")["fields"]["blob"]["value"]["downloadURL"].string)
      let whole = try await installation.send("GET", asset, headers: Self.gzip)
      #expect(whole.bytes == content && whole.header("Content-Encoding") == nil)
      let part = try await installation.send("GET", asset, headers: Self.gzip + [("Range", "bytes=10-29")])
      #expect(part.status == 206 && part.bytes == Array(content[..<20]) && part.header("Content-Encoding") == nil)

      let device = try await user.device("phone")
      let events =
        "\(installation.ready.gateway)/mirror/1/\(user.app.container)/development/private/stores/\(device.store)/events"
      let stream = try await installation.client.stream(
        events,
        headers: [
          .init("Authorization", "Bearer \(user.token)"), .init("Accept", "text/event-stream"),
          .init("Accept-Encoding", "gzip"),
        ])
      #expect(stream.head["content-type"] == "text/event-stream" && stream.head["content-encoding"] == nil)
    }
  }
}
