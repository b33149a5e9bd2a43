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
      """
      --server http://h --json --operator-token=T token create --container C --environment development \
      --allowed-origin a --allowed-origin b
      """,
      """
      token create --container=C --environment=development --allowed-origin=a --json --server=http://h \
      --allowed-origin=b --operator-token T
      """,
    ]
    for line in lines {
      let invocation = try invocation(line)
      #expect(invocation.globals == Invocation.Globals(server: "http://h", operatorToken: "T", isJSON: true))
      #expect(invocation.value("container") == "C")
      #expect(invocation.value("environment") == "development")
      #expect(invocation.values("allowed-origin") == ["a", "b"])
    }
  }

  @Test func `a word after two hyphens is an argument`() throws {
    #expect(try invocation("user create -- --odd").arguments == ["--odd"])
  }

  @Test(arguments: [
    ("container", "needs one of: create, set, list, delete"), ("usr list", "did you mean 'user'"),
    ("user lst", "did you mean 'list'"),
    ("zzzzzzzzzz", "There is no command 'zzzzzzzzzz'"), ("user create", "NAME is missing"),
    ("user create a b", "'b' is one argument too many"),
    ("user create a --emial x", "did you mean --email"), ("user create a --email", "--email needs a value"),
    ("user create a --email --json", "--email needs a value"),
    ("user create a --email x --email y", "--email may be given only once"),
    ("status --json=yes", "--json takes no value"),
    ("token create --environment production", "--container is missing"),
    ("--nonsense status", "There is no option --nonsense"), ("dev", "--data is missing"),
  ])
  func `a mistake is named`(line: String, part: String) {
    let error = usageError(line)
    #expect(error?.reason.contains(part) == true, "\(error?.reason ?? "")")
  }

  @Test(arguments: [
    "--help", "-h", "", "user --help", "user create --help", "user create a --email --help", "dev --help",
  ])
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
    ("--http-port 65536", "--http-port is a number from 0 to 65535"),
    ("--ping-port x", "--ping-port is a number from 0 to 65535"),
    ("--workers 0", "--workers is a number from 1 to 64"),
    ("--user-quota -1", "--user-quota is a number of bytes, such as 500MB or 10GB"),
    ("--user-devices 0", "--user-devices is a number from 1 to 1000000"),
    ("--restart-pause 0", "--restart-pause is a number from 1 to 3600000"),
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
        #expect(
          arguments.firstIndex(of: "--user-devices").map { arguments[$0 + 1] }
            == (member.role == .notifier ? count : nil))
      }
    }
  }

  @Test func `the gateway alone gets the console's pages, and an option takes their place`() throws {
    let notifier = FleetMember(name: "notifier", role: .notifier)
    let addresses = [notifier: MemberAddresses(client: "http://n", admin: nil)]
    for (words, found, expected) in [
      ("dev --data d", "/pages", "/pages" as String?), ("dev --data d", nil, nil),
      ("dev --data d --console /own", "/pages", "/own"),
    ] as [(String, String?, String?)] {
      var fleet = Fleet(options: try DevOptions(try invocation(words)), binDirectory: "/bin", data: "/d", run: "/r")
      fleet.console = found
      for member in fleet.members {
        let arguments = try #require(fleet.specification(of: member, addresses, log: "l")).arguments
        // The last of repeated options counts.
        let folder = arguments.lastIndex(of: "--console").map { arguments[$0 + 1] }
        #expect(folder == (member.role == .gateway ? expected : nil))
      }
    }
  }

  @Test func `dev has the contract's defaults`() throws {
    let options = try DevOptions(try invocation("dev --data d"))
    #expect((options.httpPort, options.pingPort, options.workerCount) == (8080, 8081, 1))
    #expect(options.readyFile == nil)
    #expect(options.restartPolicy.longestPause == .seconds(5))
  }

  @Test func `a process that ends again and again starts after ever longer pauses, up to the one that was asked for`()
    throws
  {
    var policy = try DevOptions(try invocation("dev --data d --restart-pause 300")).restartPolicy
    let pauses = (0..<5).map { _ in policy.pause(afterLifetime: .seconds(1)) }
    #expect(
      pauses == [.milliseconds(50), .milliseconds(100), .milliseconds(200), .milliseconds(300), .milliseconds(300)])
    #expect(policy.pause(afterLifetime: .seconds(10)) == .milliseconds(50))
  }
}
