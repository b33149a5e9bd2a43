import PostgreSQL
import Testing

@Suite struct SessionTests {
  @Test func `queued commands are answered in their order, and say how many rows they changed`() throws {
    let world = try World()
    let session = try world.session()
    try session.begin()
    for identifier in 1...1000 as ClosedRange<Int64> { try session.insert(identifier) }
    let place = try session.queue(Command("all", "UPDATE item SET name = 'other' WHERE id > $1"), [.integer(900)])
    try session.queue(.count)
    let answers = try session.finish()
    #expect(answers.count == 1002 && answers.prefix(1000).allSatisfy { $0.changedCount == 1 && $0.isEmpty })
    #expect(place == 1000 && answers[place].changedCount == 100)
    #expect(try #require(answers.last?.first).integer(0) == 1000)
    try session.commit()
    #expect(try world.items().values.filter { $0 == "other" }.count == 100)
    #expect(try session.finish().isEmpty)
  }

  @Test func `a writer's large values are compressed by LZ4, unless an operator has chosen a method`() throws {
    let world = try World()
    for (chosen, expected) in [(nil, "lz4"), ("pglz", "pglz")] as [(String?, String)] {
      let options = chosen.map { " options='-c default_toast_compression=\($0)'" } ?? ""
      let session = try world.session { $0.address += options }
      try session.compressByLZ4()
      let text = String(repeating: "large ", count: 2000)
      try session.queue(.insert, [.integer(1), .text(text)])
      let row = try session.rows(Command("method", "SELECT pg_column_compression(name) FROM item")).first
      #expect(try row?.text(0) == expected)
      _ = try session.rows(Command("clear", "DELETE FROM item"))
    }
  }

  @Test func `a failure skips the commands behind it, is thrown once, and has its kind`() throws {
    let world = try World()
    let session = try world.session()
    for (command, values, expected) in [
      (Command.insert, [.integer(1), .text("twice")], .uniqueViolation),
      (.insert, [.integer(9), .text("")], .constraintViolation),
      (Command("nonsense", "SELECT nothing"), [], .other),
      (Command("quotient", "SELECT 1 / $1"), [.integer(0)], .invalidValue),
    ] as [(Command, [Value], PostgreSQLError.Kind)] {
      try session.insert(1)
      try session.finish()
      try session.queue(command, values)
      try session.insert(2)
      let error = #expect(throws: PostgreSQLError.self) { try session.finish() }
      #expect(error?.kind == expected && error?.command == command.name && error?.state.count == 5)
      #expect(try session.finish().isEmpty && session.itemCount() == 1)
      _ = try session.rows(Command("clear", "DELETE FROM item"))
    }
  }

  @Test func `a command whose preparation was skipped is prepared at its next use`() throws {
    let session = try World().session()
    try session.queue(Command("nonsense", "SELECT nothing"))
    try session.queue(.count)
    #expect(kind { try session.finish() } == .other)
    #expect(try session.itemCount() == 0)
    #expect(kind { _ = try session.rows(Command("nonsense", "SELECT nothing")) } == .other)
  }

  @Test func `the end of a read waits for no answer, and the next read sees what was committed meanwhile`() throws {
    let world = try World()
    let (reader, writer) = (try world.session { $0.isReadOnly = true }, try world.session())
    for identifier in 0..<5 as Range<Int64> {
      try reader.begin(.snapshot)
      #expect(try reader.itemCount() == identifier)
      let count = reader.waitCount
      try reader.endSnapshot()
      #expect(!reader.isInTransaction && reader.waitCount == count)
      try writer.awaitIdling(ofProcess: reader.serverProcess)
      try writer.transaction { try writer.insert(identifier) }
    }
  }

  @Test func `a failure in a read, noticed or not, ends with the read`() throws {
    let reader = try World().session { $0.isReadOnly = true }
    let nonsense = Command("nonsense", "SELECT nothing")
    for isNoticed in [true, false] {
      try reader.begin(.snapshot)
      try reader.queue(nonsense)
      if isNoticed { #expect(kind { try reader.finish() } == .other) }
      try reader.endSnapshot()
      try reader.begin(.snapshot)
      #expect(try reader.itemCount() == 0)
      try reader.endSnapshot()
    }
  }

  @Test func `errors never say a value`() throws {
    let session = try World().session()
    let secret = "a secret of ada"
    for command in [
      Command("cast", "SELECT $1::bigint"), Command("date", "SELECT $1::timestamp"),
      Command("twice", "INSERT INTO item(id, name) VALUES (1, $1), (1, $1)"),
      Command("long", "SELECT $1::jsonb"),
    ] {
      let error = #expect(throws: PostgreSQLError.self) { _ = try session.rows(command, [.text(secret)]) }
      #expect(error.map { "\($0)" }?.contains("secret") == false)
    }
  }

  @Test func `the commit of a failed transaction throws and stores nothing`() throws {
    let world = try World()
    let session = try world.session()
    try session.begin()
    try session.insert(1)
    try session.insert(1)
    #expect(kind { try session.commit() } == .uniqueViolation)
    #expect(session.isInTransaction)
    #expect(kind { _ = try session.itemCount() } == .failedTransaction)
    #expect(kind { try session.commit() } == .failedTransaction)
    session.rollback()
    try session.transaction { try session.insert(2) }
    #expect(try world.items().keys.sorted() == [2])
  }

  @Test func `a body that throws leaves nothing, also with commands that would fail`() throws {
    struct Stop: Error {}
    let world = try World()
    let session = try world.session()
    #expect(throws: Stop.self) {
      try session.transaction {
        try session.insert(1)
        try session.insert(1)
        throw Stop()
      }
    }
    #expect(try session.itemCount() == 0 && !session.isInTransaction)
  }

