import Testing

@testable import Console

/// Commands that wait for the end of a job on the server.
@Suite struct JobCommandTests {
  private static func job(_ state: String, startedAt: Int, _ directory: String, missing: String = "") -> String {
    #"""
    {"job":"backup","state":"\#(state)","startedAt":\#(startedAt),"directory":"\#(directory)","done":4,"shards":4,\#
    "records":1,"bytes":1,"problems":[],"missing":[\#(missing)]}
    """#
  }

  @Test func `a backup waits for the end of the job that it began`() async {
    let server = ScriptedServer(
      ("POST", 202, Self.job("running", startedAt: 7, "/backups/a")),
      ("GET", 200, Self.job("done", startedAt: 7, "/backups/a")))
    #expect(await server.run("backup /backups/a") == 0)
    #expect(server.requests.count == 2 && server.requests.last?.hasSuffix("/admin/1/backup?startedAt=7") == true)
  }

  @Test func `the end of somebody else's backup is not taken for that of one's own`() async {
    let server = ScriptedServer(
      ("POST", 202, Self.job("running", startedAt: 7, "/backups/a")),
      ("GET", 200, Self.job("done", startedAt: 8, "/backups/b")))
    #expect(await server.run("backup /backups/a") == 1)
    #expect(server.text.isEmpty && server.problem.contains("another backup has begun since"))
  }

  @Test func `a backup that ended with its first answer needs no question`() async {
    let server = ScriptedServer(
      ("POST", 202, Self.job("done", startedAt: 7, "/backups/a", missing: #"{"shard":3,"reason":"nobody holds it"}"#)))
    #expect(await server.run("backup /backups/a") == 3)
    #expect(server.requests.count == 1 && server.problem.contains("PARTIAL"))
  }
}
