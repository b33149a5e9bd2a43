// Processes over tcp with keys: listed ones work together, and a stranger is refused until it is listed.

import Foundation
import HTTPClient
import Testing

@Suite(.serialized) struct BusKeyTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  @Test(.timeLimit(.minutes(3)))
  func
    `four processes with keys save and ping over tcp, and a fifth only gets in while it is listed`()
    async throws
  {
    try await KeyedInstallation.run { keyed in
      let installation = keyed.installation
      let app = try await App(installation, model: model)
      let alice = try await app.user("alice")
      let (phone, laptop) = (try await alice.device("phone"), try await alice.device("laptop"))
      let url = "\(installation.ready.notifier)/mirror/1/\(app.container)/development/pings?device=\(laptop.store)"
      var pings = EventLines(
        try await installation.client.stream(
          url, headers: [HTTPClient.Header("Authorization", "Bearer \(alice.token)")]))
      try await phone.save([MainJob.insert("Tag", UUID().uuidString, ["name": "one"])])
      #expect(try await pings.next()?["ck"]["met"]["zoid"].string == alice.recordName)
      #expect(try await laptop.changes().changes.count == 1)
      let share = try #require(installation.ready.admin["share"])
      let log = try String(contentsOf: keyed.log("share"), encoding: .utf8)
      let bus = String(try #require(log.firstMatch(of: #/tcp://127\.0\.0\.1:\d+/#)).output)
      #expect(try await keyed.metric("aquifer_bus_refused_connections_total", of: share) == 0)

      // The foreign process knows all public keys, but no process knows its key.
      let options = ["--share", bus, "--data", installation.folder.appending(path: "data").path]
      let line = try keyed.addKey("worker", "worker-2")
      let own = keyed.folder.appending(path: "foreign-peers")
      try (try String(contentsOf: keyed.peers, encoding: .utf8) + line).write(
        to: own, atomically: true, encoding: .utf8)
      let ready = try keyed.launch("worker", "worker-2", options, keys: (keyed.key("worker-2"), own))
      // A process without a key is refused, because every account of the machine could read its traffic.
      _ = try keyed.launch("worker", "worker-3", options, keys: nil)
      try await keyed.waitForLog("worker-2", "it does not know this process's key")
      try await keyed.waitForLog("worker-3", "give the process a key (--bus-key and --bus-peers)")
      try await keyed.waitForLog("share", "--bus-peers has no line with the key ")
      #expect(try await keyed.metric("aquifer_bus_refused_connections_total", of: share) ?? 0 > 0)
      #expect(try await keyed.metric("aquifer_bus_peers{role=\"worker\"}", of: share) == 1)
      #expect(!FileManager.default.fileExists(atPath: ready.path), "it waits for the share service")
      try await phone.save([MainJob.insert("Tag", UUID().uuidString, ["name": "two"])])

      // Once listed, it works with the others, none of which was restarted.
      let listed = try String(contentsOf: keyed.peers, encoding: .utf8)
      try (listed + line).write(to: keyed.peers, atomically: true, encoding: .utf8)
      try await keyed.waitUntilReady(try await keyed.facts(ready))
      for _ in 0..<1000 where try await keyed.metric("aquifer_bus_peers{role=\"worker\"}", of: share) != 2 {
        try await Task.sleep(for: .milliseconds(10))
      }
      #expect(try await keyed.metric("aquifer_bus_peers{role=\"worker\"}", of: share) == 2)
      try await phone.save([MainJob.insert("Tag", UUID().uuidString, ["name": "three"])])

      // An invalid or empty list changes nothing; a list without the process ends its connections.
      try "worker what".write(to: keyed.peers, atomically: true, encoding: .utf8)
      try await keyed.waitForLog("share", "line 1 is not a role")
      try "# nobody".write(to: keyed.peers, atomically: true, encoding: .utf8)
      try await keyed.waitForLog("share", "which lists no process")
      #expect(try await keyed.metric("aquifer_bus_peers{role=\"worker\"}", of: share) == 2)
      try listed.write(to: keyed.peers, atomically: true, encoding: .utf8)
      for _ in 0..<1000 where try await keyed.metric("aquifer_bus_peers{role=\"worker\"}", of: share) != 1 {
        try await Task.sleep(for: .milliseconds(10))
      }
      #expect(try await keyed.metric("aquifer_bus_peers{role=\"worker\"}", of: share) == 1)
      // The worker reads a file of its own, and keeps its shards until that file excludes it, too.
      try listed.write(to: own, atomically: true, encoding: .utf8)
      try await keyed.waitForEnd("worker-2")
      try await keyed.waitForLog("worker-2", "no longer listed")
      try await phone.save([MainJob.insert("Tag", UUID().uuidString, ["name": "four"])])
      #expect(try await laptop.changes().changes.count == 4)
    }
  }

  /// Runs a process that must not start, and returns its message.
  private func refusal(_ words: [String]) throws -> (code: Int32, text: String) {
    let ended = try CommandLineTool.run(words, executable: Checkout.products.appending(path: "aquifer-notifier"))
    return (ended.code, ended.problem)
  }

  @Test(.timeLimit(.minutes(1)))
  func `a process whose bus would not be private, or whose keys do not fit, does not start and says what to change`()
    throws
  {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let (key, peers) = (folder.appending(path: "key").path, folder.appending(path: "peers").path)
    let keys = ["--bus-key", key, "--bus-peers", peers, "--share", "tcp://127.0.0.1:9"]
    let clear =
      """
      could carry unencrypted data beyond this machine: give the process a key (--bus-key and --bus-peers), or use \
      ipc:// with the path of a socket
      """
    let open =
      """
      is open to every account of this machine: give the process a key (--bus-key and --bus-peers), or use ipc:// with \
      the path of a socket
      """
    for (words, sentence) in [
      (["--bus", "tcp://0.0.0.0:0"], "--bus: tcp://0.0.0.0:0 \(clear)."),
      (["--share", "tcp://10.9.8.7:5550"], "--share: tcp://10.9.8.7:5550 \(clear)."),
      (["--bus", "tcp://127.0.0.1:*"], "--bus: tcp://127.0.0.1:* \(open)."),
      (["--share", "tcp://127.0.0.1:5550"], "--share: tcp://127.0.0.1:5550 \(open)."),
      (["--bus", "ipc://@aquifer"], "--bus: ipc://@aquifer must be a path in a folder of this account"),
      (
        ["--bus", "ipc:///tmp/x.sock"],
        "--bus: the folder /tmp is open to other accounts, which could join the bus: chmod 700 it."
      ),
      (["--bus-key", key], "--bus-key needs --bus-peers"), (["--bus-peers", peers], "--bus-peers needs --bus-key"),
      (keys, "--bus-key names '\(key)', which can't be read"),
    ] {
      let (code, text) = try refusal(words)
      #expect(code == 78 && text.contains(sentence), "\(words): \(text)")
    }

    let added = try CommandLineTool.run(["bus-key", "add", key, "--role", "notifier", "--name", "n", "--peers", peers])
    #expect(added.code == 0 && added.output.hasPrefix("notifier n "))
    #expect(try String(contentsOfFile: peers, encoding: .utf8) == added.output)
    #expect(
      try CommandLineTool.run(["bus-key", "show", key]).output == String(added.output.dropFirst("notifier n ".count)))
    #expect(try FileManager.default.attributesOfItem(atPath: key)[.posixPermissions] as? Int == 0o600)
    let secret = try String(contentsOfFile: key, encoding: .utf8)
    #expect(!added.output.contains(secret.dropLast()))
    #expect(
      try CommandLineTool.run(["bus-key", "add", key, "--role", "notifier", "--name", "n"]).problem.contains(
        "exists already"))
    #expect(
      try CommandLineTool.run(["bus-key", "add", key + "2", "--role", "worker", "--name", "n", "--peers", peers])
        .problem.contains("by the name of a notifier"))
    #expect(!FileManager.default.fileExists(atPath: key + "2"))
    #expect(try CommandLineTool.run(["bus-key", "add", key + "2", "--role", "boss", "--name", "n"]).code == 2)

    for (words, sentence) in [
      (keys, "which does not list this process: it needs the line 'notifier notifier-1 "),
      (keys + ["--name", "n", "--bus", "tcp://0.0.0.0:0"], "use this machine's address"),
    ] {
      let (code, text) = try refusal(words)
      #expect(code == 78 && text.contains(sentence), "\(text)")
      #expect(!text.contains(secret.dropLast()))
    }
    chmod(key, 0o604)
    #expect(try refusal(keys + ["--name", "n"]).text.contains("which other accounts may use: chmod 600 it"))
    chmod(key, 0o600)
    try "\(secret)more".write(toFile: key, atomically: false, encoding: .utf8)
    let spoiled = try refusal(keys + ["--name", "n"])
    #expect(
      spoiled.code == 78 && spoiled.text.contains("it holds no key of the bus")
        && !spoiled.text.contains(secret.dropLast()))
  }
}
