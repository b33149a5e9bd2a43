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

/// Nothing here compiles that source.
@Test func `source that only Apple's platforms compile is marked by Darwin, and short`() {
  var count = 0
  for file in Repository.swiftFiles(under: "Clients") {
    var branches: [Substring] = []
    for (number, line) in file.code.enumerated() {
      let line = line.drop { $0 == " " }
      let word = line.prefix { $0 != " " }
      switch word {
      case "#if": branches.append(line)
      case "#elseif", "#else": branches[branches.count - 1] = line
      case "#endif": branches.removeLast()
      default:
        let isApples = branches.contains { $0.hasSuffix("if canImport(Darwin)") }
        count += isApples && !line.isEmpty ? 1 : 0
        #expect(isApples || !line.hasSuffix("import Darwin"), "\(file.path):\(number + 1)")
      }
    }
  }
  #expect(count > 0 && count <= 20, "\(count) lines")
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
