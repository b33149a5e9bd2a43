// Small values: fields against a dictionary, change tags, names, shards, identifiers.

import Testing

import Records

struct FieldsTests {
  @Test func `fields behave like a dictionary that stays sorted`() {
    var generator = SplitMix(state: 21)
    for _ in 0..<200 {
      var fields = Fields()
      var oracle: [String: Field] = [:]
      for _ in 0..<40 {
        let name = "f\(generator.below(12))"
        let field = generator.flip() ? Field(.int64(generator.number()), isEncrypted: generator.flip()) : nil
        fields[name] = field
        oracle[name] = field
        #expect(fields.count == oracle.count && fields.isEmpty == oracle.isEmpty)
        #expect(fields.elements.map(\.name) == oracle.keys.sorted())
        for index in 0..<12 { #expect(fields["f\(index)"] == oracle["f\(index)"]) }
      }
      var rebuilt = Fields()
      for element in fields { rebuilt.append(element.name, element.field) }
      #expect(rebuilt == fields && rebuilt.hashValue == fields.hashValue)
    }
  }

  @Test func `the order of insertion does not matter`() {
    let forward: Fields = ["a": .int64(1), "b": .string("x"), "c": .bytes([1])]
    let backward: Fields = ["c": .bytes([1]), "b": .string("x"), "a": .int64(1)]
    #expect(forward == backward)
    #expect(forward.string("b") == "x" && forward.string("a") == nil && forward.string("z") == nil)
  }
}

struct FieldTypeTests {
  @Test func `lists and elements belong together, and stored numbers have not changed`() {
    #expect(FieldType.allCases.map(\.rawValue) == Array(1...8) + Array(17...24))
    for type in FieldType.allCases where type.element == nil { #expect(FieldType.list(of: type).element == type) }
    #expect(
      FieldType.allCases.map(\.wireName) == [
        "INT64", "DOUBLE", "STRING", "BYTES", "TIMESTAMP", "REFERENCE", "LOCATION", "ASSETID", "INT64_LIST",
        "DOUBLE_LIST", "STRING_LIST", "BYTES_LIST",
        "TIMESTAMP_LIST", "REFERENCE_LIST", "LOCATION_LIST", "ASSETID_LIST",
      ])
  }
}

struct RecordChangeTagTests {
  @Test(arguments: [(1, "1"), (35, "z"), (36, "10"), (52, "1g"), (Int64.max, "1y2p0ij32e8e7")] as [(Int64, String)])
  func `a tag is its sequence in base 36`(sequence: Int64, text: String) {
    #expect(RecordChangeTag(sequence: sequence).text == text)
    #expect(RecordChangeTag(text)?.sequence == sequence)
  }

  @Test(arguments: [
    "", "0", "-1", "+1", "01", "1G", " 1", "1 ", "1.0", "é", "1y2p0ij32e8e8", "zzzzzzzzzzzzz", "10000000000000", "1_0",
  ])
  func `a text this server never made is no tag`(text: String) {
    #expect(RecordChangeTag(text) == nil)
  }
}

struct RecordNameTests {
  @Test(arguments: [
    "a", "Reminder/UUID", " ", "~", String(repeating: "x", count: 255), "0B7C-…".replacing("…", with: ""),
  ])
  func `T-L01 a printable ASCII name of 1 to 255 characters is fine`(name: String) {
    #expect(RecordName.problem(name, kind: "recordName") == nil)
  }

  @Test(arguments: [
    ("", "recordName is empty"),
    (String(repeating: "x", count: 256), "recordName has 256 characters, the limit is 255"),
    ("_a", "recordName '_a' starts with '_', which is reserved"),
    ("é", "recordName has a character that is not printable ASCII"),
    ("a\n", "recordName has a character that is not printable ASCII"),
    ("a\u{7f}", "recordName has a character that is not printable ASCII"),
    ("\u{0}", "recordName has a character that is not printable ASCII"),
  ])
  func `T-L01 another name is refused with what is wrong`(name: String, problem: String) {
    #expect(RecordName.problem(name, kind: "recordName") == problem)
  }
}

struct ScopeTests {
  @Test(arguments: ["iCloud.org.example.photos", "a", "A-b_c.9", String(repeating: "x", count: 255)])
  func `a container's identifier is kept as it is`(text: String) {
    #expect(ContainerID(rawValue: text)?.rawValue == text)
  }

  @Test(arguments: ["", ".", ".a", "..", "a/b", "a b", "é", "a\u{0}", "a:b", String(repeating: "x", count: 256)])
  func `a name that could leave a path or a key is not a container`(text: String) {
    #expect(ContainerID(rawValue: text) == nil)
  }

  /// Shards of existing installations: a change here would make them lose their databases.
  @Test func `a database's shard never changes`() throws {
    let container = try #require(ContainerID(rawValue: "iCloud.org.example.photos"))
    let ids = ["_alice", "_bob", "_8f3c2d", DatabaseID.publicOwner].flatMap { owner in
      Environment.allCases.map { DatabaseID(container: container, environment: $0, owner: owner) }
    }
    func shards(_ count: Int) throws -> [Int] {
      let layout = try #require(ShardLayout(createdCount: count))
      return ids.map { layout.shard(of: $0) }
    }
    #expect(try shards(64) == [60, 41, 0, 7, 61, 20, 27, 30])
    #expect(try shards(8) == [4, 1, 0, 7, 5, 4, 3, 6])
    #expect(try shards(1).allSatisfy { $0 == 0 })
  }

  @Test func `databases spread evenly over the shards`() throws {
    let container = try #require(ContainerID(rawValue: "iCloud.org.example.photos"))
    let layout = try #require(ShardLayout(createdCount: 16))
    var counts = [Int](repeating: 0, count: 16)
    for number in 0..<16_000 {
      let database = DatabaseID(container: container, environment: .production, owner: "_user\(number)")
      counts[layout.shard(of: database)] += 1
    }
    #expect(counts.allSatisfy { (850...1150).contains($0) }, "\(counts)")
  }

  @Test func `parts of a database's identity don't run into each other`() throws {
    let ab = try #require(ContainerID(rawValue: "ab"))
    let a = try #require(ContainerID(rawValue: "a"))
    let shards = (0..<64).map { count in
      DatabaseID(container: ab, environment: .production, owner: "c\(count)").placeHash
        == DatabaseID(container: a, environment: .production, owner: "bc\(count)").placeHash
    }
    #expect(!shards.contains(true))
  }
}
