// A home reads guests of earlier releases, and a guest answers homes of earlier releases: clients see no difference.

import JSON
import Records
import ServiceBus
import Sharing
import Testing

@Suite struct `Homes and guests of two releases` {
  /// What a participant's phone is told in a world with an edit that the owner's worker gives up.
  private func answers(amongEarlier: Bool) async throws -> [String] {
    var texts: [String] = []
    try await SharedWorld.with { world in
      try await world.makeZone("Trip", of: "_alice", photo: "P")
      try await world.share("Trip", of: "_alice", .readWrite)
      try await world.makeZone("Walk", of: "_carol", photo: "W")
      try await world.share("Walk", of: "_carol", .readWrite)
      try await world.setUp()
      world.owners.setEarlier(amongEarlier)
      // Import tokens name the databases' incarnations, which are random.
      func note(_ reply: PlaneReply) {
        let token = reply.json["importToken"]?.string ?? "no token"
        texts.append("\(reply.status) " + reply.text.replacing(token, with: "token"))
      }
      let first = try await world.send("GET", "changes")
      note(first)
      let token = first.json["importToken"]?.string ?? ""
      try await world.put("Q", "Photo", ["displayName": "new"], in: "Trip", of: "_alice")
      note(try await world.send("GET", "status", ["caughtUp": token]))
      note(try await world.send("GET", "changes", ["after": token, "limit": "1"]))
      try await world.bury("W", in: "Walk", of: "_carol")
      try await world.share("Trip", of: "_alice", .readOnly)
      try await world.save(SharedChange.rename("P", "Mine"), waits: false)
      note(try await world.send("GET", "changes", ["after": token]))
      note(try await world.send("GET", "conflicts"))
      try await world.share("Trip", of: "_alice", nil)
      note(try await world.send("GET", "changes", ["after": token]))
      note(try await world.send("GET", "status"))
      note(try await world.send("POST", "records", [:], #"{"objectIDs":["W","P","nobody"]}"#))
      note(try await world.send("GET", "quarantine"))
      note(try await world.send("POST", "quarantine/retry", [:], "{}"))
    }
    return texts
  }

  @Test func `answers put together from guests of either release are the same`() async throws {
    let (now, before) = (try await answers(amongEarlier: false), try await answers(amongEarlier: true))
    #expect(now.count == 10 && now.allSatisfy { $0.hasPrefix("200 ") }, "\(now)")
    for (one, other) in zip(now, before) { #expect(one == other) }
    #expect(now[0].contains(#""objectID":"P""#) && now[0].contains(#""objectID":"W""#))
    #expect(now[3].contains(#""changeType":"delete","entity":"Photo","objectID":"W""#))
  }
}
