// Without keys the bus belongs to one account of the machine: other accounts can't open its sockets.

import Foundation
import Testing

@Suite(.enabled(if: getuid() == 0, "becoming another account takes root")) struct BusAccountTests {
  /// Connects to a socket as an account that is unrelated to the installation.
  private func connect(to socket: String) throws -> (code: Int32, problem: String) {
    let program = "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(sys.argv[1])"
    let run = try CommandLineTool.run(
      ["--reuid", "65534", "--regid", "65534", "--clear-groups", "python3", "-c", program, socket],
      executable: URL(filePath: "/usr/bin/setpriv"))
    return (run.code, run.problem)
  }

  private func sockets(in folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".sock") }.map {
      folder + "/" + $0
    }
  }

  @Test(.timeLimit(.minutes(1))) func `another account of the machine can't connect to the bus of aquifer dev`()
    async throws
  {
    // Only the permissions of the sockets' folder keep other accounts out; an earlier release left it open to a group.
    let folder = URL(filePath: "/tmp/aq-bus-\(UUID().uuidString.prefix(8))")
    defer { try? FileManager.default.removeItem(at: folder) }
    let run = folder.path + "/data/run"
    try FileManager.default.createDirectory(atPath: run, withIntermediateDirectories: true)
    for path in [folder.path, folder.path + "/data", run] { chmod(path, 0o755) }
    try await Installation.run(folder: folder) { _ in
      let sockets = try sockets(in: run)
      #expect(sockets.count == 4)
      for socket in sockets {
        let attempt = try connect(to: socket)
        #expect(attempt.code != 0 && attempt.problem.contains("Permission denied"), "\(socket): \(attempt)")
      }
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `by default a process binds in a folder that it makes for its account alone, and takes no other`() async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let runtime = folder.appending(path: "runtime").path
    try FileManager.default.createDirectory(atPath: runtime, withIntermediateDirectories: true)
    let share = Process()
    share.executableURL = Checkout.products.appending(path: "aquifer-share")
    share.arguments = [
      "--data", folder.path + "/data", "--admin", "127.0.0.1:0", "--ready-file", folder.path + "/ready",
    ]
    share.environment = ProcessInfo.processInfo.environment.merging(["XDG_RUNTIME_DIR": runtime]) { $1 }
    share.standardError = FileHandle.nullDevice
    try share.runUnblocked()
    defer {
      share.terminate()
      share.waitUntilExit()
    }
    for _ in 0..<1000 where !FileManager.default.fileExists(atPath: folder.path + "/ready") {
      try await Task.sleep(for: .milliseconds(10))
    }
    #expect(try sockets(in: runtime + "/aquifer") == [runtime + "/aquifer/share.sock"])
    #expect(try FileManager.default.attributesOfItem(atPath: runtime + "/aquifer")[.posixPermissions] as? Int == 0o700)

    func refusal(_ runtime: String) throws -> String {
      let ended = try CommandLineTool.run(
        ["--data", folder.path + "/other", "--admin", "127.0.0.1:0"],
        executable: Checkout.products.appending(path: "aquifer-share"),
        environment: ["XDG_RUNTIME_DIR": runtime])
      #expect(ended.code == 78)
      return ended.problem
    }
    let open = folder.path + "/open"
    try FileManager.default.createDirectory(
      atPath: open + "/aquifer", withIntermediateDirectories: true, attributes: [.posixPermissions: 0o755])
    chmod(open + "/aquifer", 0o750)
    #expect(
      try refusal(open).contains(
        "--bus: the folder \(open)/aquifer is open to other accounts, which could join the bus: chmod 700 it."))
    chmod(open + "/aquifer", 0o700)
    chown(open + "/aquifer", 65534, 65534)
    #expect(try refusal(open).contains("belongs to another account"))
  }
}
