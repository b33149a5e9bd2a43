// Invitations over HTTP: declined, accepted and left again by the invited users.

import Foundation
import Testing

@Suite(.serialized) struct InvitationTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  /// The participants of a zone's share except the owner, with their acceptance.
  private func participants(_ owner: User) async throws -> [String] {
    try await owner.zoneShare("Trips")["participants"].elements.dropFirst().map {
      "\($0["userIdentity"]["userRecordName"].string ?? "") \($0["acceptanceStatus"].string ?? "")"
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `an invitation is turned down, and what was accepted is left, by requests that can be sent again`() async throws
  {
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let (ann, bea, cem) = (try await app.user("ann"), try await app.user("bea"), try await app.user("cem"))
      try await ann.makeZone("Trips")
      _ = try await ann.save("first", "by Ann", in: "Trips")
      let guid = try await ann.share("Trips", with: [(bea, "READ_WRITE"), (cem, "READ_ONLY")])
      #expect(try await participants(ann) == ["\(bea.recordName) INVITED", "\(cem.recordName) INVITED"])
      // Bea declines.
      #expect(try await bea.resolve("decline", guid)["participantStatus"] == "REMOVED")
      #expect(try await participants(ann) == ["\(cem.recordName) INVITED"])
      for action in ["decline", "accept", "resolve"] {
        #expect(try await bea.resolve(action, guid)["serverErrorCode"] == "NOT_FOUND", "\(action)")
      }
      #expect(try await bea.sharedZones() == [])
      // Cem accepts, and leaves later.
      #expect(try await cem.accept(guid)["participantStatus"] == "ACCEPTED")
      #expect(try await cem.sharedZones() == ["\(ann.recordName)/Trips"])
      let requestID = UUID().uuidString
      for _ in 0..<2 { try await cem.stopSharing("Trips", of: ann, requestID: requestID) }
      #expect(try await cem.sharedZones() == [])
      #expect(try await participants(ann) == [])
      // With a new invitation Cem can leave by the URL, too.
      let share = try await ann.zoneShare("Trips")
      let invited = try await ann.updateShare("Trips", share, ["participants": [User.invitation(cem, "READ_ONLY")]])
      #expect(invited["serverErrorCode"] == .null)
      #expect(try await cem.accept(guid)["participantStatus"] == "ACCEPTED")
      #expect(try await cem.resolve("decline", guid)["participantStatus"] == "REMOVED")
      #expect(try await cem.sharedZones() == [])
      // Declining is not for the owner, whose records are untouched.
      #expect(try await ann.resolve("decline", guid)["serverErrorCode"] == "NOT_FOUND")
      #expect(try await ann.allRecords(in: "Trips").records["first"]?["fields"]["title"]["value"] == "by Ann")
    }
  }
}
