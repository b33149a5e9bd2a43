// Zones are written in one place: a commit makes writers, and its effects alone are published.

import Testing

/// A call of the worker that stands in one room.
struct RoomsCall: CustomTestStringConvertible {
  let pattern: String
  /// Files that may have it, from `Services/SyncWorker`.
  let allowed: [String]
  var testDescription: String { pattern }

  static let all = [
    RoomsCall(pattern: "ZoneWriter(", allowed: ["ZoneCommit/"]),
    RoomsCall(pattern: "DuplicateMerge(in:", allowed: ["ZoneCommit/", "ObjectPlane/DuplicateRemoval.swift"]),
    RoomsCall(pattern: "UniqueCheck(", allowed: ["ZoneCommit/", "ObjectPlane/SaveUniqueness.swift"]),
    RoomsCall(pattern: "ReferenceRules(", allowed: ["ZoneCommit/"]),
    RoomsCall(pattern: " ZoneChange(", allowed: ["ZoneCommit/"]),
    RoomsCall(pattern: ".firing(in:", allowed: ["ZoneCommit/"]),
    RoomsCall(pattern: "changes.publish(", allowed: ["ZoneCommit/", "ObjectPlane/ObjectContext.swift"]),
    RoomsCall(pattern: "shareNews.note(", allowed: ["ZoneCommit/"]),
    RoomsCall(pattern: ".deleteZone(", allowed: ["ZoneCommit/"]),
    // A save notes which zone its objects are for; the export that follows tells of it.
    RoomsCall(pattern: "transaction.makeZone(", allowed: ["ZoneCommit/", "ObjectPlane/ZoneChoice.swift"]),
  ]
}

@Test(arguments: RoomsCall.all) func `a zone is written by a commit, and by nothing beside it`(_ call: RoomsCall) {
  let folder = "Services/SyncWorker/"
  let files = Repository.swiftFiles(under: "Services/SyncWorker")
  #expect(
    files.contains { $0.code.contains { $0.contains(call.pattern) } },
    "nothing says \(call.pattern) any more: its row is to go")
  for file in files where !call.allowed.contains(where: { file.path.hasPrefix(folder + $0) }) {
    for (index, line) in file.code.enumerated() where line.contains(call.pattern) {
      Issue.record("\(file.path):\(index + 1) says \(call.pattern)")
    }
  }
}
