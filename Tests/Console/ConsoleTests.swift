import Foundation
import JSON
import Synchronization
import Testing

@testable import Console

/// A console with a scripted server and recorded streams.
private final class Stage: Sendable {
  struct Record: Sendable {
    var output: [String] = []
    var problems: [String] = []
    var requests: [String] = []
  }
  let record = Mutex(Record())
  let answer: Result<HTTPSender.Answer, HTTPSender.Failure>
  let environment: [String: String]

  init(status: Int = 200, body: String = "{}", environment: [String: String] = [:]) {
    answer = .success(HTTPSender.Answer(status: status, body: Array(body.utf8)))
    self.environment = environment
  }

  init(failure: String) {
    answer = .failure(HTTPSender.Failure(reason: failure))
    environment = [:]
  }

  func run(_ words: String...) async -> Int32 { await run(words) }

  func run(_ words: [String]) async -> Int32 {
    let terminal = Terminal(
      output: { line in self.record.withLock { $0.output.append(line) } },
      problem: { line in self.record.withLock { $0.problems.append(line) } },
      input: { Array("secret\n".utf8) })
    let http = HTTPSender { method, url, headers, body, _ in
      let credentials = headers.map { " \($0.value)" }.joined()
      self.record.withLock {
        $0.requests.append("\(method) \(url)\(credentials) \(String(decoding: body, as: UTF8.self))")
      }
      return self.answer
    }
    return await Console(environment: environment, terminal: terminal, http: http).run(words)
  }

  var output: String { record.withLock { $0.output.joined(separator: "\n") } }
  var problems: String { record.withLock { $0.problems.joined(separator: "\n") } }
  var requests: [String] { record.withLock(\.requests) }
}

struct ConsoleTests {
  @Test func `with --json exactly the answer's object is printed`() async {
    let stage = Stage(body: "{\"containers\":[{\"container\":\"iCloud.a\"}]}\n")
    #expect(await stage.run("container", "list", "--json") == 0)
    #expect(stage.output == #"{"containers":[{"container":"iCloud.a"}]}"#)
    #expect(stage.problems.isEmpty)
  }

  @Test func `a text answer becomes an object with --json and stays text without`() async {
    let plain = Stage(body: "DEFINE SCHEMA\n")
    #expect(await plain.run("schema", "export", "--container", "C") == 0)
    #expect(plain.output == "DEFINE SCHEMA")
    let json = Stage(body: "DEFINE SCHEMA\n")
    #expect(await json.run("--json", "schema", "export", "--container", "C") == 0)
    #expect(json.output == #"{"schema":"DEFINE SCHEMA\n"}"#)
  }

  @Test func `server and token come from options, then from the environment`() async {
    let environment = ["AQUIFER_SERVER": "http://e/", "AQUIFER_OPERATOR_TOKEN": "E"]
    let stage = Stage(environment: environment)
    _ = await stage.run("status")
    _ = await stage.run("status", "--server", "http://o", "--operator-token", "O")
    let bare = Stage()
    _ = await bare.run("status")
    #expect(stage.requests == ["GET http://e/admin/1/status Bearer E ", "GET http://o/admin/1/status Bearer O "])
    #expect(bare.requests == ["GET http://127.0.0.1:8080/admin/1/status "])
  }

  @Test func `a refusal is exit code 1 with the reason on standard error`() async {
    let body = #"{"uuid":"U","serverErrorCode":"AUTHENTICATION_FAILED","reason":"The operator token is not valid"}"#
    let stage = Stage(status: 401, body: body)
    #expect(await stage.run("status") == 1)
    #expect(stage.output.isEmpty)
    #expect(stage.problems.contains("The operator token is not valid (AUTHENTICATION_FAILED)"))
    #expect(stage.problems.contains("AQUIFER_OPERATOR_TOKEN"))
    let json = Stage(status: 401, body: body)
    #expect(await json.run("status", "--json") == 1)
    #expect(json.output == body)
  }

