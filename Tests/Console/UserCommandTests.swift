import HTTPClient
import Testing

@testable import Console

struct UserCommandTests {
  private static let alice = #"""
    {"name":"alice","userRecordName":"_a","email":"a@example.org","disabled":false,"discoverable":false,\#
    "password":true,"quota":10000000000,"records":40,
    "databases":2,"publicRecords":0,"bytes":1234567,"tokens":2,"sessions":1,"keys":0,"shares":3,"sharedWith":5,
    "holds":[{"container":"C","environment":"production","bytes":1234567,"records":40,"zones":2}],
    "memberships":[{"container":"C","environment":"production","owner":"_b","zone":"Trip"}]}
    """#

  @Test func `a user is deleted with yes only, and without it is said what would go`() async {
    let server = ScriptedServer(
      ("GET", 200, Self.alice), ("DELETE", 200, #"{"userRecordName":"_a","state":"removing"}"#))
    #expect(await server.run("user delete alice") == 1)
    #expect(server.requests == ["GET http://127.0.0.1:8080/admin/1/users/alice"])
    #expect(
      server.problem.contains(
        """
        1.23 MB in 40 records of 2 databases, 3 shares with 5 others, access to 1 zone of others, 2 tokens, 1 session \
        and 0 server keys
        """
      ))
    #expect(server.problem.contains("aquifer user delete alice --yes"))
    #expect(await server.run("user delete alice --yes") == 0)
    #expect(
      server.requests.last == "DELETE http://127.0.0.1:8080/admin/1/users/alice"
        && server.text.contains("signed out everywhere"))
  }

  @Test func `a user is shown with what there is, in units`() async {
    let server = ScriptedServer(("GET", 200, Self.alice))
    #expect(await server.run("user show alice") == 0)
    for part in ["a@example.org", "10.0 GB", "1.23 MB in 40 records", "3, with 5 others", "Trip"] {
      #expect(server.text.contains(part), "\(part)")
    }
    let gone = ScriptedServer(("GET", 200, #"{"name":"alice","userRecordName":"_a","state":"removing","deleted":1}"#))
    #expect(await gone.run("user show alice") == 0)
    #expect(gone.text.contains("DELETED, their data are being removed"))
  }

  @Test func `a list has e-mail addresses and what everybody holds, those with most first`() async {
    let body = #"""
      {"users":[{"name":"bob","userRecordName":"_b","disabled":true,"bytes":0,"records":0},
      {"name":"alice","userRecordName":"_a","email":"a@example.org","disabled":false,"bytes":1234567,"records":40}],\#
      "isPartial":true}
      """#
    let server = ScriptedServer(("GET", 200, body))
    #expect(await server.run("user list --container C") == 0)
    #expect(server.requests == ["GET http://127.0.0.1:8080/admin/1/users?usage=true&container=C"])
    let lines = server.text.split(separator: "\n").map(String.init)
    #expect(
      lines.first?.lowercased().contains("e-mail") == true
        && lines.dropFirst().first { $0.contains("alice") }?.contains("1.23 MB") == true)
    #expect(lines.last?.hasPrefix("! The counts are not complete") == true)
  }

  @Test(arguments: [
    (
      "share show --container C --environment production --owner alice --zone Z",
      "GET http://127.0.0.1:8080/admin/1/participants?container=C&environment=production&owner=_a&zone=Z"
    ),
    ("share list --owner alice", "GET http://127.0.0.1:8080/admin/1/shares?owner=_a"),
    ("quarantine retry --user alice", "POST http://127.0.0.1:8080/admin/1/quarantine/retry?user=_a"),
  ])
  func `a user's name stands for the record name`(line: String, request: String) async {
    let server = ScriptedServer(
      ("/users/alice?brief=true", 200, #"{"name":"alice","userRecordName":"_a"}"#), ("", 200, "{}"))
    #expect(await server.run(line) == 0)
    #expect(server.requests.last == request)
    let raw = ScriptedServer(("", 200, "{}"))
    #expect(await raw.run(line.replacing("alice", with: "_a")) == 0)
    #expect(raw.requests == [request])
  }

  @Test func `a name that nobody has is refused before anything is asked for`() async {
    let server = ScriptedServer(
      ("/users/zoe", 404, #"{"uuid":"u","serverErrorCode":"NOT_FOUND","reason":"There is no user 'zoe'"}"#),
      ("", 200, "{}"))
    #expect(await server.run("share list --owner zoe") == 1)
    #expect(server.requests.count == 1 && server.problem.contains("There is no user 'zoe'"))
  }

  @Test(
    arguments: [
      ("0", 0), ("500", 500), ("500MB", 500_000_000), ("10GB", 10_000_000_000), ("1.5 GB", 1_500_000_000),
      ("2GiB", 2_147_483_648), ("1kb", 1000), ("0.5KiB", 512),
      ("1.000001TB", 1_000_001_000_000), ("-1", nil), ("GB", nil), ("1.GB", nil), ("1.2.3GB", nil), ("1.5", nil),
      ("1XB", nil), ("99999999999PB", nil), ("", nil),
      ("1e3", nil),
    ] as [(String, Int64?)])
  func `bytes are read with and without units`(text: String, count: Int64?) { #expect(Units.byteCount(text) == count) }

  @Test(arguments: [
    (HTTPSender.Failure(reason: "SSL", security: .untrusted), "https://a", "AQUIFER_CERTIFICATE_AUTHORITY=FILE.pem"),
    (
      HTTPSender.Failure(reason: "SSL", security: .badAuthorities), "https://a",
      "AQUIFER_CERTIFICATE_AUTHORITY must name a file of certificates"
    ),
    (HTTPSender.Failure(reason: "SSL", security: .noTLS), "https://a:1", "use http://a:1"),
    (HTTPSender.Failure(reason: "empty", isLost: true), "http://a:1", "use https://a:1"),
    (HTTPSender.Failure(reason: "refused"), "http://a:1", "Check that the server runs"),
  ])
  func `a problem of a connection's security names the setting`(
    failure: HTTPSender.Failure, server: String, part: String
  ) async {
    let stage = ScriptedServer(failure: failure)
    #expect(await stage.run("--server \(server) status") == 1)
    #expect(stage.problem.contains(part), "\(stage.problem)")
  }
}
