// A deleted user, through real processes: ended credentials, data removed by the shards, and the effects on others.

import Foundation
import Testing

@Suite(.serialized) struct UserDeletionTests {
  /// Polls until the condition holds.
  private func eventually(_ what: String, _ condition: () async throws -> Bool) async throws {
    let end = ContinuousClock.now + .seconds(40)
    while try await !condition() {
      guard ContinuousClock.now < end else { throw Unexpected("not within 40 s: \(what)") }
      try await Task.sleep(for: .milliseconds(50))
    }
  }

  private func recordNames(_ installation: Installation) async throws -> Set<String> {
    Set(
      try await installation.admin("GET", "/admin/1/users")["users"].elements.compactMap { $0["userRecordName"].string }
    )
  }

  @Test(.timeLimit(.minutes(3)))
  func
    `a deleted user is signed out at once and takes along what is theirs, though the share service is killed`()
    async throws
  {
    let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let users = try await app.usersApart(["alice", "bob"])
      let (alice, bob) = (users[0], users[1])
      // More than the two, when names had to be tried until their shards differ.
      let everyone = try await recordNames(installation)
      #expect(everyone.isSuperset(of: [alice.recordName, bob.recordName]))
      for (owner, other, zone) in [(alice, bob, "Trip"), (bob, alice, "Home")] {
        try await owner.makeZone(zone)
        _ = try await owner.save("note", "from its owner", in: zone)
        _ = try await other.accept(try await owner.share(zone, with: [(other, "READ_WRITE")]))
      }
      _ = try await alice.save("alices", "in Bob's zone", in: "Home", of: bob)
      let device = try await alice.device("phone")
      try await device.save([MainJob.insert("Tag", UUID().uuidString, ["name": "hers"])])
      _ = try await alice.device("shared", in: "shared")
      try await eventually("Bob sees the zone") { try await bob.sharedZones() == ["\(alice.recordName)/Trip"] }
      var token = try await bob.sharedFeed().token

      let refused = try await installation.aquifer("user", "delete", alice.recordName)
      #expect(
        refused.code == 1 && refused.problem.contains("access to 1 zone of others")
          && refused.problem.contains("1 share with 1 other"), "\(refused.problem)")
      #expect(try await alice.send("zones/list", [:]).status == 200)

      let deleted = try await installation.aquifer("user", "delete", alice.recordName, "--yes")
      #expect(deleted.code == 0, "\(deleted.problem)")
      // At once, also where the credentials were cached.
      #expect(try await alice.send("zones/list", [:]).status == 401)
      #expect(kill(try #require(try installation.now().pids["share"]?.first), SIGKILL) == 0)
      try await eventually("the shards are done") {
        // Dropped because the share service is away for a moment.
        (try? await installation.admin("GET", "/admin/1/users/\(alice.recordName)"))?["state"].string == "removed"
      }

      try await eventually("Bob lost the zone") { try await bob.sharedZones().isEmpty }
      var feed: Set<String> = []
      try await eventually("Bob is told") {
        let page = try await bob.sharedFeed(after: token)
        feed.formUnion(page.zones)
        token = page.token
        return feed.contains("-\(alice.recordName)/Trip")
      }
      // Records written into another owner's zone stay; their writer is no participant any more.
      #expect(try await bob.allRecords(in: "Home").records["alices"] != nil)
      let share = try await bob.zoneShare("Home")
      #expect(
        !share["participants"].elements.contains { $0["userIdentity"]["userRecordName"].string == alice.recordName },
        "\(share)")
      let zones = try await installation.admin("GET", "/admin/1/zones")["zones"].elements.filter {
        $0["owner"].string == alice.recordName
      }
      #expect(!zones.isEmpty && zones.allSatisfy { $0["deleted"] == true })
      #expect(
        try await installation.admin("GET", "/admin/1/stores")["stores"].elements.allSatisfy {
          $0["user"].string != alice.recordName
        })
      #expect(try await recordNames(installation) == everyone.subtracting([alice.recordName]))
    }
  }
}
