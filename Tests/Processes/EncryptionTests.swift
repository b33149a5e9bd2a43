// Encrypted values at rest in an installation of real processes: no file shows them, keys rotate, and a missing key is
// reported.

import Foundation
import Testing

@Suite(.serialized) struct EncryptionTests {
  private static let model = Checkout.root.appending(path: "Tests/Models/Everything.xcdatamodeld").path

  /// The files below a folder that contain the text.
  private static func files(in folder: URL, with text: String) throws -> [String] {
    let names = try #require(FileManager.default.enumerator(atPath: folder.path)?.allObjects as? [String])
    return names.filter {
      FileManager.default.contents(atPath: folder.path + "/" + $0)?.range(of: Data(text.utf8)) != nil
    }
  }

  private static func dog(_ id: String, _ secret: String) -> Value {
    let large = Data((secret + String(repeating: "x", count: 900_000)).utf8).base64EncodedString()
    return MainJob.insert(
      "Dog", id, ["text": .string("plain-" + id), "secret": .string(secret), "secretData": .string(large)])
  }

  private static func secrets(_ device: Device) async throws -> [String: String] {
    try await device.importedGraph().graph.objects.mapValues { object in
      let data = object.attributes["secretData"]?.string.flatMap { Data(base64Encoded: $0) } ?? Data()
      return (object.attributes["secret"]?.string ?? "") + "/" + String(decoding: data.prefix(8), as: UTF8.self)
    }
  }

  @Test(.timeLimit(.minutes(3)))
  func `T-M22 encrypted values are in no file, keys are rotated, and without its key a shard is refused`() async throws
  {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let data = folder.appending(path: "data")
    var users: [(token: String, name: String, container: String, api: String, hash: String)] = []
    try await Installation.run(folder: folder) { (installation) async throws in
      let app = try await App(installation, model: Self.model)
      let user = try await app.user("alice")
      users.append((user.token, user.recordName, app.container, app.apiToken, app.modelHash))
      try await user.device("A").save([Self.dog("D1", "SECRET-1")])
      #expect(try await Self.secrets(try await user.device("B")) == ["D1": "SECRET-1/SECRET-1"])
      // Sealed files are served whole and in parts.
      let asset = try await user.allRecords().records["D1"]?["fields"]["CD_secretData_ckAsset"]["value"]
      let url = try #require(asset?["downloadURL"].string)
      #expect(try await installation.send("GET", url).bytes.count == 900_008)
      let part = try await installation.send("GET", url, headers: [("Range", "bytes=2-9")])
      #expect(part.status == 206 && part.text == "CRET-1xx")
      let far = try await installation.send("GET", url, headers: [("Range", "bytes=65500-131099")])
      #expect(far.bytes == [UInt8](repeating: UInt8(ascii: "x"), count: 65_600))
      #expect(try Self.files(in: data, with: "SECRET-1") == [])
      #expect(try Self.files(in: data, with: "CD_Thing") != [], "the look into the files sees")
      #expect(
        try await installation.aquifer("encryption-key", "add", "--unless-present", data.path + "/encryption-key")
          .output == "")
      for action in ["add", "use"] {
        #expect(try await installation.aquifer("encryption-key", action, data.path + "/encryption-key").code == 0)
      }
    }
    let keys = try String(contentsOf: data.appending(path: "encryption-key"), encoding: .utf8).split(separator: "\n")
      .map(String.init)
    #expect(keys.count == 2)
    let attributes = try FileManager.default.attributesOfItem(atPath: data.path + "/encryption-key")
    #expect((attributes[.posixPermissions] as? Int).map { $0 & 0o077 } == 0)

    func user(_ installation: Installation) -> User {
      User(
        app: App(installation, container: users[0].container, apiToken: users[0].api, modelHash: users[0].hash),
        recordName: users[0].name, token: users[0].token)
    }
    try await Installation.run(folder: folder) { (installation) async throws in
      let alice = user(installation)
      try await alice.device("C").save([Self.dog("D2", "SECRET-2")])
      #expect(
        try await Self.secrets(try await alice.device("D")) == ["D1": "SECRET-1/SECRET-1", "D2": "SECRET-2/SECRET-2"])
      for secret in ["SECRET-1", "SECRET-2"] { #expect(try Self.files(in: data, with: secret) == []) }
    }

    // The first key alone does not open values sealed with the second.
    try Data(keys[0].utf8).write(to: data.appending(path: "encryption-key"))
    let log = data.appending(path: "log/worker-1.log")
    let dev = try Installation.start(workers: 1, folder: folder)
    var text = ""
    for _ in 0..<500 where !text.contains("which is not in the key file (--encryption-key)") {
      try await Task.sleep(for: .milliseconds(20))
      text = try String(contentsOf: log, encoding: .utf8)
    }
    dev.terminate()
    dev.waitUntilExit()
    #expect(text.contains("holds values that were sealed with the encryption key"))
    for secret in ["SECRET-1", "SECRET-2"] + keys { #expect(!text.contains(secret)) }
    // With both keys, in any order, all values can be read.
    try Data(keys.reversed().joined(separator: "\n").utf8).write(to: data.appending(path: "encryption-key"))
    try await Installation.run(folder: folder) { (installation) async throws in
      let alice = user(installation)
      #expect(
        try await Self.secrets(try await alice.device("E")) == ["D1": "SECRET-1/SECRET-1", "D2": "SECRET-2/SECRET-2"])
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a key file that is none keeps the workers from starting, with its line`()
    async throws
  {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let path = folder.appending(path: "keys").path
    try Data("12ab\n".utf8).write(to: URL(filePath: path))
    let (code, _, problem) = try CommandLineTool.run(
      ["--encryption-key", path, "--data", folder.path, "--share", "ipc://\(folder.path)/share.sock"],
      executable: Checkout.products.appending(path: "aquifer-worker"))
    #expect(code == 78 && problem.contains("line 1 is not a key: a key has 64 hexadecimal digits"), "\(problem)")
    #expect(!problem.contains("12ab"))
    let refused = try CommandLineTool.run(["encryption-key", "add", path])
    #expect(refused.code == 1 && refused.problem.contains("is not a key file"))
  }
}
