// Zones that end between a store's imports: its client learns of them, and of its last edits' traces in other zones.

import JSON
import Testing

@Suite struct `Zones that came and went` {
  private func zones(_ changes: [JSONValue]) -> [String] {
    changes.filter { $0["changeType"]?.string == "zone" }.map { $0["zoneID"]?["zoneName"]?.string ?? "" }
  }

  /// The zone "Trips" with a graph of its own.
  private func with(
    _ kind: StoreKind, policy: String = "delete", _ body: (ObjectPlaneWorld, Device) async throws -> Void
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("mac")
      try await world.saveGraph(by: "mac")
      let phone = try await Device("phone", world)
      try await world.setUp("phone", more: #","zonePolicy":{"deleted":"\#(policy)","purged":"\#(policy)"}"#)
      try await world.makeZone("Trips")
      try await body(world, phone)
    }
  }

  private func purge(_ zoneName: String, _ world: ObjectPlaneWorld) async throws {
    #expect(
      try await world.send(world.request("POST", "stores/mac/purge"), #"{"zoneID":{"zoneName":"\#(zoneName)"}}"#).status
        == 200)
  }

  @Test(arguments: StoreKind.allCases, [true, false])
  func `the end is told to a client that kept a page of the zone and lost its token`(
    _ kind: StoreKind, _ hadToken: Bool
  ) async throws {
    try await with(kind) { world, phone in
      if hadToken { try await phone.pull() }
      let token = phone.token
      try await world.makeZone("Late")
      #expect(try await world.move("mac", ["P"], to: "Late").status == 200)
      try await phone.pull()
      phone.token = token
      try await purge("Late", world)
      #expect(zones(try await phone.pull()) == ["Late"])
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases) func `nobody is asked what becomes of a zone that they may never have had`(
    _ kind: StoreKind
  ) async throws {
    try await with(kind, policy: "keep-and-pause") { world, phone in
      try await phone.pull()
      try await world.makeZone("Late")
      #expect(try await world.move("mac", ["P"], to: "Late").status == 200)
      try await purge("Late", world)
      #expect(zones(try await phone.pull()) == [])
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an edit of what went with its zone leaves its relations in other zones as everybody has them`(_ kind: StoreKind)
    async throws
  {
    try await with(kind) { world, phone in
      try await phone.pull()
      #expect(try await world.move("mac", ["alone"], to: "Trips").status == 200)
      try await world.makeZone("Work")
      #expect(try await world.move("mac", ["P"], to: "Work").status == 200)
      try await phone.pull()
      try await purge("Trips", world)
      // On the phone the rating belongs to the photo that is gone now.
      let known = phone.token
      try await world.edit(
        "phone", objectChange("update", "Photo", "alone", #""ratings":{"add":["R"],"remove":[]}"#), token: known)
      let told = try await phone.pull()
      #expect(told.told.contains("save R"))
      #expect(phone.graph.objects["R"]?["photo"] == #""P""#)
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases) func `so does one whose store was told of the end, and lost the page`(
    _ kind: StoreKind
  ) async throws {
    try await with(kind) { world, phone in
      try await phone.pull()
      #expect(try await world.move("mac", ["alone"], to: "Trips").status == 200)
      try await phone.pull()
      let known = phone.token
      try await purge("Trips", world)
      try await phone.pull()
      phone.token = known
      try await world.edit(
        "phone", objectChange("update", "Photo", "alone", #""ratings":{"add":["R"],"remove":[]}"#), token: known)
      #expect(try await phone.pull().told.contains("save R"))
      #expect(phone.graph.objects["R"]?["photo"] == #""P""#)
      #expect(try await phone.pull().isEmpty)
    }
  }

  @Test(arguments: StoreKind.allCases) func `an edit of what was deleted does so, too`(_ kind: StoreKind) async throws {
    try await with(kind) { world, phone in
      try await phone.pull()
      let known = phone.token
      try await world.edit("mac", objectChange("delete", "Photo", "alone"))
      try await world.makeZone("Work")
      #expect(try await world.move("mac", ["P"], to: "Work").status == 200)
      try await phone.pull()
      try await world.edit(
        "phone", objectChange("update", "Photo", "alone", #""ratings":{"add":["R"],"remove":[]}"#), token: known)
      let told = try await phone.pull()
      #expect(told.told.contains("save R"))
      #expect(phone.graph.objects["R"]?["photo"] == #""P""#)
      #expect(try await phone.pull().isEmpty)
    }
  }
}
