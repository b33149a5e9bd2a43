import Foundation
import Testing

@testable import Console

struct SchemaCommandTests {
  private static let usage = #"{"records":14,"databases":3,"publicRecords":2,"bytes":100}"#

  @Test func `a reset without yes counts, says the command to repeat, and drops nothing`() async {
    let server = ScriptedServer(
      ("GET http://127.0.0.1:8080/admin/1/usage?container=C&environment=development", 200, Self.usage))
    #expect(await server.run("schema reset --container C") == 1)
    #expect(server.requests.count == 1)
    #expect(server.problem.contains("12 records in 3 users' databases and 2 in the public one"))
    #expect(server.problem.contains("aquifer schema reset --container C --yes"))
  }

  @Test func `a reset says what it dropped and what is left`() async {
    let server = ScriptedServer(
      (
        "POST", 200,
        #"{"before":\#(Self.usage),"after":{"records":1,"databases":1,"publicRecords":0,"bytes":0,"isPartial":true}}"#
      ))
    #expect(await server.run("schema reset --container C --yes") == 0)
    #expect(
      server.text
        == """
        dropped 12 records in 3 users' databases and 2 in the public one; left: at least 1 record in 1 user's database
        """
    )
    #expect(server.requests.first?.hasSuffix("/admin/1/schema/C/development/reset") == true)
  }

  @Test func `a model is not pushed to production without yes, and what it would change is said`() async throws {
    let model = ModelCopy()
    let answer = #"{"modelHash":"ab","entities":[],"added":[],"diff":"","notes":["`schema promote` will refuse: X"]}"#
    let server = ScriptedServer(("PUT", 200, answer))
    #expect(await server.run("model push \(model.path) --container C --environment production") == 1)
    #expect(server.requests == ["PUT http://127.0.0.1:8080/mirror/1/C/production/model?dryRun=true"])
    #expect(server.text.contains("! `schema promote` will refuse: X") && server.problem.contains("say --yes"))
    let meant = ScriptedServer(("PUT", 200, answer))
    #expect(
      await meant.run("model push \(model.path) --container C --environment production --yes --change-types") == 0)
    #expect(meant.requests == ["PUT http://127.0.0.1:8080/mirror/1/C/production/model?changeTypes=true"])
    let development = ScriptedServer(("PUT", 200, answer))
    #expect(await development.run("model push \(model.path) --container C --environment development") == 0)
    #expect(development.requests == ["PUT http://127.0.0.1:8080/mirror/1/C/development/model"])
  }

  @Test func `an import shows what changes, a line each`() async throws {
    let model = ModelCopy()
    let server = ScriptedServer(
      (
        "PUT", 200,
        #"{"modelHash":null,"entities":[],"added":[],"diff":"+ T.d\n- Old\n~ T.c: INT64 → STRING, 0 records\n"}"#
      ))
    #expect(await server.run("schema import \(model.path) --container C --dry-run --change-types") == 0)
    #expect(server.text == "+ T.d\n- Old\n~ T.c: INT64 → STRING, 0 records")
    #expect(server.requests == ["PUT http://127.0.0.1:8080/admin/1/schema/C/development?changeTypes=true&dryRun=true"])
    let same = ScriptedServer(("PUT", 200, #"{"added":[],"diff":""}"#))
    #expect(await same.run("schema import \(model.path) --container C") == 0)
    #expect(same.text == "nothing changes")
  }
}

/// A file in place of a model or a schema's text; only the server would judge its content. Removed with the value.
private final class ModelCopy {
  let path = NSTemporaryDirectory() + "aquifer-model-" + UUID().uuidString

  init() { _ = FileManager.default.createFile(atPath: path, contents: Data("<model/>".utf8)) }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
