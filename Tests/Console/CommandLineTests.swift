import Testing

@testable import Console

private func invocation(_ line: String) throws -> Invocation {
  guard case .run(let invocation) = try CommandLineParser.parse(line.split(separator: " ").map(String.init)) else {
    throw UsageError("help was asked for")
  }
  return invocation
}

private func usageError(_ line: String) -> UsageError? {
  #expect(throws: UsageError.self) { try CommandLineParser.parse(line.split(separator: " ").map(String.init)) }
}

struct CommandLineTests {
  @Test func `options may stand anywhere and be joined by an equals sign`() throws {
    let lines = [
      "--server http://h --json --operator-token=T token create --container C --environment development --allowed-origin a --allowed-origin b",
      "token create --container=C --environment=development --allowed-origin=a --json --server=http://h --allowed-origin=b --operator-token T",
    ]
    for line in lines {
      let invocation = try invocation(line)
      #expect(invocation.globals == Invocation.Globals(server: "http://h", operatorToken: "T", isJSON: true))
      #expect(invocation.value("container") == "C")
      #expect(invocation.value("environment") == "development")
      #expect(invocation.values("allowed-origin") == ["a", "b"])
    }
  }

  @Test func `what follows two hyphens is an argument`() throws {
    #expect(try invocation("user create -- --odd").arguments == ["--odd"])
  }

  @Test(arguments: [
    ("container", "needs one of: create, set, list, delete"), ("usr list", "did you mean 'user'"), ("user lst", "did you mean 'list'"),
    ("zzzzzzzzzz", "There is no command 'zzzzzzzzzz'"), ("user create", "NAME is missing"), ("user create a b", "'b' is one argument too many"),
    ("user create a --emial x", "did you mean --email"), ("user create a --email", "--email needs a value"), ("user create a --email --json", "--email needs a value"),
    ("user create a --email x --email y", "--email may be given once only"), ("status --json=yes", "--json takes no value"),
    ("token create --environment production", "--container is missing"),
    ("--nonsense status", "There is no option --nonsense"), ("dev", "--data is missing"),
  ])
  func `a mistake is named`(line: String, part: String) {
    let error = usageError(line)
    #expect(error?.reason.contains(part) == true, "\(error?.reason ?? "")")
  }

  @Test(arguments: ["--help", "-h", "", "user --help", "user create --help", "user create a --email --help", "dev --help"])
  func `help is to be had at every level`(line: String) throws {
    guard case .help(let path) = try CommandLineParser.parse(line.split(separator: " ").map(String.init)) else {
      Issue.record("no help for '\(line)'")
      return
    }
    #expect(Help.text(for: path).contains("Usage: aquifer"))
  }

  @Test func `every command has an example that parses, and is in the overview`() throws {
    let overview = Help.text(for: [])
    for command in Command.table where command.action != .guardGroup {
      #expect(overview.contains(command.path.joined(separator: " ") + " "))
      #expect(!command.examples.isEmpty, "\(command.path)")
      for example in command.examples {
        let words = example.split(separator: "|")[0].split(separator: " ").map(String.init)
        #expect(words.first == "aquifer")
        guard case .run(let invocation) = try CommandLineParser.parse(Array(words.dropFirst())) else {
          Issue.record("\(example) asks for help")
          continue
        }
        #expect(invocation.command.path == command.path)
      }
      #expect(Help.text(for: command.path).contains(command.examples[0]))
    }
  }

  @Test func `no two commands are called alike`() {
    #expect(Set(Command.table.map(\.path)).count == Command.table.count)
  }

  @Test(arguments: [
    ("--http-port 65536", "--http-port is a number from 0 to 65535"), ("--ping-port x", "--ping-port is a number from 0 to 65535"),
    ("--workers 0", "--workers is a number from 1 to 64"), ("--user-quota -1", "--user-quota is a number of bytes, such as 500MB or 10GB"),
    ("--user-devices 0", "--user-devices is a number from 1 to 1000000"), ("--restart-pause 0", "--restart-pause is a number from 1 to 3600000"),
  ])
  func `a number of dev out of its range is refused`(words: String, reason: String) throws {
    let invocation = try invocation("dev --data d \(words)")
    #expect(throws: UsageError(reason, path: ["dev"])) { try DevOptions(invocation) }
  }

  @Test func `how many devices may listen is told to the notifier alone, when it is said`() throws {
    for (words, count) in [("dev --data d --user-devices 1024", "1024" as String?), ("dev --data d", nil)] {
      let fleet = Fleet(options: try DevOptions(try invocation(words)), binDirectory: "/bin", data: "/d", run: "/r")
      for member in fleet.members where member.role != .gateway {
        let arguments = try #require(fleet.specification(of: member, [:], log: "l")).arguments
        #expect(arguments.firstIndex(of: "--user-devices").map { arguments[$0 + 1] } == (member.role == .notifier ? count : nil))
      }
    }
  }

  @Test func `dev has the contract's defaults`() throws {
    let options = try DevOptions(try invocation("dev --data d"))
    #expect((options.httpPort, options.pingPort, options.workerCount) == (8080, 8081, 1))
    #expect(options.readyFile == nil)
    #expect(options.restartPolicy.longestPause == .seconds(5))
  }

