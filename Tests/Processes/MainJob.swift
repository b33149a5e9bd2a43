// The main job for one model: the saves of one device, and the expected state of another device and of the records.

import Foundation

/// A graph, the transactions that make it, and the expected records, written by hand and independent of the product.
struct MainJob: Sendable {
  enum FieldKind: String, Sendable {
    case string = "STRING"
    case integer = "INT64"
    case flag = "INT64 "
    case number = "DOUBLE"
    case date = "TIMESTAMP"
    case bytes = "BYTES"
    /// A decimal number as text; the field has its DOUBLE value.
    case decimal = "DOUBLE "
    /// Bytes that only the product can make: the objects are compared, but only the type of the field.
    case opaque = "BYTES "
    var wireType: String { rawValue.trimmingCharacters(in: .whitespaces) }
  }

  /// A many-to-many relationship as link records spell it (R13).
  struct Link: Sendable {
    let entityNames: String
    let relationships: String
  }

  /// The bundle's name in the folder of shared models, or its path in this repository.
  let model: String
  /// One transaction each.
  let saves: [[Value]]
  let graph: Graph
  /// By `Entity.attribute`.
  let kinds: [String: FieldKind]
  /// nil: `links` has all of them.
  var link: Link?
  /// Attributes too large for a record, which must be assets.
  var assets: Set<String> = []
  /// Entities that share the record type of another one, by name.
  var roots: [String: String] = [:]
  /// By `Entity.attribute`.
  var encrypted: Set<String> = []
  var exact: Set<String> = []
  /// The expected link records by their three fields.
  var links: Set<[String]> = []

  /// All expected link records.
  var linkRecords: Set<[String]> {
    guard let link else { return links }
    let left = link.entityNames.split(separator: ":").first.map(String.init)
    return Set(
      graph.pairs.map { pair in
        let ends = graph.objects[pair.ends[0]]?.entity == left ? pair.ends : pair.ends.reversed()
        return [link.entityNames, link.relationships, ends.joined(separator: ":")]
      })
  }

  static func insert(
    _ entity: String, _ id: String, _ attributes: [String: Value] = [:], _ relationships: [String: Value] = [:]
  ) -> Value {
    [
      "changeType": "insert", "entity": .string(entity), "objectID": .string(id), "attributes": .object(attributes),
      "relationships": .object(relationships),
    ]
  }

  static func update(
    _ entity: String, _ id: String, _ attributes: [String: Value] = [:], _ relationships: [String: Value] = [:]
  ) -> Value {
    [
      "changeType": "update", "entity": .string(entity), "objectID": .string(id), "attributes": .object(attributes),
      "relationships": .object(relationships),
    ]
  }

  static func delete(_ entity: String, _ id: String) -> Value {
    ["changeType": "delete", "entity": .string(entity), "objectID": .string(id)]
  }

  /// Bytes in base64 that compress badly and depend on `seed`.
  static func blob(_ count: Int, seed: UInt64) -> Value {
    var state = seed &* 0x9e37_79b9_7f4a_7c15 | 1
    var bytes = [UInt8]()
    bytes.reserveCapacity(count)
    for _ in 0..<count {
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      bytes.append(UInt8(truncatingIfNeeded: state))
    }
    return .string(Data(bytes).base64EncodedString())
  }

  /// A number as these tests read it from JSON.
  private static func number(_ value: Double) -> Value { Int64(exactly: value).map(Value.integer) ?? .number(value) }

  /// The expected field of a record for an attribute's value.
  func field(_ value: Value, of attribute: String) throws -> Value {
    guard let kind = kinds[attribute] else { throw Unexpected("no kind of \(attribute) is written down") }
    let stored: Value
    switch (kind, value) {
    case (.flag, .bool(let flag)): stored = flag ? 1 : 0
    case (.date, .string(let text)):
      let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
      stored = .integer(Int64((try style.parse(text).timeIntervalSince1970 * 1000).rounded()))
    case (.decimal, .string(let text)): stored = Self.number(Double(text) ?? 0)
    case (.opaque, _): return ["type": "BYTES"]
    default: stored = value
    }
    var field: [String: Value] = ["value": stored, "type": .string(kind.wireType)]
    if encrypted.contains(attribute) {
      // Bytes show it by their type.
      if kind == .bytes { field["type"] = "ENCRYPTED_BYTES" } else { field["isEncrypted"] = true }
    }
    return .object(field)
  }
}

