// Bad input over HTTP: each gets the documented error, which names the fault, and changes nothing.

import Foundation
import Testing

/// A bad request with the expected answer.
private struct BadInput {
  let name: String
  var method = "POST"
  /// The path below the gateway's address, with `{…}` filled in.
  let path: String
  var body: [UInt8]?
  /// nil: the user's bearer token; "": none.
  var bearer: String?
  let status: Int
  let code: String
  /// A part of the expected reason; nil: any reason.
  var reason: String?
  var cocoaErrorCode: Int64?

  init(
    _ name: String, _ method: String, _ path: String, _ body: Value? = nil, bearer: String? = nil, status: Int,
    code: String, reason: String? = nil,
    cocoaErrorCode: Int64? = nil
  ) {
    self.init(
      name, method, path, bytes: body.flatMap { try? $0.json }, bearer: bearer, status: status, code: code,
      reason: reason, cocoaErrorCode: cocoaErrorCode)
  }

  init(
    _ name: String, _ method: String, _ path: String, bytes: [UInt8]?, bearer: String? = nil, status: Int, code: String,
    reason: String? = nil,
    cocoaErrorCode: Int64? = nil
  ) {
    self.name = name
    self.method = method
    self.path = path
    body = bytes
    self.bearer = bearer
    self.status = status
    self.code = code
    self.reason = reason
    self.cocoaErrorCode = cocoaErrorCode
  }
}