  @Test func `what ends again and again is started after ever longer pauses, up to the one that was asked for`() throws {
    var policy = try DevOptions(try invocation("dev --data d --restart-pause 300")).restartPolicy
    let pauses = (0..<5).map { _ in policy.pause(afterLifetime: .seconds(1)) }
    #expect(pauses == [.milliseconds(50), .milliseconds(100), .milliseconds(200), .milliseconds(300), .milliseconds(300)])
    #expect(policy.pause(afterLifetime: .seconds(10)) == .milliseconds(50))
  }
}

struct SuggestionTests {
  @Test(arguments: [("", "", 0), ("a", "", 1), ("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0), ("ab", "ba", 2)])
  func `the distance is Levenshtein's`(a: String, b: String, distance: Int) {
    #expect(Suggestion.distance(a, b) == distance)
    #expect(Suggestion.distance(b, a) == distance)
  }

  @Test func `what is too far away is not suggested`() {
    #expect(Suggestion.nearest(to: "quarantine", among: ["status", "user"]) == nil)
    #expect(Suggestion.nearest(to: "stats", among: ["stores", "status"]) == "status")
  }
}

struct DevOptionsTests {
  private func options(_ words: [String]) throws -> DevOptions {
    guard case .run(let invocation) = try CommandLineParser.parse(["dev", "--data", "d"] + words) else { throw UsageError("not run", path: []) }
    return try DevOptions(invocation)
  }

  @Test(arguments: [([], "0"), (["--user-quota", "5000"], "5000"), (["--user-quota", "10GB"], "10000000000")]) func `what users may store is told to every worker`(
    words: [String], quota: String
  ) throws {
    let fleet = Fleet(options: try options(words + ["--workers", "2"]), binDirectory: "/bin", data: "/d", run: "/r")
    for member in fleet.members {
      let arguments = fleet.specification(of: member, [:], log: "")?.arguments ?? []
      let told = arguments.firstIndex(of: "--user-quota").map { arguments[$0 + 1] }
      #expect(told == (member.role == .worker ? quota : nil), "\(member.name)")
    }
  }

  @Test func `options of the services reach those whose they are, behind all others`() throws {
    let words = PassedOption.table.flatMap { option in option.placeholder == nil ? ["--\(option.name)"] : ["--\(option.name)", "x"] }
    let fleet = Fleet(options: try options(words), binDirectory: "/bin", data: "/d", run: "/r")
    let notifier = try #require(fleet.members.first { $0.role == .notifier })
    for member in fleet.members {
      let arguments = fleet.specification(of: member, [notifier: MemberAddresses(client: "http://127.0.0.1:8081")], log: "")?.arguments ?? []
      let own = PassedOption.table.filter { $0.roles.contains(member.role) }.map { "--\($0.name)" }
      #expect(!own.isEmpty && Set(arguments.filter { word in PassedOption.table.contains { "--\($0.name)" == word } }) == Set(own), "\(member.name)")
      for name in own { #expect((arguments.lastIndex(of: name) ?? 0) > (arguments.lastIndex(of: "--ready-file") ?? 0)) }
    }
  }

  @Test func `the file for shells has what is reached, in quotes where it needs any, and keeps what others wrote`() {
    let earlier = "export AQUIFER_SERVER=old\nexport CONTAINER=c\nexport PATH=/old:$PATH\n"
    let text = EnvironmentFile.text(
      binDirectory: "/my bin/it's", gateway: "http://127.0.0.1:8080", notifier: "http://127.0.0.1:8081", operatorToken: "t$(id)", authority: nil, earlier: earlier)
    #expect(
      text == """
        export PATH='/my bin/it'\\''s':"$PATH"
        export AQUIFER_SERVER=http://127.0.0.1:8080 AQUIFER_PINGS=http://127.0.0.1:8081 AQUIFER_OPERATOR_TOKEN='t$(id)'
        export CONTAINER=c

        """)
  }

  @Test func `an operator token of the environment is not taken in silence`() {
    #expect(OperatorTokenOrigin.note([:], stored: "a", data: "/d") == nil)
    #expect(OperatorTokenOrigin.note(["AQUIFER_OPERATOR_TOKEN": "a"], stored: "a", data: "/d") == nil)
    for stored in [nil, "b"] as [String?] {
      #expect(OperatorTokenOrigin.note(["AQUIFER_OPERATOR_TOKEN": "a"], stored: stored, data: "/d")?.contains("AQUIFER_OPERATOR_TOKEN") == true)
    }
    #expect(OperatorTokenOrigin.note(["AQUIFER_OPERATOR_TOKEN_FILE": "/run/t"], stored: nil, data: "/d")?.contains("/run/t") == true)
  }

  @Test func `a certificate and its key go together, to the two services that clients reach`() throws {
    #expect(throws: UsageError.self) { try options(["--tls-key", "k"]) }
    #expect(throws: UsageError.self) { try options(["--tls-certificate", "c"]) }
    let fleet = Fleet(options: try options(["--tls-certificate", "c", "--tls-key", "k"]), binDirectory: "/bin", data: "/d", run: "/r")
    let notifier = try #require(fleet.members.first { $0.role == .notifier })
    for member in fleet.members {
      let arguments = fleet.specification(of: member, [notifier: MemberAddresses(client: "https://127.0.0.1:8081")], log: "")?.arguments ?? []
      let tls = ["--tls-certificate", "c", "--tls-key", "k"]
      #expect(arguments.filter(tls.contains) == ([.gateway, .notifier].contains(member.role) ? tls : []), "\(member.name)")
    }
  }
}
