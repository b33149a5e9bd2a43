// The names of messages are part of the protocol: they must be unique and carry their version.

import Foundation
import Testing

@testable import ServiceBus

/// The texts of all contract files.
private func contracts() throws -> [String] {
  let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
    .appending(path: "Shared/ServiceBus/Contracts")
  let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil).filter {
    $0.pathExtension == "swift"
  }
  return try files.map { try String(contentsOf: $0, encoding: .utf8) }
}

@Suite struct ContractTests {
  @Test func `every message has a name of its own of the form a.b/1`() throws {
    let texts = try contracts()
    let types = texts.flatMap { text in
      text.matches(of: /(?:struct|enum|class)\s+(\w+)\s*:[^{]*\bMessage\b/).map { String($0.output.1) }
    }
    let names = texts.flatMap { text in text.matches(of: /static let name\s*=\s*"([^"]*)"/).map { String($0.output.1) }
    }
    #expect(names.count >= 11)
    #expect(types.count == names.count, "\(types.sorted()) and \(names.sorted())")
    #expect(Set(names).count == names.count, "\(names.sorted())")
    for name in names {
      #expect(try /[a-z][a-z-]*\.[a-z][a-z-]*\/[1-9][0-9]*/.wholeMatch(in: name) != nil, "\(name)")
    }
  }

  @Test func `the names that tests read are those that are sent`() {
    #expect(DatabaseRequest.name == "database.request/1")
    #expect(PublishClusterMap.name == "cluster.map/1")
  }
}