@Suite(.serialized) struct BadInputTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  @Test(.timeLimit(.minutes(2))) func `bad input gets the documented error and changes nothing`() async throws {
    try await Installation.run { installation in
      let app = try await App(installation, model: model)
      let (alice, bob) = (try await app.user("alice"), try await app.user("bob"))
      let (device, foreign) = (try await alice.device("A"), try await bob.device("B"))
      let tag = UUID().uuidString
      try await device.save([MainJob.insert("Tag", tag, ["name": "first"])])
      let (token, before) = (try await device.changes().token, try await alice.allRecords())
      let history = try await device.call("GET", "/history")

      for input in Self.requests(app, device, foreign, tag: tag, token: token.string ?? "")
        + Self.saves(app, device, tag: tag)
      {
        let bearer = input.bearer ?? alice.token
        let answer = try await installation.send(
          input.method, installation.ready.gateway + input.path, bearer: bearer.isEmpty ? nil : bearer,
          bytes: input.body)
        #expect(answer.status == input.status, "\(input.name): \(answer.text.prefix(300))")
        guard let error = try? answer.json else {
          Issue.record("\(input.name): no error dictionary: \(answer.text.prefix(300))")
          continue
        }
        #expect(error["serverErrorCode"].string == input.code, "\(input.name): \(error)")
        #expect(error["uuid"].string?.isEmpty == false, "\(input.name): \(error)")
        #expect(answer.header("Access-Control-Allow-Origin") == "*", "\(input.name)")
        if let part = input.reason {
          #expect(error["reason"].string?.contains(part) == true, "\(input.name): \(error)")
        }
        if let code = input.cocoaErrorCode {
          #expect(error["cocoaErrorCode"].integer == code, "\(input.name): \(error)")
        }
      }

      let after = try await alice.allRecords()
      #expect(after.records == before.records)
      #expect(after.token == before.token)
      #expect(try await device.call("GET", "/history")["transactions"] == history["transactions"])
      #expect(try await foreign.call("GET", "/history")["transactions"] == [])
      // The device keeps working.
      try await device.save([MainJob.update("Tag", tag, ["name": "second"])])
    }
  }

  private static func deep(_ depth: Int) -> [UInt8] {
    Array((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
  }

  private static func requests(_ app: App, _ device: Device, _ foreign: Device, tag: String, token: String)
    -> [BadInput]
  {
    let mirror = "/mirror/1/\(app.container)/development"
    let stores = "\(mirror)/private/stores"
    let own = "\(stores)/\(device.store)"
    let records = "/database/1/\(app.container)/development/private"
    let encoded = token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let cut = String(token.dropLast(8)).addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let badRequest = "BAD_REQUEST"
    return [
      BadInput(
        "a body that is not JSON", "POST", "\(own)/transactions", bytes: Array("{oops".utf8), status: 400,
        code: badRequest),
      BadInput("no body", "POST", "\(own)/transactions", status: 400, code: badRequest),
      BadInput(
        "a body that is not UTF-8", "POST", "\(own)/transactions", bytes: [0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d],
        status: 400, code: badRequest),
      BadInput(
        "a body that is too deep", "POST", "\(own)/transactions", bytes: deep(100), status: 400, code: badRequest),
      BadInput(
        "a body with a key twice", "POST", "\(own)/transactions",
        bytes: Array(#"{"transactions":[],"transactions":[]}"#.utf8), status: 400, code: badRequest),
      BadInput(
        "a body that is too large", "POST", "\(own)/transactions", bytes: [UInt8](repeating: 0x20, count: 9 << 20),
        status: 413, code: "BAD_REQUEST"),
      BadInput(
        "not JSON on the record plane", "POST", "\(records)/records/modify", bytes: Array("nope".utf8), status: 400,
        code: badRequest),
      BadInput(
        "too deep on the record plane", "POST", "\(records)/records/modify", bytes: deep(100), status: 400,
        code: badRequest),
      BadInput(
        "no operations", "POST", "\(records)/records/modify", [:], status: 400, code: badRequest, reason: "operations"),
      BadInput(
        "an unknown zone", "POST", "\(records)/records/modify",
        [
          "zoneID": ["zoneName": "Nowhere"],
          "operations": [
            ["operationType": "forceUpdate", "record": ["recordName": "a", "recordType": "CD_Tag", "fields": [:]]]
          ],
        ],
        status: 404, code: "ZONE_NOT_FOUND"),
      BadInput("no credentials", "GET", "\(own)/changes", bearer: "", status: 401, code: "AUTHENTICATION_FAILED"),
      BadInput(
        "a wrong token", "GET", "\(own)/changes", bearer: String(repeating: "0", count: 128), status: 401,
        code: "AUTHENTICATION_FAILED"),
      BadInput(
        "an API token without a user", "POST", "\(records)/zones/list?ckAPIToken=\(app.apiToken)", [:], bearer: "",
        status: 421, code: "AUTHENTICATION_REQUIRED"),
      BadInput(
        "a wrong API token", "POST", "\(records)/zones/list?ckAPIToken=\(String(repeating: "0", count: 64))", [:],
        bearer: "", status: 401, code: "AUTHENTICATION_FAILED"),
      BadInput(
        "an unknown container", "GET",
        "/mirror/1/iCloud.org.example.other/development/private/stores/\(device.store)/changes", status: 404,
        code: "NOT_FOUND"),
      BadInput(
        "an unknown environment", "GET", "/mirror/1/\(app.container)/staging/private/stores/\(device.store)/changes",
        status: 400, code: badRequest),
      BadInput(
        "an unknown database", "GET", "/mirror/1/\(app.container)/development/secret/stores/\(device.store)/changes",
        status: 400, code: badRequest),
      BadInput("an unknown endpoint", "GET", "\(own)/nothing", status: 404, code: "NOT_FOUND"),
      BadInput("a wrong method", "PUT", "\(own)/transactions", [:], status: 405, code: badRequest),
      BadInput(
        "a model by a user", "PUT", "\(mirror)/model", bytes: Array("<model/>".utf8), status: 401,
        code: "AUTHENTICATION_FAILED"),
      BadInput(
        "a model that is no XML", "PUT", "\(mirror)/model", bytes: Array("<model".utf8),
        bearer: app.installation.ready.operatorToken, status: 400, code: badRequest),
      BadInput(
        "an invalid model", "PUT", "\(mirror)/model", bytes: Array(invalidModel.utf8),
        bearer: app.installation.ready.operatorToken, status: 422, code: badRequest,
        cocoaErrorCode: 134060),
      BadInput("another user's store", "GET", "\(stores)/\(foreign.store)/changes", status: 404, code: "NOT_FOUND"),
      BadInput(
        "a save into another user's store", "POST", "\(stores)/\(foreign.store)/transactions",
        Device.transactions([MainJob.insert("Tag", "X", ["name": "x"])], id: "T"),
        status: 404, code: "NOT_FOUND"),
      BadInput("an unknown store", "GET", "\(stores)/\(UUID().uuidString)/changes", status: 404, code: "NOT_FOUND"),
      BadInput(
        "a store with an unknown model", "PUT", "\(stores)/\(UUID().uuidString)", ["modelHash": "00"], status: 409,
        code: "CONFLICT"),
      BadInput(
        "a token that never was one", "GET", "\(own)/changes?after=garbage", status: 400, code: badRequest,
        reason: "Unknown sync continuation type"),
      BadInput("a truncated token", "GET", "\(own)/changes?after=\(cut)", status: 400, code: badRequest),
      BadInput("a token of another kind", "GET", "\(own)/history?after=\(encoded)", status: 400, code: badRequest),
      // Answered like an expired token, because the two can't be told apart.
      BadInput(
        "a foreign token", "GET", "\(stores)/\(foreign.store)/changes?after=\(encoded)", bearer: foreign.user.token,
        status: 410, code: badRequest),
      BadInput(
        "a limit that is no number", "GET", "\(own)/changes?limit=many", status: 400, code: badRequest,
        reason: "limit"),
      BadInput(
        "a wait that is no number", "GET", "\(own)/changes?wait=soon", status: 400, code: badRequest, reason: "wait"),
      BadInput("an object that is not there", "GET", "\(own)/objects/NOBODY", status: 404, code: "NOT_FOUND"),
    ]
  }

  /// Saves that must be refused with the place of the fault.
  private static func saves(_ app: App, _ device: Device, tag: String) -> [BadInput] {
    func save(_ name: String, _ changes: [Value], _ reason: String) -> BadInput {
      // A valid change comes before the bad one: a refused transaction stores nothing.
      let good = MainJob.update("Tag", tag, ["name": "must not be stored"])
      return BadInput(
        name, "POST", "/mirror/1/\(app.container)/development/private/stores/\(device.store)/transactions",
        Device.transactions([good] + changes, id: UUID().uuidString),
        status: 400,
        code: "BAD_REQUEST", reason: reason)
    }
    return [
      save("an unknown entity", [MainJob.insert("Nothing", "N")], "Nothing"),
      save("an unknown attribute", [MainJob.insert("Tag", "N", ["colour": "red"])], "Tag.colour"),
      save("an unknown relationship", [MainJob.insert("Tag", "N", [:], ["owner": "X"])], "Tag.owner"),
      save("a string where a number belongs", [MainJob.insert("ImagePost", "N", ["width": "wide"])], "ImagePost.width"),
      save("a number out of range", [MainJob.insert("ImagePost", "N", ["width": 2_147_483_648])], "ImagePost.width"),
      save(
        "a fraction where an integer belongs", [MainJob.insert("ImagePost", "N", ["width": 1.5])], "ImagePost.width"),
      save("a date that is none", [MainJob.insert("Post", "N", ["createdAt": "yesterday"])], "Post.createdAt"),
      save("base64 that is none", [MainJob.insert("ImageData", "N", ["data": "*"])], "ImageData.data"),
      save("a UUID that is none", [MainJob.insert("Attachment", "N", ["uuid": "1234"])], "Attachment.uuid"),
      save("a flag that is a number", [MainJob.insert("Post", "N", ["isPinned": 1])], "Post.isPinned"),
      save(
        "a to-many where a to-one belongs", [MainJob.insert("Attachment", "N", [:], ["post": ["X"]])], "Attachment.post"
      ),
      save("a to-one where a to-many belongs", [MainJob.insert("Post", "N", [:], ["tags": "X"])], "Post.tags"),
      save("an object name that is too long", [MainJob.insert("Tag", String(repeating: "N", count: 256))], "objectID"),
      save("an object name that is reserved", [MainJob.insert("Tag", "_N")], "objectID"),
      save(
        "a kind of change there is not", [["changeType": "upsert", "entity": "Tag", "objectID": "N"]], "changeType"),
      save("a change without an object", [["changeType": "insert", "entity": "Tag"]], "objectID"),
    ]
  }

  private static let invalidModel = """
    <?xml version="1.0" encoding="UTF-8"?>
    <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0">
      <entity name="A"><attribute name="x" attributeType="String"/><relationship name="b" toMany="YES" ordered="YES" \
    destinationEntity="A"/></entity>
    </model>
    """
}