  @Test func `transactions that collide are told apart from mistakes`() throws {
    let world = try World()
    let (first, second) = (try world.session(), try world.session())
    try first.insert(1)
    try first.finish()
    let level = Command("level", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    for session in [first, second] {
      try session.begin()
      try session.queue(level)
      #expect(try session.itemCount() == 1)
    }
    try first.queue(.update, [.integer(1), .text("first")])
    try first.commit()
    #expect(kind { _ = try second.rows(.update, [.integer(1), .text("second")]) } == .serialization)
    second.rollback()
    #expect(try world.items() == [1: "first"])
  }

  @Test func `a session that only reads refuses to write`() throws {
    let world = try World()
    let session = try world.session { $0.isReadOnly = true }
    try session.insert(1)
    #expect(kind { try session.finish() } == .readOnly)
    try session.begin(.snapshot)
    try session.insert(1)
    #expect(kind { try session.commit() } == .readOnly)
  }

  /// Compares random transactions with a dictionary for each open savepoint.
  @Test(arguments: 1...4 as ClosedRange<UInt64>) func `savepoints nest, also around failures`(seed: UInt64) throws {
    var random = SplitMix(state: seed)
    let world = try World()
    let session = try world.session()
    var stored: [Int64: String?] = [:]
    for _ in 0..<10 {
      try session.begin()
      var states = [stored]
      for step in 0..<40 {
        switch random.below(5) {
        case 0:
          try session.openSavepoint()
          states.append(states[states.count - 1])
        case 1 where states.count > 1:
          try session.releaseSavepoint()
          states[states.count - 2] = states.removeLast()
        case 2 where states.count > 1:
          try session.rollbackToSavepoint()
          states[states.count - 1] = states[states.count - 2]
        case 3 where states.count > 1:
          try session.insert(0, "")
          #expect(kind { try session.finish() } == .constraintViolation)
          try session.rollbackToSavepoint()
          states[states.count - 1] = states[states.count - 2]
        default:
          let identifier = Int64(random.below(8))
          if states[states.count - 1][identifier] == nil {
            try session.insert(identifier, "\(step)")
          } else {
            try session.queue(.update, [.integer(identifier), .text("\(step)")])
          }
          states[states.count - 1][identifier] = "\(step)"
        }
      }
      if random.below(4) == 0 {
        session.rollback()
      } else {
        try session.commit()
        stored = states[states.count - 1]
      }
      #expect(try world.items() == stored)
    }
  }

  @Test func `a scan gives every row once in order, whatever the batch`() throws {
    let session = try World().session()
    let numbers = Command("numbers", "SELECT n * $1 FROM generate_series(1, 1000) AS n ORDER BY n")
    for batchCount in [1, 7, 500, 999, 1000, 1001] {
      try session.transaction(.snapshot) {
        var seen: [Int64] = []
        try session.scan(numbers, [.integer(3)], batchCount: batchCount) { seen.append(try $0.integer(0)) }
        #expect(seen == (1...1000).map { $0 * 3 })
      }
    }
  }

  @Test func `a scan that is left early can begin again`() throws {
    struct Stop: Error {}
    let session = try World().session()
    let numbers = Command("numbers", "SELECT n FROM generate_series(1, 1000) AS n")
    try session.transaction(.snapshot) {
      #expect(throws: Stop.self) {
        try session.scan(numbers, batchCount: 10) { if try $0.integer(0) == 15 { throw Stop() } }
      }
      var count = 0
      try session.scan(numbers, batchCount: 100) { _ in count += 1 }
      #expect(count == 1000)
    }
  }
}

/// A small generator with a seed.
struct SplitMix {
  var state: UInt64

  mutating func below(_ limit: UInt64) -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return (value ^ (value >> 31)) % limit
  }
}
