// Rows and savepoints that wait, against a model that knows no waiting.

import Testing

@testable import PostgreSQL

extension RowCommand {
  fileprivate static let item = RowCommand(
    one: .insert,
    many: Command("insert rows", "INSERT INTO item(id, name) SELECT * FROM unnest($1::bigint[], $2::text[])"))
  fileprivate static let other = RowCommand(
    one: Command("other", "INSERT INTO other(id, bytes) VALUES ($1, $2)"),
    many: Command("other rows", "INSERT INTO other(id, bytes) SELECT * FROM unnest($1::bigint[], $2::bytea[])"))
}

extension Session {
  fileprivate func row(_ identifier: Int64, _ name: String? = "a name") throws(PostgreSQLError) {
    try queueRow(.item, [.integer(identifier), .text(name)])
  }
}

/// A transaction as it would be without waiting: the items, and those before each open savepoint.
private struct Model {
  var items: [Int64: String?] = [:]
  var savepoints: [[Int64: String?]] = []
}

@Suite struct RowTests {
  @Test func `rows go out by one command for each table, before any other command`() throws {
    let world = try World()
    let session = try world.session()
    _ = try session.rows(Command("table other", "CREATE TABLE other(id bigint, bytes bytea)"))
    try session.begin()
    for identifier in 0..<100 as Range<Int64> {
      try session.row(identifier, identifier % 3 == 0 ? nil : "\(identifier)")
      try session.queueRow(.other, [.integer(identifier), .bytes(identifier % 2 == 0 ? nil : [UInt8(identifier), 0])])
    }
    try session.queue(.count)
    let answers = try session.finish()
    #expect(answers.map(\.changedCount) == [100, 100, 1])
    #expect(try #require(answers.last?.first).integer(0) == 100)
    try session.row(100)
    #expect(try session.finish().map(\.changedCount) == [1])
    try session.row(101)
    try session.commit()
    let items = try world.items()
    #expect(items.count == 102 && items[3] == .some(nil) && items[4] == "4")
    let others = try session.rows(Command("others", "SELECT id, bytes FROM other ORDER BY id"))
    let expected: [[UInt8]?] = (0..<100).map { $0 % 2 == 0 ? nil : [UInt8($0), 0] }
    #expect(try others.map { try $0.optionalBytes(1) } == expected)
  }

  @Test func `many rows go out in parts, and a savepoint behind which only rows wait is never sent`() throws {
    let world = try World()
    let session = try world.session()
    try session.begin()
    for body in 0..<12 as Range<Int64> {
      try session.openSavepoint()
      for number in 0..<100 { try session.row(body * 100 + Int64(number)) }
      if body == 3 { try session.rollbackToSavepoint() }
      try session.releaseSavepoint()
    }
    let answers = try session.finish()
    #expect(answers.map(\.changedCount).reduce(0, +) == 1100 && answers.count == 3)
    try session.commit()
    #expect(try Set(world.items().keys) == Set((0..<1200).filter { !(300..<400).contains($0) }))
  }

  @Test(arguments: 0..<40 as Range<UInt64>)
  func `waiting changes nothing of what a transaction stores`(seed: UInt64) throws {
    let world = try World()
    let session = try world.session()
    var (state, last) = (seed &* 0x9E37_79B9_7F4A_7C15 &+ 1, Int64(0))
    func draw(_ count: UInt64) -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return (state >> 33) % count
    }
    var stored: [Int64: String?] = [:]
    for _ in 0..<6 {
      var model = Model(items: stored)
      try session.begin()
      for _ in 0..<draw(60) {
        last += 1
        switch draw(12) {
        case 0..<5:
          try session.row(last, "row")
          model.items[last] = "row"
        case 5:
          try session.insert(last, "command")
          model.items[last] = "command"
        case 6, 7:
          try session.openSavepoint()
          model.savepoints.append(model.items)
        case 8 where !model.savepoints.isEmpty:
          try session.releaseSavepoint()
          model.savepoints.removeLast()
        case 9, 10:
          guard let items = model.savepoints.last else { continue }
          try session.rollbackToSavepoint()
          model.items = items
        default: #expect(try session.itemCount() == Int64(model.items.count))
        }
      }
      if draw(4) == 0 {
        session.rollback()
      } else {
        try session.commit()
        stored = model.items
      }
      #expect(try world.items() == stored)
    }
  }

  @Test func `a refused row waits for nobody, and a failed command of rows undoes the transaction`() throws {
    let world = try World()
    let session = try world.session()
    try session.transaction {
      try session.row(1)
      #expect(kind { try session.row(2, "a\0b") } == .invalidValue)
      try session.row(3)
    }
    #expect(try world.items().keys.sorted() == [1, 3])
    try session.begin()
    for identifier in [4, 5, 3, 6] as [Int64] { try session.row(identifier) }
    let error = #expect(throws: PostgreSQLError.self) { try session.commit() }
    #expect(error?.kind == .uniqueViolation && error?.command == "insert rows")
    session.rollback()
    try session.begin()
    try session.row(7)
    session.rollback()
    #expect(try world.items().keys.sorted() == [1, 3])
    session.close()
    #expect(kind { try session.row(8) } == .connectionLost)
  }
}
