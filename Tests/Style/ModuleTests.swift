// The sync worker's modules lie in layers, and files within a module depend on each other in small circles at most.

import Testing

/// The files of the worker, and the types that they name of each other.
private struct Dependencies {
  /// By path: the paths of other files of the same module whose types the file names.
  private(set) var graph: [String: Set<String>] = [:]

  init(_ files: [SourceFile]) {
    let declaration =
      /^(?:@\w+ )*(?:(?:public|package|final|indirect) )*(?:struct|class|enum|protocol|actor|typealias) (\w+)/
    var homes: [String: [String: String]] = [:]
    for file in files {
      for line in file.code {
        if let match = line.prefixMatch(of: declaration) {
          homes[file.module, default: [:]][String(match.output.1)] = file.path
        }
      }
    }
    for file in files {
      var named: Set<String> = []
      for line in file.code {
        for word in line.matches(of: /\b[A-Z]\w*/) {
          if let home = homes[file.module]?[String(word.output)], home != file.path { named.insert(home) }
        }
      }
      graph[file.path] = named
    }
  }

  /// The groups of files that reach each other, largest first; files that stand alone are left out.
  var circles: [[String]] {
    var reach: [String: Set<String>] = [:]
    for start in graph.keys {
      var (seen, next): (Set<String>, [String]) = ([], [start])
      while let file = next.popLast() {
        for other in graph[file] ?? [] where seen.insert(other).inserted { next.append(other) }
      }
      reach[start] = seen
    }
    let groups = graph.keys.filter { reach[$0]?.contains($0) == true }.map { file in
      graph.keys.filter { reach[file]?.contains($0) == true && reach[$0]?.contains(file) == true }.sorted()
    }
    return Set(groups).sorted { ($1.count, $0.first ?? "") < ($0.count, $1.first ?? "") }
  }

  /// Pairs of folders whose files name each other's types.
  var mutualFolders: Set<[String]> {
    func folder(_ path: String) -> String { path.split(separator: "/").dropLast().joined(separator: "/") }
    var edges: Set<[String]> = []
    for (file, others) in graph {
      for other in others where folder(file) != folder(other) { edges.insert([folder(file), folder(other)]) }
    }
    return edges.filter { edges.contains([$0[1], $0[0]]) }
  }
}

@Test func `a module of the worker imports only modules that are listed before it`() throws {
  let modules = try Repository.text("Package.swift").matches(of: /worker\(\s*"(\w+)"/).map { String($0.output.1) }
  #expect(modules.count == 6)
  let rank = Dictionary(uniqueKeysWithValues: modules.enumerated().map { ($1, $0) })
  for file in Repository.swiftFiles(under: "Services/SyncWorker") {
    let own = try #require(rank[file.module], "\(file.path) belongs to no module of the worker")
    for name in file.imports {
      if let other = rank[name] {
        #expect(other < own, "\(file.path) imports \(name), which lies above \(file.module)")
      }
    }
  }
}

@Test func `the record plane and the object plane do not know each other`() {
  for file in Repository.swiftFiles(under: "Services/SyncWorker/RecordPlane", "Services/SyncWorker/ObjectPlane") {
    #expect(Set(file.imports).isDisjoint(with: ["RecordPlane", "ObjectPlane"]), "\(file.path)")
  }
}

@Test func `no more than five files of a module depend on each other in a circle, and no two folders do`() {
  let dependencies = Dependencies(Repository.swiftFiles(under: "Services/SyncWorker"))
  #expect(dependencies.graph.values.contains { $0.count > 3 }, "the sources are not understood any more")
  for circle in dependencies.circles where circle.count > 5 {
    Issue.record("\(circle.count) files depend on each other: \(circle)")
  }
  #expect(dependencies.mutualFolders.isEmpty)
}

@Test func `circles and mutual folders are found`() {
  func file(_ path: String, _ text: String) -> SourceFile {
    SourceFile(path: "Services/SyncWorker/M/\(path).swift", text: text)
  }
  let dependencies = Dependencies([
    file("a/A", "struct A { let b: B }"), file("b/B", "struct B { let c: C? }\n"),
    file("b/C", "struct C { let a: A? }"), file("D", "struct D { let a: A }"),
  ])
  #expect(dependencies.circles.map(\.count) == [3])
  #expect(!dependencies.mutualFolders.isEmpty)
}
