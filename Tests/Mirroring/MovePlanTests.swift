// The records that move together, and their receipts (A9, R17).

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

/// The sample model with some relationships declared as boundaries, such as `Post.author`.
private func model(cuttingAt boundaries: String...) -> ModelIndex {
  var model = Sample.model
  for boundary in boundaries {
    let parts = boundary.split(separator: ".").map(String.init)
    guard let entity = model.entities.firstIndex(where: { $0.name == parts[0] }),
      let relationship = model.entities[entity].relationships.firstIndex(where: { $0.name == parts[1] })
    else { preconditionFailure("no \(boundary)") }
    model.entities[entity].relationships[relationship].userInfo[ReservedName.shareBoundaryKey] = "YES"
  }
  return ModelIndex(model)
}

extension TestZone {
  /// The plan for moving some objects.
  fileprivate func plan(_ roots: String..., model: ModelIndex = Sample.index, limit: Int = Limit.moveCount) throws
    -> MovePlan
  {
    var planner = MovePlanner(
      MoveSource {
        self.record(named: $0)
      } outgoing: { record in
        self.fields.references(of: record).map { RecordPointerTarget(field: $0.field, target: $0.target) }
      } incoming: {
        self.pointers(to: $0)
      } duplicates: { _ in
        (nil, [])
      } isShared: { _ in
        true
      }, boundaries: ShareBoundaries(model, LinkResolver(model)), recordLimit: limit)
    for root in roots { try planner.add(root) }
    return try planner.finish()
  }
}

/// Two posts of an author: one has an attachment, a cover and a tag that a third post also has. And a single post.
private func world() throws -> TestZone {
  let zone = TestZone()
  try zone.save(
    insert("Person", "ann"),
    insert(
      "Post", "p", ["title": .string("one")], ["author": .toOne("ann"), "tags": .toMany(["t"]), "cover": .toOne("c")]),
    insert("Attachment", "a", [:], ["post": .toOne("p")]), insert("Cover", "c"), insert("Tag", "t"),
    insert("Post", "q", [:], ["author": .toOne("ann")]),
    insert("Post", "r", [:], ["tags": .toMany(["t"])]), insert("Post", "alone"))
  return zone
}

@Suite struct `The plan of a move` {
  @Test(arguments: ["p", "a", "c", "t", "ann", "q", "r"])
  func `T-P01 everything that is connected goes along, whichever object is named`(_ root: String) throws {
    let plan = try world().plan(root)
    #expect(Set(plan.items.filter(\.isObject).map(\.recordName)) == ["ann", "p", "a", "c", "t", "q", "r"])
    #expect(plan.items.filter { !$0.isObject }.count == 2 && plan.items.suffix(2).allSatisfy { !$0.isObject })
    #expect(plan.items.first?.recordName == root && plan.cuts.isEmpty && plan.cutLinks.isEmpty && plan.expected.isEmpty)
  }

  @Test func `an object alone moves alone, and several graphs move together`() throws {
    let zone = try world()
    #expect(try zone.plan("alone").items.map(\.recordName) == ["alone"])
    #expect(try zone.plan("alone", "p", "t").items.count == 10)
  }

  @Test func `a boundary of a to-one relationship cuts its pointer, declared on either side`() throws {
    for boundary in ["Post.author", "Person.posts"] {
      let zone = try world()
      let plan = try zone.plan("p", model: model(cuttingAt: boundary))
      #expect(Set(plan.items.filter(\.isObject).map(\.recordName)) == ["p", "a", "c", "t", "r"], "\(boundary)")
      #expect(plan.cuts == [MovePlan.Cut(source: "p", field: "CD_author", target: "ann")])
      // From the other side the references of the objects that stay are cut.
      let other = try zone.plan("ann", model: model(cuttingAt: boundary))
      #expect(other.items.map(\.recordName) == ["ann"])
      #expect(Set(other.cuts.map(\.source)) == ["p", "q"])
    }
  }

  @Test func `a boundary of a many-to-many relationship cuts its links`() throws {
    let zone = try world()
    let plan = try zone.plan("p", model: model(cuttingAt: "Tag.posts"))
    #expect(Set(plan.items.map(\.recordName)) == ["p", "a", "c", "ann", "q"])
    #expect(plan.cutLinks.count == 1 && plan.cuts.isEmpty)
    // The link moves along when both of its ends move by other ways.
    let both = try zone.plan("p", "t", model: model(cuttingAt: "Tag.posts"))
    #expect(both.items.filter { !$0.isObject }.count == 1 && both.cutLinks.count == 1)
    #expect(try zone.plan("p", "t", "r", model: model(cuttingAt: "Tag.posts")).cutLinks.isEmpty)
  }

  @Test func `a to-one relationship whose ends both move stays whole across its boundary`() throws {
    let plan = try world().plan("p", "ann", model: model(cuttingAt: "Post.author"))
    #expect(plan.cuts.map(\.source) == ["q"])
  }

  @Test func `names that nobody has heard of are expected where they are pointed to from, and tombstones are not`()
    throws
  {
    let zone = TestZone()
    zone.put(record("CD_Attachment", "a", ["CD_entityName": .string("Attachment"), "CD_post": .string("later")]))
    zone.put(
      record(
        "CDMR", "l",
        [
          "CD_entityNames": .string("Post:Tag"), "CD_relationships": .string("tags:posts"),
          "CD_recordNames": .string("later:t"),
        ]))
    zone.put(record("CD_Tag", "t", ["CD_entityName": .string("Tag")]), isDeleted: true)
    let plan = try zone.plan("a")
    #expect(plan.items.map(\.recordName) == ["a", "l"] && plan.expected == ["later"])
  }

