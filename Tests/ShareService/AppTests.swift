import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

/// The names and addresses of apps.
@Suite(.eachEngine) struct AppTests {
  private static func app(_ world: World) async throws -> LookUpApp.Reply {
    try await world.service.directory.app(of: try #require(ContainerID(rawValue: World.photos)))
  }

  @Test func `an app has a name and an address for people, each of which stays until it is changed or forgotten`()
    async throws
  {
    let world = try await World.withContainer()
    #expect(try await Self.app(world) == LookUpApp.Reply())
    let path = "/admin/1/containers/\(World.photos)"
    let answer = try await world.ok(
      "POST", path, #"{"displayName":"Photo Book 📷","appURL":"https://photos.example.org/#/albums"}"#)
    #expect(answer["container"]?.string == World.photos && answer["displayName"]?.string == "Photo Book 📷")
    #expect(world.published.take().map(\.credentials) == [true])
    #expect(
      try await Self.app(world)
        == LookUpApp.Reply(displayName: "Photo Book 📷", appURL: "https://photos.example.org/#/albums"))
    try await world.ok("POST", path, #"{"appURL":"photos://open"}"#)
    #expect(try await Self.app(world) == LookUpApp.Reply(displayName: "Photo Book 📷", appURL: "photos://open"))
    let row = try #require(try await world.ok("GET", "/admin/1/containers")["containers"]?.elements.first)
    #expect(row["displayName"]?.string == "Photo Book 📷" && row["appURL"]?.string == "photos://open")
    let restarted = try await world.restarted()
    #expect(try await Self.app(restarted).appURL == "photos://open")
    try await restarted.ok("POST", path, #"{"displayName":null}"#)
    #expect(try await Self.app(restarted) == LookUpApp.Reply(displayName: nil, appURL: "photos://open"))
  }

  @Test func `a container is made once, and again is a refusal unless the call says so`() async throws {
    let world = try await World.withContainer()
    let body = #"{"container":"\#(World.photos)"}"#
    let path = "/admin/1/containers"
    try await world.ok("POST", "\(path)/\(World.photos)", #"{"displayName":"Photo Book"}"#)
    try await world.refused("POST", path, body, status: 409)
    let again = try await world.ok("POST", path, #"{"container":"\#(World.photos)","ifMissing":true}"#)
    #expect(again["container"]?.string == World.photos)
    try await world.ok("POST", path, #"{"container":"iCloud.new","ifMissing":true}"#)
    try await world.refused("POST", path, #"{"container":"iCloud.new","ifMissing":false}"#, status: 409)
    try await world.refused("POST", path, #"{"container":"iCloud.new","ifMissing":"yes"}"#, status: 400)
    let rows = try await world.ok("GET", path)["containers"]?.elements ?? []
    #expect(Set(rows.map { $0["container"]?.string }) == [World.photos, "iCloud.new"])
    #expect(rows.first { $0["container"]?.string == World.photos }?["displayName"]?.string == "Photo Book")
  }

  @Test(arguments: [
    #"{"displayName":""}"#, #"{"displayName":" Photos"}"#, #"{"displayName":"Photos\u202Esotohp"}"#,
    #"{"displayName":"a\u0085b"}"#, #"{"displayName":"a\tb"}"#,
    #"{"displayName":"\#(String(repeating: "é", count: 101))"}"#, #"{"appURL":"javascript:alert(1)"}"#,
    #"{"appURL":"JavaScript://x/%0aalert(1)"}"#,
    #"{"appURL":"data:text/html,x"}"#, #"{"appURL":"data://text/html,x"}"#, #"{"appURL":"http://example.org"}"#,
    #"{"appURL":"/photos"}"#,
    #"{"appURL":"https://"}"#, #"{"appURL":"https://a.example/ b"}"#,
    #"{"appURL":"https://\#(String(repeating: "a", count: 2041))"}"#, #"{"name":"Photos"}"#,
  ])
  func `a name or address that no page may show is refused, and changes nothing`(body: String) async throws {
    let world = try await World.withContainer()
    try await world.refused("POST", "/admin/1/containers/\(World.photos)", body, status: 400)
    #expect(try await Self.app(world) == LookUpApp.Reply())
    #expect(world.published.take().isEmpty)
  }

  @Test func `the longest name and address are taken`() async throws {
    let world = try await World.withContainer()
    let (name, url) = (String(repeating: "😀", count: 100), "https://" + String(repeating: "a", count: 2040))
    try await world.ok("POST", "/admin/1/containers/\(World.photos)", #"{"displayName":"\#(name)","appURL":"\#(url)"}"#)
    #expect(try await Self.app(world) == LookUpApp.Reply(displayName: name, appURL: url))
    try await world.refused("POST", "/admin/1/containers/iCloud.unknown", #"{"displayName":"a"}"#, status: 404)
  }
}