// MARK: The three models

extension MainJob {
  /// Three photos with data, thumbnails, ratings and tags.
  static let share: MainJob = {
    var graph = Graph()
    let tags = ["A1000000-0000-4000-8000-000000000001", "A1000000-0000-4000-8000-000000000002"]
    var first: [Value] = []
    for (index, tag) in tags.enumerated() {
      let attributes: [String: Value] = [
        "name": ["desert", "sea"][index], "uuid": .string("0000000\(index)-1111-4222-8333-444444444444"),
      ]
      graph.objects[tag] = Graph.Object(entity: "Tag", attributes: attributes)
      first.append(insert("Tag", tag, attributes))
    }
    var saves = [first]
    for index in 1...3 {
      let name = { (kind: String) in "\(kind)000000-0000-4000-8000-00000000000\(index)" }
      let (photo, data, thumbnail) = (name("B0"), name("C0"), name("D0"))
      let ratings = (0..<index).map { "E\($0)000000-0000-4000-8000-00000000000\(index)" }
      let own = index == 2 ? tags : [tags[index % 2]]
      let attributes: [String: Value] = [
        "displayName": .string("Photo \(index) – \u{1F3DC}"), "uniqueName": .string("unique-\(index)"),
      ]
      let content = blob(index == 3 ? 800_000 : 5_000, seed: UInt64(index))
      let small = blob(900, seed: UInt64(index) + 100)
      graph.objects[photo] = Graph.Object(
        entity: "Photo", attributes: attributes, toOnes: ["photoData": data, "thumbnail": thumbnail])
      graph.objects[data] = Graph.Object(entity: "PhotoData", attributes: ["data": content], toOnes: ["photo": photo])
      graph.objects[thumbnail] = Graph.Object(
        entity: "Thumbnail", attributes: ["data": small], toOnes: ["photo": photo])
      var changes = [
        insert("PhotoData", data, ["data": content]),
        insert("Thumbnail", thumbnail, ["data": small], ["photo": .string(photo)]),
      ]
      for (number, rating) in ratings.enumerated() {
        graph.objects[rating] = Graph.Object(
          entity: "Rating", attributes: ["value": .integer(Int64(number) - 1)], toOnes: ["photo": photo])
        changes.append(insert("Rating", rating, ["value": .integer(Int64(number) - 1)]))
      }
      // One side of each relationship is set; the server maintains the other.
      changes.append(
        insert(
          "Photo", photo, attributes,
          [
            "photoData": .string(data), "ratings": .array(ratings.map(Value.string)),
            "tags": .array(own.map(Value.string)),
          ]))
      for tag in own { graph.pairs.insert(Graph.Pair(photo, tag)) }
      saves.append(changes)
    }
    return MainJob(
      model: "CoreDataCloudKitShare.xcdatamodeld", saves: saves, graph: graph,
      kinds: [
        "Tag.name": .string, "Tag.uuid": .string, "Photo.displayName": .string, "Photo.uniqueName": .string,
        "PhotoData.data": .bytes, "Thumbnail.data": .bytes,
        "Rating.value": .integer,
      ], link: Link(entityNames: "Photo:Tag", relationships: "tags:photos"),
      assets: ["C0000000-0000-4000-8000-000000000003.data"])
  }()

