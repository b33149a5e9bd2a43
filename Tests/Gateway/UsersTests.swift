import HTTPServer
import JSON
import Testing

@testable import Gateway

struct UsersTests {
  @Test func `people are shown in the shapes that clients read`() async throws {
    let world = try await GatewayWorld()
    let path = "/database/1/\(GatewayWorld.container)/development/public/users"
    #expect(
      await world.alice(.get, "\(path)/caller").text
        == #"""
        {"userRecordName":"_alice","nameComponents":{"givenName":"Alice"},\#
        "lookupInfo":{"emailAddress":"alice@example.org"},"users":[{"userRecordName":"_alice",\#
        "nameComponents":{"givenName":"Alice"},"lookupInfo":{"emailAddress":"alice@example.org"}}]}
        """#
    )
    #expect(
      await world.alice(.get, "\(path)/current").text
        == #"{"userRecordName":"_alice","firstName":"Alice","lastName":null}"#)
    let found = await world.alice(
      .post, "\(path)/discover",
      body:
        #"""
        {"lookupInfos":[{"userRecordName":"_nobody"},{"emailAddress":"x"},{"phoneNumber":"1"},\#
        {"userRecordName":"_alice"}]}
        """#
    )
    #expect(try found.json["users"]?.elements.map { $0["userRecordName"]?.string } == ["_alice"])
    #expect(await world.alice(.get, "\(path)/discover").text == #"{"users":[]}"#)
    let byAddress = await world.alice(
      .post, "\(path)/discover", body: #"{"lookupInfos":[{"emailAddress":"alice@example.org"}]}"#)
    #expect(
      byAddress.text
        == #"""
        {"users":[{"userRecordName":"_alice","nameComponents":{"givenName":"Alice"},\#
        "lookupInfo":{"emailAddress":"alice@example.org"}}]}
        """#
    )
    let email = await world.alice(
      .post, "\(path)/lookup/email",
      body: #"{"users":[{"emailAddress":"alice@example.org"},{"emailAddress":"x@y"},{}]}"#)
    #expect(
      email.text
        == #"""
        {"users":[{"userRecordName":"_alice","firstName":"Alice","lastName":null,"emailAddress":"alice@example.org"}]}
        """#
    )
    let id = await world.alice(
      .post, "\(path)/lookup/id", body: #"{"users":[{"userRecordName":"_alice"},{"userRecordName":"_bob"}]}"#)
    #expect(id.text == #"{"users":[{"userRecordName":"_alice","firstName":"Alice","lastName":null}]}"#)
    #expect(await world.alice(.post, "\(path)/lookup/contacts").text == #"{"users":[]}"#)
    let many = #"{"users":[\#(Array(repeating: #"{"userRecordName":"_a"}"#, count: 201).joined(separator: ","))]}"#
    #expect(await world.alice(.post, "\(path)/lookup/id", body: many).status == 400)
    #expect(await world.alice(.post, "\(path)/lookup/id", body: #"{"users":[{"userRecordName":7}]}"#).status == 400)
    #expect(await world.alice(.post, "\(path)/discover", body: "[").status == 400)
    #expect(await world.alice(.post, "\(path)/discover", body: "{}").status == 400)
  }
}
