// An installation that goes from a folder of assets to a bucket: copied while it serves, and once more at rest.

import BucketServer
import Foundation
import Testing

struct BucketCopyTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  @Test(.timeLimit(.minutes(3)))
  func `contents go to a bucket while saves go on, and after the last copy the bucket has all of them`() async throws {
    let server = try BucketServer()
    try await SeparateProcesses.run { processes in
      let key = processes.folder.appending(path: "key").path
      try "aws_access_key_id = the-key\naws_secret_access_key = the secret\n".write(
        toFile: key, atomically: true, encoding: .utf8)
      let data = processes.folder.appending(path: "records").path
      let place = "s3://bucket/moved?endpoint=\(server.endpoint)"
      let bucket = ["--assets", place, "--assets-credentials", key]
      try await processes.start("share-1", ["--data", processes.folder.path + "/directory", "--shards", "2"])
      try await processes.start("worker-1", ["--data", data])
      let http = ["--http", "127.0.0.1:0"]
      let gateway = try await processes.start("gateway-1", http + ["--assets", data + "/assets"])
      var app = try await App(processes.installation(gateway: gateway), model: Self.model)
      let alice = try await app.user("alice")
      for number in 0..<20 {
        _ = try await alice.saveNote("n\(number)", blob: try await alice.upload([UInt8(number)]))
      }
      let copy = ["assets", "copy", "--from", data + "/assets", "--to", place, "--assets-credentials", key]
      try await server.set([.init(.refuse, "PUT", times: 2, value: 503), .init(.half, "PUT")])
      let installation = app.installation
      async let copying = installation.aquifer(copy)
      for number in 20..<40 {
        _ = try await alice.saveNote("n\(number)", blob: try await alice.upload([UInt8(number)]))
      }
      let first = try await copying
      #expect(first.code == 0, "\(first.output)\(first.problem)")
      for name in ["gateway-1", "worker-1"] { try processes.end(name, by: SIGTERM) }
      let last = try await app.installation.aquifer(copy)
      #expect(last.code == 0 && last.output.contains("present"), "\(last.output)\(last.problem)")

      try FileManager.default.removeItem(atPath: data + "/assets")
      try await processes.start("worker-1", ["--data", data] + bucket)
      let next = try await processes.start("gateway-1", http + bucket)
      app = App(
        processes.installation(gateway: next), container: app.container, apiToken: app.apiToken,
        modelHash: app.modelHash)
      let again = User(app: app, recordName: alice.recordName, token: alice.token)
      for number in 0..<40 {
        let url = try #require(try await again.note("n\(number)")["fields"]["blob"]["value"]["downloadURL"].string)
        #expect(try await app.installation.send("GET", url).bytes == [UInt8(number)])
      }
      let scrub = try await app.installation.aquifer("scrub", "--assets")
      #expect(scrub.code == 0, "\(scrub.output)\(scrub.problem)")
      let foreign = try await app.installation.aquifer(
        ["assets", "copy", "--from", processes.folder.path, "--to", place, "--assets-credentials", key])
      #expect(foreign.code == 1 && foreign.problem.contains("is no place of assets"), "\(foreign.problem)")
    }
  }
}
