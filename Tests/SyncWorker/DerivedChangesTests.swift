// What the server keeps otherwise than a store sent it comes back to that store, and nothing else does.

import JSON
import Testing

private func update(_ entity: String, _ id: String, _ properties: String) -> String {
  #"{"changeType":"update","entity":"\#(entity)","objectID":"\#(id)",\#(properties)}"#
}

private func point(_ entity: String, _ id: String, _ relationship: String, to target: String?) -> String {
  update(entity, id, #""relationships":{"\#(relationship)":\#(target.map { #""\#($0)""# } ?? "null")}"#)
}

@Suite struct DerivedChangesTests {
  private let objects = """
    {"changeType":"insert","entity":"Photo","objectID":"P1"},{"changeType":"insert","entity":"Photo","objectID":"P2"},
    {"changeType":"insert","entity":"PhotoData","objectID":"D1"},{"changeType":"insert","entity":"PhotoData",\
    "objectID":"D2"}
    """

  /// Each change as `kind object`, ascending.
  private func texts(_ changes: [JSONValue]) -> [String] {
    changes.map { "\($0["changeType"]?.string ?? "") \($0["objectID"]?.string ?? "")" }.sorted()
  }

  private func isSilent(_ devices: [Device]) async throws -> Bool {
    for _ in 0..<100 { for device in devices where try await !device.pull().isEmpty { return false } }
    return true
  }

  @Test(arguments: StoreKind.allCases)
  func `a store that names one end hears of the partners that were let go, and not of the other end`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.save("A", objects, query: ["wait": "export"])
      try await world.save(
        "A", point("Photo", "P1", "photoData", to: "D1") + "," + point("PhotoData", "D2", "photo", to: "P2"),
        query: ["wait": "export"])
      #expect(try await a.pull().isEmpty, "both ends are one fact")
      try await world.save("A", point("Photo", "P2", "photoData", to: "D1"), query: ["wait": "export"])
      #expect(texts(try await a.pull()) == ["save D2", "save P1"], "both former partners")
      #expect(a.graph.objects["P1"]?["photoData"] == "null" && a.graph.objects["D2"]?["photo"] == "null")
      try await b.pull()
      #expect(["P1", "D2"].allSatisfy { a.graph.objects[$0] == b.graph.objects[$0] })
      #expect(b.graph.objects["P2"]?["photoData"] == #""D1""# && b.graph.objects["D1"]?["photo"] == #""P2""#)
      #expect(try await isSilent([a, b]))
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a store that names all ends hears of nothing, however the ends are ordered`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.save("A", objects, query: ["wait": "export"])
      var ends = [
        point("Photo", "P1", "photoData", to: "D1"), point("PhotoData", "D1", "photo", to: "P1"),
        point("Photo", "P2", "photoData", to: nil),
      ]
      for _ in 0..<2 {
        ends.reverse()
        try await world.save("A", ends.joined(separator: ","), query: ["wait": "export"])
        #expect(try await a.pull().isEmpty)
        let moved = [
          point("Photo", "P2", "photoData", to: "D1"), point("PhotoData", "D1", "photo", to: "P2"),
          point("Photo", "P1", "photoData", to: nil),
        ]
        try await world.save("A", moved.joined(separator: ","), query: ["wait": "export"])
        #expect(try await a.pull().isEmpty)
      }
      try await b.pull()
      #expect(b.graph.objects["D1"]?["photo"] == #""P2""# && b.graph.objects["P1"]?["photoData"] == "null")
      #expect(try await isSilent([a, b]))
    }
  }

  @Test(arguments: StoreKind.allCases) func `a store hears of a number that its field rounds, once`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.save("A", objects, query: ["wait": "export"])
      func price(_ text: String) -> String { update("Photo", "P1", #""attributes":{"price":"\#(text)"}"#) }
      for exact in ["12.50", "0.1", "-3", "1e3"] {
        try await world.save("A", price(exact), query: ["wait": "export"])
        #expect(try await a.pull().isEmpty, "\(exact)")
      }
      try await world.save("A", price("0.12345678901234567891"), query: ["wait": "export"])
      #expect(texts(try await a.pull()) == ["save P1"])
      let rounded = try #require(a.graph.objects["P1"]?["price"])
      #expect(rounded.hasPrefix(#""0.123456789012345"#) && rounded.count < 22)
      // What the store has imported is exact.
      try await world.save("A", price(String(rounded.dropFirst().dropLast())), query: ["wait": "export"])
      #expect(try await a.pull().isEmpty)
      try await b.pull()
      #expect(b.graph.objects["P1"]?["price"] == rounded)
      #expect(try await isSilent([a, b]))
    }
  }
}
