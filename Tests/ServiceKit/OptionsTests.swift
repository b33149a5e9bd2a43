import Glibc
import Testing

@testable import ServiceKit

struct OptionsTests {
  private static let declared = [
    Option("http", .address, default: "127.0.0.1:8081", help: "Where to listen."),
    Option("public-url", .url, help: "Where clients reach it."),
    Option("hold", .seconds(0.1...60), default: "50", help: "How long."),
    Option("limit", .integer(1...100), default: "10", help: "How many."),
    Option("strict", .flag, help: "Whether."),
    Option("mode", .choice(["fast", "safe"]), default: "safe", help: "Which."),
    Option("token", .secret, help: "The secret."),
    Option("data", .path, help: "The folder."),
    Option("peer", .endpoint, help: "The endpoint."),
    Option("peers", .endpoints, help: "The endpoints."),
  ]

  private func parse(_ arguments: [String], _ environment: [String: String] = [:]) throws -> Options {
    try Options(Self.declared, arguments: arguments, environment: { environment[$0] })
  }

  private func error(_ arguments: [String], _ environment: [String: String] = [:]) -> ExitError? {
    do {
      _ = try parse(arguments, environment)
      return nil
    } catch { return error as? ExitError }
  }

  @Test func `the command line counts more than the environment and the environment more than the default`() throws {
    #expect(try parse([]).integer("limit") == 10)
    #expect(try parse([], ["AQUIFER_LIMIT": "20"]).integer("limit") == 20)
    #expect(try parse(["--limit", "30"], ["AQUIFER_LIMIT": "20"]).integer("limit") == 30)
    #expect(try parse(["--limit=30", "--limit=31"]).integer("limit") == 31)
    #expect(try parse([], ["AQUIFER_LIMIT": ""]).integer("limit") == 10)
    #expect(try parse([], ["AQUIFER_PUBLIC_URL": "https://host/x//"]).url("public-url") == "https://host/x")
  }

  @Test func `values have kinds`() throws {
    let options = try parse([
      "--http", "[::1]:80", "--hold=0.5", "--strict", "--mode=fast", "--data", "/x", "--peer=ipc:///run/a.sock",
    ])
    #expect(options.address("http")?.host == "::1")
    #expect(options.address("http")?.port == 80)
    #expect(options.duration("hold") == .milliseconds(500))
    #expect(options.flag("strict"))
    #expect(options.text("data") == "/x")
    #expect(options.text("token") == nil)
    #expect(try parse(["--strict=no"]).flag("strict") == false)
    #expect(try parse([], ["AQUIFER_STRICT": "1"]).flag("strict"))

  }

  @Test func `endpoints are separated by commas, which may also stand in the path of a socket`() throws {
    let text = "ipc:///run/a,b/share.sock,tcp://h:1,ipc:///run/c.sock"
    #expect(try parse(["--peers", text]).text("peers") == text)
    #expect(Option.endpoints(of: text) == ["ipc:///run/a,b/share.sock", "tcp://h:1", "ipc:///run/c.sock"])
    #expect(Option.endpoints(of: "ipc:///run/share.sock") == ["ipc:///run/share.sock"])
  }

  @Test func `an unknown option names the nearest one`() {
    #expect(error(["--htp", "x"])?.code == .usage)
    #expect(error(["--htp", "x"])?.description == "There is no option --htp. Did you mean --http?")
    #expect(error(["--publicurl=x"])?.description.contains("--public-url") == true)
    #expect(error(["--completely-different"])?.description == "There is no option --completely-different.")
  }

  @Test func `an unknown option, or one without its value, is a usage error`() {
    #expect(error(["file"])?.code == .usage)
    #expect(error(["-x"])?.code == .usage)
    #expect(error(["--limit"])?.code == .usage)
    #expect(error(["--limit"])?.description.contains("--limit needs a value") == true)
  }

  @Test(arguments: [
    ("http", "8080"), ("http", ":80"), ("http", "h:70000"), ("http", "::1:80"), ("public-url", "host"),
    ("public-url", "http://"), ("public-url", "ftp://x"),
    ("public-url", "http://a b"),
    ("hold", "0"), ("hold", "61"), ("hold", "soon"), ("hold", "nan"), ("limit", "0"), ("limit", "101"),
    ("limit", "1.5"), ("limit", ""), ("strict", "maybe"),
    ("mode", "slow"),
    ("peer", "5550"), ("peer", "tcp://:1"), ("peer", "tcp://h:x"), ("peer", "ipc://"), ("peer", "udp://h:1"),
    ("peer", "tcp://h:1,tcp://h:2"), ("peers", "tcp://h:1,"), ("peers", ",tcp://h:1"), ("peers", "tcp://h:1,h:2"),
    ("peers", "tcp://h:1,ipc://"),
  ])
  func `a value that does not fit is a configuration error that says what would`(name: String, value: String) {
    let error = error(["--\(name)=\(value)"])
    #expect(error?.code == .configuration)
    #expect(error?.description.hasPrefix("--\(name) is '\(value)'; it must be ") == true)
  }

  @Test func `an environment variable is named when its value does not fit`() {
    #expect(error([], ["AQUIFER_MODE": "slow"])?.description == "AQUIFER_MODE is 'slow'; it must be one of fast, safe.")
  }

  @Test func `a required option that is missing is a configuration error`() {
    #expect(throws: ExitError.self) {
      try Options([Option("x", .text, isRequired: true, help: "An x.")], arguments: [], environment: { _ in nil })
    }
  }

  @Test func `a secret may stand in a file, and is never shown`() throws {
    var template = Array(("/tmp/aquifer-secret-" + String(repeating: "X", count: 6)).utf8CString)
    let fd = mkstemp(&template)
    let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    defer { unlink(path) }
    write(fd, "hush\n", 5)
    close(fd)
    #expect(try parse([], ["AQUIFER_TOKEN_FILE": path]).text("token") == "hush")
    #expect(try parse([], ["AQUIFER_TOKEN_FILE": path, "AQUIFER_TOKEN": "open"]).text("token") == "open")
    #expect(
      error([], ["AQUIFER_TOKEN_FILE": path + ".missing"])?.description.contains("AQUIFER_TOKEN_FILE names") == true)
    #expect(error([], ["AQUIFER_MODE_FILE": path]) == nil)
    #expect(try parse([], ["AQUIFER_MODE_FILE": path]).text("mode") == "safe")
    #expect(error(["--token="])?.description.contains("hush") == false)
  }

  @Test func `help and version are requests, wherever they stand`() {
    #expect(throws: Options.Request.help) { try parse(["--limit", "5", "--help"]) }
    #expect(throws: Options.Request.version) { try parse(["--version"]) }
  }

  @Test func `help shows every option with its default and variable`() {
    let text = HelpText(
      command: "aquifer-x", version: "1", summary: "It does.", options: Self.declared, examples: ["aquifer-x --strict"]
    ).text
    for option in Self.declared {
      #expect(text.contains("--\(option.name)"))
      #expect(text.contains(option.variable))
      if let value = option.defaultValue { #expect(text.contains("default \(value)")) }
    }
    #expect(text.contains("AQUIFER_TOKEN_FILE"))
    #expect(text.contains("aquifer-x --strict"))
    #expect(text.split(separator: "\n").allSatisfy { $0.count <= 120 })
  }
}