  @Test func `a proxy's page and a dead server are said to be what they are`() async {
    let proxy = Stage(status: 502, body: "<html>")
    #expect(await proxy.run("status") == 1)
    #expect(proxy.problems.contains("http://127.0.0.1:8080 answered 502, but not like Aquifer"))
    let dead = Stage(failure: "connection refused")
    #expect(await dead.run("status") == 1)
    #expect(dead.problems.contains("can't be reached: connection refused"))
  }

  @Test func `all problems of a refused model are told`() async {
    let body =
      #"""
      {"serverErrorCode":"BAD_REQUEST","reason":"The model has 2 \#
      problems","problems":[{"entity":"A","property":"x","rule":"R1","message":"m","suggestion":"s"},{"entity":null,\#
      "property":null,"rule":"R2","message":"n","suggestion":""}]}
      """#
    let stage = Stage(status: 422, body: body)
    #expect(await stage.run("container", "list") == 1)
    #expect(
      stage.problems == "aquifer: The model has 2 problems (BAD_REQUEST)\n  A.x: m [R1]\n    → s\n  model: n [R2]")
  }

  @Test func `a command that is not understood is exit code 2 and sends nothing`() async {
    let stage = Stage()
    for words in [
      ["user", "create"], ["nonsense"], ["container", "delete", "C"],
      ["key", "add", "--container", "C", "--public-key", "/nowhere"],
    ] {
      #expect(await stage.run(words) == 2, "\(words)")
    }
    #expect(stage.requests.isEmpty)
    #expect(stage.output.isEmpty)
  }

  @Test func `a private key is not sent in place of the public one`() async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "aquifer-key-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: file) }
    for kind in ["EC PRIVATE KEY", "PRIVATE KEY", "PUBLIC KEY"] {
      try Data("-----BEGIN \(kind)-----\nMIG\n-----END \(kind)-----\n".utf8).write(to: file)
      let stage = Stage()
      let code = await stage.run("key", "add", "--container", "C", "--public-key", file.path)
      #expect(code == (kind == "PUBLIC KEY" ? 0 : 2))
      #expect(stage.requests.count == (kind == "PUBLIC KEY" ? 1 : 0))
      #expect(kind == "PUBLIC KEY" || stage.problems.contains("openssl ec -pubout"))
    }
  }

  @Test func `a password comes from standard input without its line end`() async {
    let stage = Stage()
    _ = await stage.run("user", "create", "a", "--password-stdin")
    #expect(stage.requests.first?.hasSuffix(#"{"name":"a","password":"secret"}"#) == true)
    _ = await stage.run("user", "password", "a", "--password-stdin")
    #expect(stage.requests.last?.hasSuffix(#"/admin/1/users/a/password {"password":"secret"}"#) == true)
    #expect(await stage.run("user", "password", "a") == 2)
    #expect(await stage.run("user", "update", "a", "--discoverable", "perhaps") == 2)
    #expect(stage.requests.count == 2)
  }

  @Test(arguments: [
    ("ZONE_NOT_FOUND", "There is no zone 'typo'", "stores"),
    ("NOT_FOUND", "There was no scrub since the share service started", "zones"),
  ])
  func `something that is missing has its own reason alone`(code: String, reason: String, noun: String) async {
    let stage = Stage(status: 404, body: #"{"serverErrorCode":"\#(code)","reason":"\#(reason)"}"#)
    #expect(await stage.run(noun) == 1)
    #expect(stage.problems == "aquifer: \(reason) (\(code))")
  }

  @Test(arguments: [(nil, Int32(0)), ("/dev/null", 0), ("/dev/full", 1)] as [(String?, Int32)])
  func `a document that could not be written whole is no success, unless its reader went away`(
    path: String?, code: Int32
  ) async {
    signal(SIGPIPE, SIG_IGN)
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    close(ends[0])
    let output = path.map { open($0, O_WRONLY) } ?? ends[1]
    defer { for descriptor in Set([output, ends[1]]) { close(descriptor) } }
    var terminal = Terminal.writing(to: output)
    let problems = Mutex<[String]>([])
    terminal = Terminal(
      output: terminal.output, problem: { line in problems.withLock { $0.append(line) } }, input: { [] },
      loss: terminal.loss)
    let http = HTTPSender { _, _, _, _, _ in .success(HTTPSender.Answer(status: 200, body: Array("{}".utf8))) }
    let console = Console(environment: [:], terminal: terminal, http: http)
    #expect(await console.run(["status", "--json"]) == code)
    #expect(problems.withLock { $0.contains { $0.contains("the output is incomplete") } } == (code == 1))
  }

  @Test(arguments: [(200, Int32(0)), (503, 1), (404, 1)])
  func `health is the exit code`(status: Int, code: Int32) async {
    #expect(await Stage(status: status).run("health", "http://127.0.0.1:9/readyz") == code)
    #expect(await Stage(failure: "no").run("health", "http://127.0.0.1:9/readyz") == 1)
  }
}

/// Tests of model files in a folder of their own.
struct ModelFileTests {
  private let folder: URL

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-model-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  private func write(_ text: String, _ path: String) throws {
    let url = folder.appending(path: path)
    try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try text.write(to: url, atomically: true, encoding: .utf8)
  }

  private func contents(_ path: String) throws -> String {
    String(decoding: try ModelFile.contents(at: folder.appending(path: path).path), as: UTF8.self)
  }

  private func cleanUp() { try? FileManager.default.removeItem(at: folder) }

  private static func plist(_ name: String) -> String {
    """
    <?xml version="1.0" encoding="UTF-8"?>
    <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
    <plist version="1.0"><dict><key>_XCCurrentVersionName</key><string>\(name)</string></dict></plist>
    """
  }

  @Test func `a bundle means its current version`() throws {
    defer { cleanUp() }
    try write("one", "M.xcdatamodeld/M.xcdatamodel/contents")
    try write("two", "M.xcdatamodeld/M 2.xcdatamodel/contents")
    #expect(throws: ModelFile.Problem.self) { try contents("M.xcdatamodeld") }
    try write(Self.plist("M 2.xcdatamodel"), "M.xcdatamodeld/.xccurrentversion")
    #expect(try contents("M.xcdatamodeld") == "two")
    #expect(try contents("M.xcdatamodeld/") == "two")
    #expect(try contents("M.xcdatamodeld/M.xcdatamodel") == "one")
    #expect(try contents("M.xcdatamodeld/M.xcdatamodel/contents") == "one")
    try write(Self.plist("M 3.xcdatamodel"), "M.xcdatamodeld/.xccurrentversion")
    #expect(throws: ModelFile.Problem.self) { try contents("M.xcdatamodeld") }
    try write("not a property list", "M.xcdatamodeld/.xccurrentversion")
    #expect(throws: ModelFile.Problem.self) { try contents("M.xcdatamodeld") }
  }

  @Test func `a bundle of one version needs no current version`() throws {
    defer { cleanUp() }
    try write("one", "M.xcdatamodeld/M.xcdatamodel/contents")
    #expect(try contents("M.xcdatamodeld") == "one")
  }

  @Test(arguments: ["absent", "plain", "Empty.xcdatamodeld", "Empty.xcdatamodel"])
  func `a file that is not a model is refused with its path`(path: String) throws {
    defer { cleanUp() }
    for name in ["plain", "Empty.xcdatamodeld", "Empty.xcdatamodel"] {
      try FileManager.default.createDirectory(at: folder.appending(path: name), withIntermediateDirectories: true)
    }
    let problem = #expect(throws: ModelFile.Problem.self) { try contents(path) }
    #expect(problem?.reason.contains(path) == true)
  }
}