  @Test func `more than the limit is refused with the number, and what does not exist by its name`() throws {
    let zone = try world()
    #expect(try zone.plan("p", limit: 9).items.count == 9)
    #expect(throws: MoveRefusal.tooManyRecords(from: "p", limit: 8)) { try zone.plan("p", limit: 8) }
    #expect(MoveRefusal.tooManyRecords(from: "p", limit: 8).recordError.reason.contains("More than 8 records"))
    zone.delete("alone")
    for name in ["alone", "never"] { #expect(throws: MoveRefusal.unknownObject(name)) { try zone.plan(name) } }
  }

  @Test func `an object with a share of its own does not move`() throws {
    let zone = try world()
    var root = zone["q"]!
    root.shortGUID = "0abc"
    zone.put(root)
    #expect(throws: MoveRefusal.sharedByItself("q")) { try zone.plan("p") }
    // A share does not count as a record that moves along.
    zone.put(record("cloudkit.share", "s", ["CD_post": .string("alone")]))
    #expect(try zone.plan("alone").items.count == 1)
  }
}

@Suite struct `Receipts of moves` {
  private let database: UInt64 = 18_446_744_073_709_551_615

  private func moved(_ zones: String...) -> Record {
    var post = record("CD_Post", "p", [:])
    for (index, zone) in zones.enumerated() {
      MoveReceipts.add(
        MoveReceipts.Move(zoneName: zone, movedAt: 1000, sequence: Int64(10 * index + 10)), to: &post, in: database)
    }
    return post
  }

  @Test func `a record says where it was, the oldest first`() {
    let receipts = MoveReceipts(of: moved("A", "B"), in: database)
    #expect(receipts.moves.map(\.zoneName) == ["A", "B"] && receipts.moves.map(\.sequence) == [10, 20])
    #expect(MoveReceipts(of: moved(), in: database).moves.isEmpty)
  }

  @Test func `links and other programs' records get none`() {
    for type in ["CDMR", "CD_M2M_Post_tags", "Note"] {
      var other = record(type, "n", [:])
      MoveReceipts.add(MoveReceipts.Move(zoneName: "A", movedAt: 1, sequence: 1), to: &other, in: database)
      #expect(other.fields.isEmpty, "\(type)")
    }
  }

  @Test func `there is a limit to what a record remembers`() {
    var post = record("CD_Post", "p", [:])
    for index in 1...40 {
      MoveReceipts.add(
        MoveReceipts.Move(zoneName: "Z\(index)", movedAt: 1, sequence: Int64(index)), to: &post, in: database)
    }
    #expect(MoveReceipts(of: post, in: database).moves.map(\.zoneName) == (25...40).map { "Z\($0)" })
  }

  @Test(arguments: [
    FieldValue.string("A"), .bytes([]), .bytes([0, 1]), .bytes(Array("[]".utf8)),
    .bytes(Array(#"{"database":"7","moves":[{"zoneName":"A","movedAt":1,"sequence":1}]}"#.utf8)),
    .bytes(
      Array(
        #"{"database":"18446744073709551615","moves":[{"zoneName":"_A","movedAt":1,"sequence":1},{"zoneName":"B"},7]}"#
          .utf8)),
  ])
  func `R17 an unreadable receipt, and another database's, is not a receipt`(_ value: FieldValue) {
    #expect(MoveReceipts(of: record("CD_Post", "p", ["CD_moveReceipt": value]), in: database).moves.isEmpty)
  }

  /// The move that a store hears of, for a post that went from A to B (10) and to C (20).
  @Test(arguments: [
    (MoveView(told: 9, hasBeenComplete: true, store: "S"), "A"),
    (MoveView(told: 10, hasBeenComplete: true, store: "S"), "B"),
    (MoveView(told: 19, hasBeenComplete: true, store: "S"), "B"),
    (MoveView(told: 20, hasBeenComplete: true, store: "S"), nil),
    // A first import: objects that the store can't know yet have not moved for it.
    (MoveView(told: 0, hasBeenComplete: false, store: "S"), nil),
    (MoveView(told: 0, hasBeenComplete: false, store: "maker"), "A"),
  ])
  func `a store is told of the move out of the zone that it knows`(_ view: MoveView, _ expected: String?) {
    var post = moved("A", "B")
    post.created.deviceID = "maker"
    let receipts = MoveReceipts(of: post, in: database)
    #expect(view.origin(of: post, receipts, in: "C") { _ in true } == expected)
  }

  @Test func `a store hears nothing of zones that it does not see, nor of a way that led back`() {
    let view = MoveView(told: 1, hasBeenComplete: true, store: "S")
    let (post, back) = (moved("A", "B"), moved("A", "B"))
    #expect(view.origin(of: post, MoveReceipts(of: post, in: database), in: "C") { $0 == "B" } == "B")
    #expect(view.origin(of: post, MoveReceipts(of: post, in: database), in: "C") { _ in false } == nil)
    #expect(view.origin(of: back, MoveReceipts(of: back, in: database), in: "A") { _ in true } == nil)
  }
}