  static let demo: MainJob = {
    var graph = Graph()
    let (post, attachment, image) = (
      "B0000000-0000-4000-8000-00000000000A", "C0000000-0000-4000-8000-00000000000A",
      "D0000000-0000-4000-8000-00000000000A"
    )
    let tags = ["A1000000-0000-4000-8000-00000000000A", "A1000000-0000-4000-8000-00000000000B"]
    var first: [Value] = []
    for (index, tag) in tags.enumerated() {
      let attributes: [String: Value] = [
        "name": .string("tag \(index)"), "uuid": .string("0000000\(index)-1111-4222-8333-444444444444"),
        "color": blob(64, seed: UInt64(index)),
      ]
      graph.objects[tag] = Graph.Object(entity: "Tag", attributes: attributes)
      first.append(insert("Tag", tag, attributes))
    }
    let attributes: [String: Value] = ["title": "Title \"quoted\"", "content": "Line 1\nLine 2"]
    graph.objects[post] = Graph.Object(entity: "Post", attributes: attributes)
    graph.objects[attachment] = Graph.Object(
      entity: "Attachment", attributes: ["uuid": "AAAAAAAA-1111-4222-8333-444444444444"],
      toOnes: ["post": post, "imageData": image])
    graph.objects[image] = Graph.Object(
      entity: "ImageData", attributes: ["data": blob(3_000, seed: 9)], toOnes: ["attachment": attachment])
    let second = [
      insert("Post", post, attributes, ["tags": .array(tags.map(Value.string)), "attachments": [.string(attachment)]]),
      insert("Attachment", attachment, ["uuid": "AAAAAAAA-1111-4222-8333-444444444444"], ["imageData": .string(image)]),
      insert("ImageData", image, ["data": blob(3_000, seed: 9)]),
    ]
    for tag in tags { graph.pairs.insert(Graph.Pair(post, tag)) }
    return MainJob(
      model: "CoreDataCloudKitDemo.xcdatamodeld", saves: [first, second], graph: graph,
      kinds: [
        "Tag.name": .string, "Tag.uuid": .string, "Tag.color": .bytes, "Post.title": .string, "Post.content": .string,
        "Attachment.uuid": .string,
        "ImageData.data": .bytes,
      ], link: Link(entityNames: "Post:Tag", relationships: "tags:posts"))
  }()

  static let tickmate: MainJob = {
    var graph = Graph()
    let track = { (index: Int) in "B0000000-0000-4000-8000-0000000000\(index)0" }
    let group = "A0000000-0000-4000-8000-000000000000"
    let groupAttributes: [String: Value] = ["index": 3, "name": "Health"]
    graph.objects[group] = Graph.Object(entity: "TrackGroup", attributes: groupAttributes)
    var changes: [Value] = []
    for index in 1...2 {
      let attributes: [String: Value] = [
        "color": .integer(Int64(Int32.max)), "enabled": .bool(index == 1), "index": .integer(Int64(index)),
        "isArchived": false, "multiple": true,
        "name": .string("Track \(index)"), "notificationMinute": -1, "reversed": false, "startDate": "2026-01-31",
        "systemImage": "figure.run",
      ]
      graph.objects[track(index)] = Graph.Object(entity: "Track", attributes: attributes)
      graph.pairs.insert(Graph.Pair(track(index), group))
      changes.append(insert("Track", track(index), attributes))
      for number in 0..<3 {
        let tick = "C\(number)000000-0000-4000-8000-0000000000\(index)0"
        let attributes: [String: Value] = [
          "count": .integer(Int64(Int16.max)), "dayOffset": .integer(Int64(-number)), "duplicate": .bool(number == 0),
          "modified": .string("2026-11-\(10 + number)T23:59:59.\(number)07Z"),
        ]
        graph.objects[tick] = Graph.Object(entity: "Tick", attributes: attributes, toOnes: ["track": track(index)])
        changes.append(insert("Tick", tick, attributes, ["track": .string(track(index))]))
      }
    }
    changes.append(insert("TrackGroup", group, groupAttributes, ["tracks": .array([1, 2].map { .string(track($0)) })]))
    return MainJob(
      model: "Tickmate.xcdatamodeld", saves: [changes], graph: graph,
      kinds: [
        "Track.color": .integer, "Track.enabled": .flag, "Track.index": .integer, "Track.isArchived": .flag,
        "Track.multiple": .flag, "Track.name": .string,
        "Track.notificationMinute": .integer, "Track.reversed": .flag, "Track.startDate": .string,
        "Track.systemImage": .string, "Tick.count": .integer,
        "Tick.dayOffset": .integer, "Tick.duplicate": .flag, "Tick.modified": .date, "TrackGroup.index": .integer,
        "TrackGroup.name": .string,
      ], link: Link(entityNames: "Track:TrackGroup", relationships: "groups:tracks"))
  }()
}
