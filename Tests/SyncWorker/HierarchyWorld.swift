// Shared hierarchies of Alice's zone, and the readers of its feed.

import JSON
import ServiceBus
import Testing

extension RecordPlaneWorld {
  /// Shares what hangs below a record of Alice's zone.
  /// - Returns: the share's dictionary.
  @discardableResult
  func shareHierarchy(_ root: String, with users: [String]) async throws -> JSONValue {
    let tag = try await lookUp([root]).records[0].tag ?? ""
    let share =
      #"""
      "recordName":"S-\#(root)","recordType":"cloudkit.share","forRecord":{"recordName":"\#(root)",\#
      "recordChangeTag":"\#(tag)"}
      """#
    let invited = #""participants":[\#(users.map { Self.participant($0) }.joined(separator: ","))]"#
    let made = try #require(try await modify([Self.operation("create", share + "," + invited)]).records.first)
    try #require(made.code == nil, "\(made.text)")
    for user in users { try #require(try await accept(made.shortGUID, by: "_\(user)").code == nil) }
    return made
  }

  /// Takes everybody out of a hierarchy but those who stay, and its owner.
  func keep(_ users: [String], in root: String) async throws {
    let share = try await currentShare("S-\(root)")
    let staying = share.participants.filter { one in
      users.contains { one["userIdentity"]?["userRecordName"]?.string == "_\($0)" }
    }
    let list = staying.compactMap { $0["participantId"]?.string }.map { #"{"participantId":"\#($0)"}"# }.joined(
      separator: ",")
    let changed = try await modify([
      Self.share("update", name: "S-\(root)", tag: share.tag, #""participants":[\#(list)]"#)
    ])
    try #require(changed.records.first?.code == nil, "\(changed.text)")
  }

  static func deletion(_ name: String) -> String { operation("forceDelete", #""recordName":"\#(name)""#) }
}

/// A participant's view of a zone by the rules alone: the descendants of a shared record, across tombstones, too.
struct HierarchyModel {
  /// Of every record that ever was, its parent.
  var parents: [String: String] = [:]
  var alive: Set<String> = []
  /// The participants of each record's hierarchy.
  var shares: [String: Set<String>] = [:]
  private var seen: [String: Set<String>] = [:]
  /// By user: how often each record became invisible.
  private(set) var departures: [String: [String: Int]] = [:]

  func visible(to user: String) -> Set<String> {
    let roots = Set(shares.filter { $0.value.contains(user) }.keys)
    let below = alive.filter { name in
      var (next, passed): (String?, Set<String>) = (name, [])
      while let current = next, passed.insert(current).inserted {
        if roots.contains(current) { return true }
        next = parents[current]
      }
      return false
    }
    return below.union(roots.map { "S-\($0)" })
  }

  /// To be called after every step.
  mutating func note(_ users: [String]) {
    for user in users {
      let now = visible(to: user)
      for name in seen[user, default: []].subtracting(now) { departures[user, default: [:]][name, default: 0] += 1 }
      seen[user] = now
    }
  }
}

/// A reader that follows the feed of Alice's zone and keeps its content.
struct FeedReader {
  let world: RecordPlaneWorld
  let user: String
  var token: String?
  /// The records that the reader holds.
  private(set) var held: Set<String> = []
  /// The number of deletions that the feed told, by record.
  private(set) var deletions: [String: Int] = [:]
  /// Of the last poll, deletions with a minus sign.
  private(set) var told: [String] = []
  /// The number of refused tokens.
  private(set) var restartCount = 0

  init(_ world: RecordPlaneWorld, _ user: String) {
    self.world = world
    self.user = user
  }

  /// Asks for all pages, or for a limited number.
  mutating func poll(limit: Int? = nil, pages: Int = .max, isReversed: Bool = false) async throws {
    told = []
    var count = 0
    while count < pages {
      count += 1
      var members = [RecordPlaneWorld.zoneID()]
      if let token { members.append(#""syncToken":"\#(token)""#) }
      if let limit { members.append(#""resultsLimit":\#(limit)"#) }
      if isReversed { members.append(#""reverse":true"#) }
      let reply = try await world.shared("changes/zone", #"{"zones":[{\#(members.joined(separator: ","))}]}"#, by: user)
      let zone = try #require(reply.zones.first)
      if let code = zone.code {
        // As one whose zone is gone, or whose token the server does not know any more.
        (held, token) = ([], nil)
        if code == "ZONE_NOT_FOUND" { return }
        try #require(
          code == "BAD_REQUEST" && zone["reason"]?.string == "Unknown sync continuation type", "\(zone.text)")
        restartCount += 1
        try #require(restartCount < 10_000)
        continue
      }
      told += zone.feedNames
      for name in zone.feedNames {
        if name.hasPrefix("-") {
          held.remove(String(name.dropFirst()))
          deletions[String(name.dropFirst()), default: 0] += 1
        } else {
          held.insert(name)
        }
      }
      token = try #require(zone["syncToken"]?.string)
      if zone["moreComing"]?.bool != true { return }
    }
  }
}
