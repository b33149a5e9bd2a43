import RecordStore
import Records
import Testing

struct HistoryConformanceTests {
  static func makeMirror(in shard: any ShardStore, _ identifier: String = "phone", database: Int64) async throws
    -> StoredMirror
  {
    try await shard.write {
      try $0.makeMirror(
        identifier, in: database, userRecordName: "ada", scope: .private, modelHash: "hash", configuration: nil,
        deviceName: "Ada's phone", createdAt: 5)
    }
  }

  static func transaction(_ number: Int64, id: String? = nil, payload: [UInt8] = [1, 2, 3]) -> StoredTransaction {
    StoredTransaction(
      number: number, transactionID: id ?? Sample.uuid(Int(number)), author: number % 2 == 0 ? nil : "app",
      appendedAt: 1000 + number, payload: payload)
  }

  @Test(arguments: StoreKind.allCases)
  func `a mirror is made once, found by identifier and key, and stores what varies`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      var mirror = try await Self.makeMirror(in: shard, database: place.database)
      #expect(
        mirror.lastTransactionNumber == 0 && mirror.exportedTransactionNumber == 0
          && mirror.purgedTransactionNumber == 0)
      #expect(try await shard.read { try $0.mirror("phone", in: place.database) } == mirror)
      #expect(try await shard.read { try $0.mirror("phone", in: 99) } == nil)
      await #expect(throws: ContradictingWrite.self) {
        _ = try await Self.makeMirror(in: shard, database: place.database)
      }
      await #expect(throws: ContradictingWrite.self) { _ = try await Self.makeMirror(in: shard, "other", database: 99) }
      mirror.userRecordName = "bob"
      mirror.scope = .shared
      mirror.modelHash = "hash 2"
      mirror.configuration = "Cloud"
      mirror.deviceName = nil
      mirror.createdAt = 6
      mirror.lastTransactionNumber = 9
      mirror.exportedTransactionNumber = 4
      mirror.purgedTransactionNumber = 2
      try await shard.write { [mirror] in
        try $0.update(mirror)
        #expect(try $0.mirror(key: mirror.key) == mirror)
      }
      let key = mirror.key
      #expect(try await shard.read { try $0.mirror(key: key) } == mirror)
      #expect(try await shard.read { try $0.counts().mirrors } == 1)
    }
  }

  @Test(arguments: StoreKind.allCases) func `mirrors are listed by key, and those that wait for an export on their own`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      var keys: [Int64] = []
      for identifier in ["a", "b", "c"] {
        keys.append(try await Self.makeMirror(in: shard, identifier, database: place.database).key)
      }
      try await shard.write { [keys] in
        try $0.append(Self.transaction(1), to: keys[0])
        try $0.append(Self.transaction(1), to: keys[2])
        #expect(try $0.mirrorsAwaitingExport(afterKey: 0, limit: 9) == [keys[0], keys[2]])
      }
      try await shard.read { [keys] (snapshot) throws in
        #expect(try snapshot.mirrors(afterKey: 0, limit: 2).map(\.identifier) == ["a", "b"])
        #expect(try snapshot.mirrors(afterKey: keys[1], limit: 2).map(\.identifier) == ["c"])
        #expect(try snapshot.mirrorsAwaitingExport(afterKey: 0, limit: 1) == [keys[0]])
        #expect(try snapshot.mirrorsAwaitingExport(afterKey: keys[0], limit: 9) == [keys[2]])
      }
      try await shard.write { [keys] in
        var mirror = try #require(try $0.mirror(key: keys[0]))
        mirror.exportedTransactionNumber = 1
        try $0.update(mirror)
      }
      #expect(try await shard.read { try $0.mirrorsAwaitingExport(afterKey: 0, limit: 9) } == [keys[2]])
    }
  }

  @Test(arguments: StoreKind.allCases) func `history is appended in order, read in pages and found by id`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await Self.makeMirror(in: shard, database: place.database).key
      let other = try await Self.makeMirror(in: shard, "tablet", database: place.database).key
      try await shard.write {
        for number: Int64 in 1...5 { try $0.append(Self.transaction(number), to: mirror) }
        // The same ids in another store are different transactions.
        try $0.append(Self.transaction(1), to: other)
        #expect(try $0.mirror(key: mirror)?.lastTransactionNumber == 5)
      }
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.mirror(key: mirror)?.lastTransactionNumber == 5)
        #expect(
          try snapshot.transactions(of: mirror, after: 0, limit: 2) == [Self.transaction(1), Self.transaction(2)])
        #expect(try snapshot.transactions(of: mirror, after: 4, limit: 9) == [Self.transaction(5)])
        #expect(try snapshot.transactions(of: mirror, after: 5, limit: 9) == [])
        #expect(try snapshot.transactions(of: mirror, after: -7, limit: 9).count == 5)
        #expect(try snapshot.transactions(of: mirror, after: 0, limit: 0) == [])
        #expect(try snapshot.transactions(of: 99, after: 0, limit: 9) == [])
        #expect(try snapshot.transaction(withID: Sample.uuid(3), of: mirror) == Self.transaction(3))
        #expect(try snapshot.transaction(withID: Sample.uuid(3), of: other) == nil)
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a transaction out of order or with a used id is refused`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await Self.makeMirror(in: shard, database: place.database).key
      try await shard.write { try $0.append(Self.transaction(1), to: mirror) }
      for wrong in [
        Self.transaction(1, id: "new"), Self.transaction(3), Self.transaction(0),
        Self.transaction(2, id: Sample.uuid(1)),
      ] {
        await #expect(throws: ContradictingWrite.self) { try await shard.write { try $0.append(wrong, to: mirror) } }
      }
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.append(Self.transaction(1), to: 99) }
      }
      #expect(try await shard.read { try $0.mirror(key: mirror)?.lastTransactionNumber } == 1)
      try await shard.write { try $0.append(Self.transaction(2), to: mirror) }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `purging deletes transactions up to a number, remembers it, and touches no neighbour`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await Self.makeMirror(in: shard, database: place.database).key
      let other = try await Self.makeMirror(in: shard, "tablet", database: place.database).key
      try await shard.write {
        for number: Int64 in 1...5 {
          try $0.append(Self.transaction(number), to: mirror)
          try $0.append(Self.transaction(number), to: other)
        }
      }
      #expect(try await shard.write { try $0.purgeTransactions(of: mirror, through: 3) } == 3)
      #expect(try await shard.write { try $0.purgeTransactions(of: mirror, through: 2) } == 0)
      #expect(try await shard.read { try $0.mirror(key: mirror)?.purgedTransactionNumber } == 3)
      #expect(try await shard.read { try $0.transactions(of: mirror, after: 0, limit: 9).map(\.number) } == [4, 5])
      #expect(try await shard.write { try $0.purgeTransactions(of: mirror, through: .max) } == 2)
      #expect(try await shard.read { try $0.mirror(key: mirror)?.purgedTransactionNumber } == 5)
      #expect(try await shard.read { try $0.transactions(of: other, after: 0, limit: 9).count } == 5)
      try await shard.write { try $0.append(Self.transaction(6), to: mirror) }
      await #expect(throws: ContradictingWrite.self) {
        _ = try await shard.write { try $0.purgeTransactions(of: 99, through: 1) }
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `consumers are their store's, replaced by name, and go with it`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await Self.makeMirror(in: shard, database: place.database).key
      let other = try await Self.makeMirror(in: shard, "tablet", database: place.database).key
      try await shard.write {
        for (name, number) in [("widget", 3), ("Zebra", 1), ("é", 2), ("widget", 4)] as [(String, Int64)] {
          try $0.put(StoredConsumer(name: name, transactionNumber: number, seenAt: number * 10), of: mirror)
        }
        try $0.put(StoredConsumer(name: "widget", transactionNumber: 9, seenAt: 9), of: other)
        #expect(try $0.consumers(of: mirror).map(\.name) == ["Zebra", "widget", "é"])
      }
      #expect(
        try await shard.read { try $0.consumers(of: mirror) }[1]
          == StoredConsumer(name: "widget", transactionNumber: 4, seenAt: 40))
      try await shard.write {
        try $0.deleteConsumer(named: "widget", of: mirror)
        try $0.deleteConsumer(named: "nobody", of: mirror)
      }
      #expect(try await shard.read { try $0.consumers(of: mirror).map(\.name) } == ["Zebra", "é"])
      await #expect(throws: ContradictingWrite.self) {
        try await shard.write { try $0.put(StoredConsumer(name: "a", transactionNumber: 0, seenAt: 0), of: 99) }
      }
      try await shard.write { try $0.deleteMirror(mirror) }
      #expect(try await shard.read { try $0.consumers(of: mirror) } == [])
      #expect(try await shard.read { try $0.consumers(of: other).map(\.transactionNumber) } == [9])
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a moment has its place in a store's history, also where the clock went back`(_ kind: StoreKind) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await Self.makeMirror(in: shard, database: place.database).key
      let times: [Int64] = [10, 30, 20, 30, 40]
      try await shard.write {
        for (index, time) in times.enumerated() {
          let number = Int64(index) + 1
          try $0.append(
            StoredTransaction(
              number: number, transactionID: "\(number)", author: nil, appendedAt: time,
              payload: Array(repeating: 7, count: 9000)), to: mirror)
        }
      }
      for (time, number) in [(0, 1), (10, 1), (11, 2), (30, 2), (31, 5), (40, 5), (41, nil)] as [(Int64, Int64?)] {
        #expect(
          try await shard.read { try $0.firstTransaction(of: mirror, appendedAtOrAfter: time) } == number, "\(time)")
      }
      #expect(try await shard.write { try $0.purgeTransactions(of: mirror, through: 2) } == 2)
      #expect(try await shard.read { try $0.firstTransaction(of: mirror, appendedAtOrAfter: 0) } == 3)
      #expect(try await shard.read { try $0.firstTransaction(of: 99, appendedAtOrAfter: 0) } == nil)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `events are numbered across their database, filtered by kind, and numbered anew when they end`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await Self.makeMirror(in: shard, database: place.database).key
      let other = try await Self.makeMirror(in: shard, "tablet", database: place.database).key
      let numbers = try await shard.write { transaction in
        try [
          transaction.put(
            StoredEvent(identifier: "1", kind: .setup, startedAt: 1, endedAt: 2, succeeded: true), of: mirror),
          transaction.put(StoredEvent(identifier: "2", kind: .export, startedAt: 3), of: mirror),
          transaction.put(StoredEvent(identifier: "3", kind: .export, startedAt: 4), of: other),
          transaction.put(StoredEvent(identifier: "4", kind: .import, startedAt: 5), of: mirror),
        ]
      }
      #expect(numbers == [1, 2, 3, 4])
      var ended = StoredEvent(
        number: 2, identifier: "2", kind: .export, startedAt: 3, endedAt: 9, succeeded: false,
        errorJSON: Array("{}".utf8), savedCount: 3, deletedCount: 4)
      let end = ended
      #expect(try await shard.write { try $0.put(end, of: mirror) } == 5)
      ended.number = 5
      let known = ended
      try await shard.read { (snapshot) throws in
        #expect(try snapshot.events(of: mirror, after: 0, kind: nil, limit: 9).map(\.identifier) == ["1", "4", "2"])
        #expect(try snapshot.events(of: mirror, after: 0, kind: nil, limit: 2).map(\.identifier) == ["1", "4"])
        #expect(try snapshot.events(of: mirror, after: 1, kind: .export, limit: 9) == [known])
        #expect(try snapshot.events(of: other, after: 0, kind: .export, limit: 9).map(\.number) == [3])
        #expect(
          try snapshot.events(of: mirror, after: 4, kind: nil, limit: 9) == [known],
          "who has read the start reads the end")
        #expect(try snapshot.events(of: mirror, after: 5, kind: nil, limit: 9) == [])
        #expect(try snapshot.latestEvent(of: mirror, kind: .export) == known)
        #expect(try snapshot.latestEvent(of: other, kind: .export)?.identifier == "3")
        #expect(try snapshot.latestEvent(of: other, kind: .setup) == nil)
      }
      // Another store's event, an unknown event, an unknown store.
      await #expect(throws: ContradictingWrite.self) { _ = try await shard.write { try $0.put(known, of: other) } }
      await #expect(throws: ContradictingWrite.self) { _ = try await shard.write { try $0.put(end, of: mirror) } }
      await #expect(throws: ContradictingWrite.self) {
        _ = try await shard.write {
          try $0.put(StoredEvent(number: 9, identifier: "", kind: .setup, startedAt: 0), of: mirror)
        }
      }
      await #expect(throws: ContradictingWrite.self) {
        _ = try await shard.write { try $0.put(StoredEvent(identifier: "", kind: .setup, startedAt: 0), of: 99) }
      }
      #expect(
        try await shard.write { try $0.put(StoredEvent(identifier: "5", kind: .setup, startedAt: 0), of: mirror) } == 6)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `events that an earlier owner left open are found, and the present owner's are not among them`(_ kind: StoreKind)
    async throws
  {
    let world = try World(kind)
    let first = try await world.store.open(shard: 0)
    let place = try await Place(in: first)
    let mirror = try await Self.makeMirror(in: first, database: place.database).key
    func put(_ identifier: String, endedAt: Int64?, in shard: any ShardStore) async throws -> Int64 {
      try await shard.write {
        try $0.put(StoredEvent(identifier: identifier, kind: .export, startedAt: 1, endedAt: endedAt), of: mirror)
      }
    }
    for (identifier, endedAt) in [("ended", 2), ("open", nil), ("also open", nil)] as [(String, Int64?)] {
      _ = try await put(identifier, endedAt: endedAt, in: first)
    }
    #expect(try await first.write { try $0.abandonedEvents(limit: 9).count } == 0)
    await first.close()

    let second = try await world.store.open(shard: 0)
    _ = try await put("own", endedAt: nil, in: second)
    let found = try await second.write {
      try $0.abandonedEvents(limit: 9).map { [$0.event.identifier, String($0.mirror)] }
    }
    #expect(found == [["open", String(mirror)], ["also open", String(mirror)]])
    #expect(try await second.write { try $0.abandonedEvents(limit: 1).count } == 1)
    try await second.write { transaction in
      for (mirror, event) in try transaction.abandonedEvents(limit: 9) {
        var ended = event
        ended.endedAt = 9
        _ = try transaction.put(ended, of: mirror)
      }
    }
    #expect(try await second.write { try $0.abandonedEvents(limit: 9).count } == 0)
    await second.close()
  }

  @Test(arguments: StoreKind.allCases) func `outcomes of one millisecond are all kept, also by successive owners`(
    _ kind: StoreKind
  ) async throws {
    let world = try World(kind)
    for owner in 0..<3 {
      let shard = try await world.store.open(shard: 0)
      try await shard.write { transaction in
        for number in 0..<5 { try transaction.putOutcome([UInt8(number)], of: "\(owner) \(number)", at: 7) }
      }
      await shard.close()
    }
    let shard = try await world.store.open(shard: 0)
    for owner in 0..<3 {
      for number in 0..<5 {
        #expect(try await shard.read { try $0.outcome(of: "\(owner) \(number)") } == [UInt8(number)])
      }
    }
    #expect(try await shard.write { try $0.forgetOutcomes(before: 7, limit: 99) } == 0)
    #expect(try await shard.write { try $0.forgetOutcomes(before: 8, limit: 99) } == 15)
    await shard.close()
  }

  @Test(arguments: StoreKind.allCases) func `old events go, but for the newest of each kind`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let mirror = try await Self.makeMirror(in: shard, database: place.database).key
      let other = try await Self.makeMirror(in: shard, "tablet", database: place.database).key
      try await shard.write { transaction in
        _ = try transaction.put(StoredEvent(identifier: "other", kind: .export, startedAt: 0), of: other)
        for number in 2...3 {
          _ = try transaction.put(StoredEvent(identifier: "\(number)", kind: .setup, startedAt: 0), of: mirror)
        }
        for number in 4...3000 {
          _ = try transaction.put(StoredEvent(identifier: "\(number)", kind: .export, startedAt: 0), of: mirror)
        }
      }
      let events = try await shard.read { try $0.events(of: mirror, after: 0, kind: nil, limit: 5000) }
      #expect(events.first?.number == 3)
      #expect((StoredEvent.keptCount...StoredEvent.keptCount + 64).contains(events.count - 1))
      #expect(events.dropFirst().map(\.number) == Array(3000 - Int64(events.count) + 2...3000))
      #expect(try await shard.read { try $0.latestEvent(of: mirror, kind: .setup)?.identifier } == "3")
      #expect(try await shard.read { try $0.events(of: other, after: 0, kind: nil, limit: 9).count } == 1)
    }
  }
}
