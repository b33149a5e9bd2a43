// What an app links with the Swift client stays small: the platform's own modules, SQLite and libcurl.

import Testing

/// The client's modules, from the bottom up, with what each may import beside the modules below it.
private let modules: [(name: String, imports: Set<String>)] = [
  ("MirrorWire", ["FoundationEssentials"]),
  ("ReplicaStore", ["FoundationEssentials", "Synchronization", "Dispatch", "Glibc", "Darwin", "SQLite"]),
  ("ReplicaSync", ["FoundationEssentials", "Synchronization", "Glibc", "Musl", "Darwin", "HTTPClient"]),
  ("URLSessionTransport", ["FoundationEssentials", "Synchronization", "Foundation", "FoundationNetworking"]),
  ("AquiferClient", ["FoundationEssentials", "Synchronization"]),
]

@Test(arguments: modules.indices) func `a module of the client imports only what lies below it`(place: Int) {
  let below = Set(modules[..<place].map(\.name))
  let files = Repository.swiftFiles(under: "Clients/Swift/\(modules[place].name)")
  #expect(!files.isEmpty)
  for file in files {
    let imports = Set(file.imports.filter { $0 != "@_exported" } + file.exported)
    #expect(imports.subtracting(below).isSubset(of: modules[place].imports), "\(file.path) imports \(imports)")
  }
}

extension SourceFile {
  /// Modules that the file hands on to those who import its own.
  fileprivate var exported: [String] {
    lines.compactMap { $0.hasPrefix("@_exported ") ? $0.split(separator: " ").last.map(String.init) : nil }
  }
}

@Test(arguments: ["MirrorWire", "ReplicaStore"])
func `the client's values and its store read no clock and make no identifiers`(module: String) {
  for file in Repository.swiftFiles(under: "Clients/Swift/\(module)") {
    for (number, line) in file.code.enumerated() {
      for call in ["Date()", "Date.now", "UUID()", ".random(", "Task.sleep", "ContinuousClock"]
      where line.contains(call) {
        Issue.record("\(file.path):\(number + 1) says \(call): take it from outside")
      }
    }
  }
}

@Test func `files of the client say why they exist, and are short`() {
  for file in Repository.swiftFiles(under: "Clients/Swift") {
    #expect(file.text.hasPrefix("// ") || file.path.hasSuffix("Package.swift"), "\(file.path)")
    #expect(file.lines.count <= 401, "\(file.path) has \(file.lines.count) lines")
    for call in ["fatalError(", "try!", "to be written"] {
      #expect(!file.text.contains(call), "\(file.path) says \(call)")
    }
  }
}
