// A client that lost its token asks for a shared store's first page again, and keeps nothing that was removed since.

import JSON
import RecordStore
import Records
import Sharing
import Testing

@Suite struct `First pages of shared stores that are asked for again` {
  private func zones(_ changes: [JSONValue]) -> [String] {
    changes.filter { $0["changeType"]?.string == "zone" }.map {
      "\($0["zoneID"]?["zoneName"]?.string ?? "") \($0["reason"]?.string ?? "")"
    }
  }

  @Test func `an object that was deleted meanwhile is announced again, as to an owner`() async throws {
    try await SharedWorld.withTrip { world in
      try await world.put("Q", "Photo", ["displayName": "q"], in: "Trip", of: "_alice")
      var phone = Phone(world)
      try await phone.pull()
      #expect(Set(phone.graph.objects.keys) == ["P", "Q"])
      phone.token = nil
      try await world.bury("Q", in: "Trip", of: "_alice")
      try await phone.pull()
      #expect(Set(phone.graph.objects.keys) == ["P"])
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: [true, false], [1, 200])
  func `a zone that went meanwhile is told, also when its owner shares nothing more`(
    sharesAnother: Bool, limit: Int
  ) async throws {
    try await SharedWorld.withTrip { world in
      try await world.makeZone("Far", of: "_carol", photo: "C")
      try await world.share("Far", of: "_carol", .readWrite)
      if sharesAnother {
        try await world.makeZone("Other", of: "_alice", photo: "O")
        try await world.share("Other", of: "_alice", .readWrite)
      }
      var phone = Phone(world)
      try await phone.pull()
      phone.token = nil
      try await world.share("Trip", of: "_alice", nil)
      #expect(zones(try await phone.pull(limit: limit)) == ["Trip left"])
      #expect(try await phone.pull().isEmpty)
      #expect(try await phone.pull().isEmpty)
      #expect(try await world.mirrorCount(of: "_alice") == (sharesAnother ? 1 : 0))
    }
  }

  @Test func `a zone that came and went is told to a client that kept a page of it and lost the token`() async throws {
    try await SharedWorld.withTrip { world in
      try await world.makeZone("Other", of: "_alice", photo: "O")
      var phone = Phone(world)
      try await phone.pull()
      let token = phone.token
      try await world.share("Other", of: "_alice", .readWrite)
      try await phone.pull()
      #expect(Set(phone.graph.objects.keys) == ["P", "O"])
      phone.token = token
      try await world.share("Other", of: "_alice", nil)
      #expect(zones(try await phone.pull()) == ["Other left"])
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test func `the end of an owner's only zone is told to a client that lost the token of its first page of them`()
    async throws
  {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      let token = phone.token
      try await world.makeZone("Far", of: "_carol", photo: "C")
      try await world.share("Far", of: "_carol", .readWrite)
      try await phone.pull()
      #expect(Set(phone.graph.objects.keys) == ["P", "C"])
      phone.token = token
      try await world.share("Far", of: "_carol", nil)
      #expect(zones(try await phone.pull()) == ["Far left"])
      #expect(try await phone.pull().isEmpty)
      #expect(try await phone.pull().isEmpty)
      #expect(try await world.mirrorCount(of: "_carol") == 0)
      // They may share again, and the token of that may be lost, too.
      let finished = phone.token
      try await world.share("Far", of: "_carol", .readWrite)
      try await phone.pull()
      #expect(Set(phone.graph.objects.keys) == ["P", "C"])
      phone.token = finished
      try await world.share("Far", of: "_carol", nil)
      #expect(zones(try await phone.pull()) == ["Far left"])
    }
  }

  @Test(arguments: [1, 200])
  func `a participant who was removed, came back and begins anew is told everything, their own edits, too`(limit: Int)
    async throws
  {
    try await SharedWorld.withTrip { world in
      var phone = Phone(world)
      try await phone.pull()
      #expect(try await world.save(SharedChange.rating("R", of: "P")).status == 200)
      try await world.share("Trip", of: "_alice", nil)
      try await world.share("Trip", of: "_alice", .readWrite)
      phone.token = nil
      let told = Set(try await phone.pull(limit: limit).compactMap { $0["objectID"]?.string })
      #expect(told.isSuperset(of: ["P", "R"]))
    }
  }
}
