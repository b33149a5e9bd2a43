import Foundation
import ServiceBus
import Testing

@testable import Console

struct BusKeyFileTests {
  @Test func `keys that are made at the same time are all known, and a refused one leaves nothing`() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-bus-keys-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let peers = folder + "/peers"
    let lines = try await withThrowingTaskGroup(of: String.self) { group in
      for number in 0..<16 {
        group.addTask {
          let key = "\(folder)/\(number).key"
          return "\(try BusKeyFile.addKey(to: key, role: .worker, name: "worker-\(number)", peers: peers))"
        }
      }
      return try await group.reduce(into: Set<String>()) { $0.insert($1) }
    }
    let text = try String(contentsOfFile: peers, encoding: .utf8)
    #expect(Set(text.split(separator: "\n").map(String.init)) == lines && lines.count == 16)
    for (key, name) in [("0.key", "another"), ("new.key", "worker-0")] {
      // A worker's name is no gateway's.
      #expect(throws: SystemProblem.self) {
        try BusKeyFile.addKey(to: "\(folder)/\(key)", role: .gateway, name: name, peers: peers)
      }
    }
    #expect(!FileManager.default.fileExists(atPath: folder + "/new.key"))
    #expect(try String(contentsOfFile: peers, encoding: .utf8) == text)
  }
}
