import JSON
import RecordStore
import Records
import Testing

private typealias World = RecordPlaneWorld

extension RecordPlaneWorld {
  /// A world in memory with Alice's zone, after some operations.
  static func withZone(after operations: String...) async throws -> RecordPlaneWorld {
    let world = try await inMemory()
    try await world.makeZone()
    #expect(try await world.codes(operations).allSatisfy { $0 == nil })
    return world
  }

  /// Shares a record of Alice's with what hangs below it, with people who accept at once.
  /// - Returns: the share's dictionary.
  @discardableResult func shareHierarchy(_ root: String, with users: [(String, String)], zone: String = "Trips")
    async throws -> JSONValue
  {
    let tag = try await lookUp([root], zone: zone).records[0].tag ?? ""
    let people = users.map { Self.participant($0.0, $0.1) }.joined(separator: ",")
    let share =
      #"""
      "recordName":"S-\#(root)","recordType":"cloudkit.share","forRecord":{"recordName":"\#(root)",\#
      "recordChangeTag":"\#(tag)"}
      """#
    let made = try await modify([Self.operation("create", share + #","participants":[\#(people)]"#)], zone: zone)
    let answer = try #require(made.records.first)
    try #require(answer.code == nil, "\(answer.text)")
    for (user, _) in users {
      let accepted = try await accept(answer.shortGUID, by: "_\(user)")
      try #require(accepted.code == nil)
    }
    return answer
  }

  /// A note with a reference in its field `on`.
  static func pointing(
    _ name: String, to target: String, _ action: String = "DELETE_SELF", _ kind: String = "create",
    parent: String? = nil
  ) -> String {
    var record =
      #"""
      "recordName":"\#(name)","recordType":"Note","fields":{"on":{"value":{"recordName":"\#(target)",\#
      "action":"\#(action)"}}}
      """#
    if let parent { record += #","parent":{"recordName":"\#(parent)"}"# }
    return operation(kind, record)
  }

  static func delete(_ name: String) -> String { operation("forceDelete", #""recordName":"\#(name)""#) }

  /// The codes of the answers to operations on Alice's zone, in order.
  func codes(_ operations: [String], by user: String = "_alice", isAtomic: Bool = false) async throws -> [String?] {
    let reply = try await modify(operations, by: user, isAtomic: isAtomic)
    return reply.records.map(\.code)
  }

  /// True for each of Alice's records that the user finds.
  func sees(_ names: [String], by user: String = "_alice") async throws -> [Bool] {
    if user == "_alice" { return try await lookUp(names).records.map { $0.code == nil } }
    let list = names.map { #"{"recordName":"\#($0)"}"# }.joined(separator: ",")
    return try await shared("records/lookup", #"{"records":[\#(list)],\#(Self.zoneID())}"#, by: user).records.map {
      $0.code == nil
    }
  }
}

/// A participant of a hierarchy can't change its share, its root's place, or records outside of it.
struct HierarchyLimitsTests {
  // MARK: Deleting along

  @Test(arguments: [false, true])
  func `a participant does not end a share by deleting what its root goes with`(isAtomic: Bool) async throws {
    let world = try await World.withZone(after: World.note("r"), World.note("c", parent: "r"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    let points = World.pointing("r", to: "c", "DELETE_SELF", "forceUpdate")
    if isAtomic {
      #expect(
        try await world.codes([points, World.delete("c")], by: "_bob", isAtomic: true) == [
          "ATOMIC_ERROR", "ACCESS_DENIED",
        ])
    }
    #expect(try await world.codes([points], by: "_bob") == [nil])
    #expect(try await world.codes([World.delete("c")], by: "_bob") == ["ACCESS_DENIED"])
    #expect(try await world.sees(["r", "c", "S-r"], by: "_bob") == [true, true, true])
    // It is the owner's to do.
    #expect(try await world.codes([World.delete("c")]) == [nil])
    #expect(try await world.sees(["r", "c", "S-r"]) == [false, false, false])
    #expect(try await world.feed(by: "_bob").code == "ZONE_NOT_FOUND")
  }

  @Test func `a participant deletes nothing along that he does not see, or may only read`() async throws {
    let world = try await World.withZone(
      after:
        World.note("r"), World.note("c", parent: "r"), World.pointing("hidden", to: "c"), World.note("b"),
      World.note("d", parent: "r"),
      World.pointing("readable", to: "d", parent: "b"), World.note("e", parent: "r"),
      World.pointing("own", to: "e", parent: "r"),
      World.pointing("waiting", to: "nowhere"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    try await world.shareHierarchy("b", with: [("bob", "READ_ONLY")])
    #expect(
      try await world.codes([World.delete("c"), World.delete("d"), World.delete("e")], by: "_bob") == [
        "ACCESS_DENIED", "ACCESS_DENIED", nil,
      ])
    #expect(
      try await world.sees(["c", "hidden", "d", "readable", "e", "own"]) == [true, true, true, true, false, false])
    #expect(try await world.codes([World.note("nowhere", parent: "r")], by: "_bob") == [nil])
    #expect(try await world.codes([World.delete("nowhere")], by: "_bob") == ["ACCESS_DENIED"])
    #expect(try await world.sees(["waiting"]) == [true])
  }

  // MARK: Names that others hang from

  @Test func `making a record under a name that others hang from brings nobody what was not shared with him`()
    async throws
  {
    let world = try await World.withZone(
      after:
        World.note("t"), World.note("r", parent: "t"), World.note("n", parent: "t"), World.note("m", parent: "never"),
      World.note("f", parent: "r"),
      World.note("g", parent: "f"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    for operation in [World.delete("t"), World.note("f", "forceUpdate", parent: "t"), World.delete("f")] {
      #expect(try await world.codes([operation]) == [nil])
    }
    for name in ["t", "f", "never"] {
      for kind in ["create", "forceUpdate", "forceReplace"] {
        #expect(
          try await world.codes([World.note(name, kind, parent: "r")], by: "_bob") == ["ACCESS_DENIED"],
          "\(name) \(kind)")
        let unit = [World.note("new", kind, parent: "r"), World.note(name, kind, parent: "new")]
        #expect(
          try await world.codes(unit, by: "_bob", isAtomic: true) == ["ATOMIC_ERROR", "ACCESS_DENIED"],
          "\(name) \(kind)")
      }
    }
    #expect(try await world.sees(["n", "m", "g"], by: "_bob") == [false, false, false])
    // Below the root he makes deleted records again, with their children.
    for operation in [
      World.note("x", parent: "r"), World.note("y", parent: "x"), World.delete("x"), World.note("x", parent: "r"),
    ] {
      #expect(try await world.codes([operation], by: "_bob") == [nil])
    }
    #expect(try await world.sees(["x", "y"], by: "_bob") == [true, true])
  }

  @Test func `a record that may only be read is not made again to be written`() async throws {
    let world = try await World.withZone(
      after:
        World.note("r"), World.note("b"), World.note("f", parent: "b"), World.note("g", parent: "f"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    try await world.shareHierarchy("b", with: [("bob", "READ_ONLY")])
    #expect(try await world.codes([World.delete("f")]) == [nil])
    #expect(try await world.codes([World.note("f", parent: "r")], by: "_bob") == ["ACCESS_DENIED"])
    #expect(try await world.codes([World.note("g", "forceUpdate", parent: "f")], by: "_bob") == ["ACCESS_DENIED"])
  }

  // MARK: The root's parent

  @Test func `a participant of a hierarchy can't move its root elsewhere`() async throws {
    let world = try await World.withZone(
      after:
        World.note("a"), World.note("r", parent: "a"), World.note("c", parent: "r"), World.note("b"),
      World.note("d", parent: "b"))
    try await world.shareHierarchy("a", with: [("carol", "READ_ONLY")])
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    try await world.shareHierarchy("b", with: [("bob", "READ_ONLY"), ("dave", "READ_WRITE")])
    let none = World.operation("forceUpdate", #""recordName":"r","recordType":"Note","parent":null"#)
    for operation in [
      none, World.note("r", "forceUpdate", parent: "d"), World.note("r", "forceReplace", parent: "d"),
      World.note("r", "forceUpdate", parent: "c"),
    ] {
      #expect(try await world.codes([operation], by: "_bob") == ["ACCESS_DENIED"], "\(operation)")
    }
    // An operation without a parent leaves the parent as it is.
    for operation in [
      World.note("r", "forceReplace", title: "mine"), World.note("r", "forceUpdate", parent: "a", title: "mine"),
    ] {
      #expect(try await world.codes([operation], by: "_bob") == [nil])
    }
    #expect(try await world.sees(["r", "c"], by: "_carol") == [true, true])
    #expect(try await world.sees(["r", "c"], by: "_dave") == [false, false])
    #expect(try await world.lookUp(["r"]).records[0]["parent"]?["recordName"]?.string == "a")
    #expect(try await world.lookUp(["r"]).records[0].value("title")?.string == "mine")
    // The owner does.
    #expect(try await world.codes([World.note("r", "forceUpdate", parent: "b")]) == [nil])
    #expect(try await world.sees(["r", "c"], by: "_dave") == [true, true])
    // A root of another user keeps its parent, too.
    #expect(try await world.codes([World.note("r", "forceUpdate", parent: "d")], by: "_dave") == ["ACCESS_DENIED"])
  }

  // MARK: Names that are taken

  @Test(arguments: ["create", "forceUpdate", "forceReplace"])
  func `a caller without permission to write at a record's new place learns nothing of the names there`(kind: String)
    async throws
  {
    let world = try await World.withZone(after: World.note("r"), World.note("b"), World.note("x"))
    try await world.shareHierarchy("r", with: [("bob", "READ_WRITE"), ("carol", "READ_ONLY")])
    for (user, parent) in [("_carol", "r"), ("_carol", "nowhere"), ("_bob", "nowhere"), ("_bob", "b"), ("_bob", "x")] {
      let taken = try await world.modify([World.note("x", kind, parent: parent)], by: user).records[0].text
      let free = try await world.modify([World.note("y", kind, parent: parent)], by: user).records[0].text
      #expect(taken.replacing(#""x""#, with: #""y""#) == free && free.contains("ACCESS_DENIED"), "\(user) \(parent)")
    }
    // Below the root a name is either taken or free.
    let unit = [World.note("p", parent: "r"), World.note("x", parent: "p")]
    #expect(try await world.codes(unit, by: "_bob", isAtomic: true) == ["ATOMIC_ERROR", "CONFLICT"])
    #expect(
      try await world.codes([World.note("x", parent: "r"), World.note("y", parent: "r")], by: "_bob") == [
        "CONFLICT", nil,
      ])
  }

  // MARK: Shares and their roots in one unit

  @Test(arguments: [false, true])
  func `a share whose root goes in the same unit is not written`(comesFirst: Bool) async throws {
    let world = try await World.withZone(after: World.note("r"), World.note("c"), World.pointing("q", to: "c"))
    let share = try await world.shareHierarchy("r", with: [("bob", "READ_WRITE")])
    let update = World.share("update", name: "S-r", tag: share.tag, #""allowsAccessRequests":true"#)
    func unit(_ share: String, _ deletion: String) async throws -> [String?] {
      let codes = try await world.codes(comesFirst ? [share, deletion] : [deletion, share], isAtomic: true)
      return comesFirst ? codes : codes.reversed()
    }
    // Somebody accepted since: the tag is of now.
    let tag = try await world.currentShare("S-r").tag
    #expect(
      try await unit(update.replacing(#""\#(share.tag ?? "")""#, with: #""\#(tag ?? "")""#), World.delete("r")) == [
        "NOT_FOUND", "ATOMIC_ERROR",
      ])
    for (root, deleted) in [("c", "c"), ("q", "c")] {
      let tag = try await world.lookUp([root]).records[0].tag ?? ""
      let create = World.share(name: "S-\(root)", #""forRecord":{"recordName":"\#(root)","recordChangeTag":"\#(tag)"}"#)
      #expect(try await unit(create, World.delete(deleted)) == ["NOT_FOUND", "ATOMIC_ERROR"], "\(root)")
    }
    #expect(try await world.sees(["r", "c", "q", "S-r", "S-c", "S-q"]) == [true, true, true, true, false, false])
    // Stopping and deleting is one thing.
    #expect(try await unit(World.delete("S-r"), World.delete("r")) == [nil, nil])
    #expect(try await world.feed(by: "_bob").code == "ZONE_NOT_FOUND")
    #expect(try await world.codes([World.note("r")]) == [nil])
    try await world.shareHierarchy("r", with: [("bob", "READ_ONLY")])
  }
}
