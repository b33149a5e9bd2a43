// Owners who refuse, are away, or are too many: calls for the others go on, and no acknowledged save is lost.

import Crypto
import FixedClocks
import JSON
import Records
@testable import SharedStores
import Sharing
import Testing

@Suite struct `Owners of shared stores who do not answer as they should` {
  /// The error of an owner's worker that has not heard of a model yet.
  private static let unknownModel = RecordError(
    .conflict, "The environment no longer knows the model of store S: push it, then set the store up again")

  /// A token as any client can forge one.
  private static func token(ownerCount: Int) -> String {
    var bytes: [UInt8] = [0x53, 1, UInt8(ownerCount)]
    for number in 0..<ownerCount { bytes += [0, 0, 0, 0, 0, 0, 1, UInt8(number), 0] }
    return Base64.encode(bytes + SHA256.hash(bytes).prefix(8))
  }

  @Test
  func `a token of more owners than a store has is refused, and positions of strangers make room for those who share`()
    async throws
  {
    try await SharedWorld.withTrip { world in
      #expect(try await world.send("GET", "changes", ["after": Self.token(ownerCount: 255)]).status == 400)
      #expect(
        try await world.send("GET", "changes", ["after": Self.token(ownerCount: SharedImportToken.ownerLimit + 2)])
          .status == 400)
      let page = try await world.send("GET", "changes", ["after": Self.token(ownerCount: SharedImportToken.ownerLimit)])
      #expect(page.status == 200 && page.json["changes"]?.count == 1, "\(page.text)")
      let text = try #require(page.json["importToken"]?.string)
      let token = try SharedImportToken(text)
      #expect(token.positions.count == SharedImportToken.ownerLimit && token["_alice"] != nil)
      #expect(try await world.send("GET", "changes", ["after": text]).json["changes"]?.count == 0)
    }
  }

  @Test func `an owner's worker that does not know the model yet takes what was saved when it does`() async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail("forward", .refused(Self.unknownModel), count: 1)
      #expect(try await world.save(SharedChange.rename("P", "Mine"), waits: false).status == 200)
      #expect(try await world.send("GET", "changes", ["after": phone.token ?? ""]).status == 503)
      #expect(try await world.records("Trip", of: "_alice") == ["P": "of Trip"])
      world.clock.advance(by: 400_000)
      try await phone.pull()
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Mine"])
      #expect(try await world.conflicts().isEmpty)
    }
  }

  @Test func `where an owner's worker can't say where objects are, nothing is taken for gone`() async throws {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      world.owners.fail(
        "locate", .refused(RecordError(.quotaExceeded, "the answer is larger than a message")), count: 1)
      let refused = try await world.save(SharedChange.rename("P", "Mine"), waits: false)
      #expect(refused.status == 503, "\(refused.text)")
      #expect(try await world.save(SharedChange.rename("P", "Mine"), waits: false).status == 200)
      world.owners.fail(
        "locate", .refused(RecordError(.quotaExceeded, "the answer is larger than a message")), count: 1)
      #expect(try await world.send("GET", "changes", ["after": phone.token ?? ""]).status == 503)
      world.clock.advance(by: 400_000)
      try await phone.pull()
      #expect(try await world.records("Trip", of: "_alice") == ["P": "Mine"])
      #expect(try await world.conflicts().isEmpty)
    }
  }

  @Test func `an owner's worker that does not know the model yet keeps the place of the store's imports`() async throws
  {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      try await world.makeZone("Trip", of: "_carol", photo: "C")
      try await world.share("Trip", of: "_carol", .readWrite)
      world.owners.fail("changes", of: "_alice", .refused(Self.unknownModel), count: 1)
      let page = try await world.send("GET", "changes", ["after": phone.token ?? ""])
      #expect(page.json["caughtUp"]?.bool == false, "\(page.text)")
      phone.token = page.json["importToken"]?.string
      try await world.share("Trip", of: "_alice", nil)
      #expect(
        try await phone.pull().map { $0["changeType"]?.string } == ["zone"],
        "the end of a zone is told to whoever had it")
    }
  }
}
