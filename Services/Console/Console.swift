// Runs the command line: from words to an exit code.

import Glibc
import JSON

/// `aquifer`: operates an installation over HTTP, checks models offline, and runs all services on one machine.
public struct Console: Sendable {
  enum ExitCode {
    static let done: Int32 = 0
    static let refused: Int32 = 1
    static let notUnderstood: Int32 = 2
    /// A backup that lacks some shards.
    static let partial: Int32 = 3
  }

  static let standardServer = "http://127.0.0.1:8080"

  let environment: [String: String]
  let terminal: Terminal
  let http: HTTPSender

  /// Uses the process's own streams and environment.
  public init() {
    let environment = ProcessEnvironment.variables
    self.init(
      environment: environment, terminal: .standard,
      http: .standard(trusting: environment["AQUIFER_CERTIFICATE_AUTHORITY"]))
  }

  init(environment: [String: String], terminal: Terminal, http: HTTPSender) {
    self.environment = environment
    self.terminal = terminal
    self.http = http
  }

  /// - Parameter words: the command line without the executable's name.
  /// - Returns: the exit code: 0 done, 1 refused, or the output was lost in part, 2 not understood, 3 a backup without
  ///   some shards.
  public func run(_ words: [String]) async -> Int32 {
    let code = await carryOut(words)
    guard let loss = terminal.loss() else { return code }
    terminal.problem("aquifer: the output is incomplete: \(loss)")
    return code == ExitCode.done ? ExitCode.refused : code
  }

  private func carryOut(_ words: [String]) async -> Int32 {
    do throws(UsageError) {
      switch try CommandLineParser.parse(words) {
      case .help(let path):
        terminal.output(Help.text(for: path))
        return ExitCode.done
      case .run(let invocation):
        guard let named = await naming(invocation) else { return ExitCode.refused }
        return try await run(named)
      }
    } catch {
      terminal.problem(
        "aquifer: \(error.reason)\nSee: \((["aquifer"] + error.path + ["--help"]).joined(separator: " "))")
      return ExitCode.notUnderstood
    }
  }

  private func run(_ invocation: Invocation) async throws(UsageError) -> Int32 {
    switch invocation.command.action {
    case .call(let kind): return await call(kind, invocation, content: try content(of: kind, invocation))
    case .pushModel: return await pushModel(invocation)
    case .resetSchema: return await resetSchema(invocation)
    case .deleteUser: return await deleteUser(invocation)
    case .validateModel: return validateModel(invocation)
    case .followEvents: return await events(invocation)
    case .exportZone: return await exportZone(invocation)
    case .importZone: return await importZone(invocation)
    case .restoreZone: return try await restoreZone(invocation)
    case .runJob(let kind): return await runJob(kind, invocation)
    case .restoreBackup: return restoreBackup(invocation)
    case .copyAssets: return try await copyAssets(invocation)
    case .migrate: return try await migrate(invocation)
    case .renew: return try renew(invocation)
    case .addEncryptionKey: return addEncryptionKey(invocation)
    case .useEncryptionKeys: return useEncryptionKeys(invocation)
    case .addBusKey: return try addBusKey(invocation)
    case .showBusKey: return showBusKey(invocation)
    case .health: return await health(invocation.arguments[0])
    case .dev: return await Dev(options: try DevOptions(invocation), terminal: terminal, http: http).run()
    case .guardGroup:
      GroupGuard.run()
      return ExitCode.done
    }
  }

  /// The body that a command sends, from a file or from standard input.
  private func content(of kind: AdminCall.Kind, _ invocation: Invocation) throws(UsageError) -> [UInt8] {
    let path: String?
    switch kind {
    case .deleteContainer:
      guard invocation.flag("yes") else {
        throw UsageError(
          "All data in the container would become unreachable. To delete it, add --yes", path: invocation.command.path)
      }
      path = nil
    case .purgeZone, .resetEncryptedZone:
      guard invocation.flag("yes") else {
        throw UsageError("The zone would lose its records. To go on, add --yes", path: invocation.command.path)
      }
      path = nil
    case .stopShare:
      guard invocation.flag("yes") else {
        throw UsageError(
          "Everybody but the owner would lose access. To go on, add --yes", path: invocation.command.path)
      }
      path = nil
    case .setContainer:
      guard invocation.value("display-name") != nil || invocation.value("app-url") != nil else {
        throw UsageError(
          "The command has nothing to change. Give --display-name, --app-url or both", path: invocation.command.path)
      }
      return []
    case .createUser: return invocation.flag("password-stdin") ? password() : []
    case .setPassword:
      guard invocation.flag("password-stdin") else {
        throw UsageError(
          "The command reads the password from standard input. Add --password-stdin", path: invocation.command.path)
      }
      return password()
    case .updateUser:
      if let word = invocation.value("discoverable"), !["yes", "no"].contains(word) {
        throw UsageError("--discoverable is yes or no", path: invocation.command.path)
      }
      return []
    case .addKey: path = invocation.value("public-key")
    case .addIdentity: path = invocation.value("client-secret-file")
    case .setIdentityIcon: path = invocation.value("file")
    case .addPushService: path = invocation.value("key-file")
    case .setMail: path = invocation.value("password-file")
    case .importSchema, .importRules, .importMailTemplate: path = invocation.arguments[0]
    default: path = nil
    }
    guard let path else { return [] }
    let content: [UInt8]
    do throws(ModelFile.Problem) {
      content = try ModelFile.read(path)
    } catch {
      throw UsageError(error.reason, path: invocation.command.path)
    }
    if kind == .addKey, String(decoding: content, as: UTF8.self).contains("PRIVATE KEY-----") {
      throw UsageError(
        "\(path) has a private key, which stays on the server that signs. Give its public half: openssl ec -pubout",
        path: invocation.command.path)
    }
    return content
  }

  /// Standard input without its line end.
  private func password() -> [UInt8] {
    var password = terminal.input()
    if password.last == UInt8(ascii: "\n") { password.removeLast() }
    if password.last == UInt8(ascii: "\r") { password.removeLast() }
    return password
  }

  private func call(_ kind: AdminCall.Kind, _ invocation: Invocation, content: [UInt8]) async -> Int32 {
    let call = AdminCall(kind, invocation, content: content)
    if let seconds = invocation.value("watch").flatMap({ UInt32($0) }) {
      return await watch(call, kind, invocation, every: seconds)
    }
    // These answers are documents, printed so that they can be imported again.
    if kind == .importSchema { return await send(call, invocation) { showChange($0, invocation) } }
    if [.exportRules, .exportMailTemplate].contains(kind) {
      return await send(call, invocation) { terminal.output(Self.line($0)) }
    }
    return await send(call, invocation, within: View.kinds.contains(kind) ? HTTPSender.viewLimit : HTTPSender.callLimit)
    {
      show($0, of: kind, textKey: call.textKey, invocation)
    }
  }

  /// Shows an answer with the call's own view, or by its JSON shape.
  func show(_ body: [UInt8], of kind: AdminCall.Kind, textKey: String?, _ invocation: Invocation) {
    // Dropped because an answer that is no JSON is shown unchanged.
    guard !invocation.globals.isJSON, let answer = try? JSONValue(parsing: body),
      let text = View.text(of: kind, answer, now: terminal.now())
    else {
      return show(body, textKey: textKey, invocation)
    }
    terminal.output(text)
  }

  /// Repeats a call and shows each answer: on a screen in place of the previous one, otherwise below it. When the
  /// server can't be reached, it says so and keeps asking.
  func watch(_ call: AdminCall, _ kind: AdminCall.Kind, _ invocation: Invocation, every seconds: UInt32) async -> Int32
  {
    var code = ExitCode.done
    repeat {
      if terminal.isScreen, !invocation.globals.isJSON {
        terminal.output(
          "\u{1B}[H\u{1B}[2J"
            + "every \(seconds) s, Ctrl-C ends: aquifer \(invocation.command.path.joined(separator: " "))\n")
      }
      code = await send(call, invocation, within: HTTPSender.viewLimit) {
        show($0, of: kind, textKey: call.textKey, invocation)
      }
      if !terminal.isScreen, !invocation.globals.isJSON { terminal.output("") }
    } while terminal.pause(seconds)
    return code
  }

  /// - Parameter present: shows the body of a successful answer; nil: shows it by its JSON shape.
  func send(
    _ call: AdminCall, _ invocation: Invocation, within limit: Duration = HTTPSender.callLimit,
    present: (([UInt8]) -> Void)? = nil
  ) async -> Int32 {
    let server = server(of: invocation)
    let answer: HTTPSender.Answer
    do throws(HTTPSender.Failure) {
      answer = try await http.send(
        call, to: server, token: invocation.globals.operatorToken ?? environment["AQUIFER_OPERATOR_TOKEN"],
        within: limit)
    } catch {
      let hint = error.hint(for: server) ?? "Check that the server runs; `aquifer dev --data ./data` starts one."
      terminal.problem("aquifer: \(server) can't be reached: \(error.reason). \(hint)")
      return ExitCode.refused
    }
    guard (200..<300).contains(answer.status) else {
      if invocation.globals.isJSON { terminal.output(Self.line(answer.body)) }
      terminal.problem("aquifer: \(Refusal.text(status: answer.status, body: answer.body, server: server))")
      return ExitCode.refused
    }
    if let present { present(answer.body) } else { show(answer.body, textKey: call.textKey, invocation) }
    return ExitCode.done
  }

  func server(of invocation: Invocation) -> String {
    var server = invocation.globals.server ?? environment["AQUIFER_SERVER"] ?? Self.standardServer
    while server.hasSuffix("/") { server.removeLast() }
    return server
  }

  func show(_ body: [UInt8], textKey: String? = nil, _ invocation: Invocation) {
    let text = Self.line(body)
    if let textKey {
      guard invocation.globals.isJSON else { return terminal.output(text) }
      var writer = JSONWriter()
      writer.beginObject()
      writer.member(textKey, String(decoding: body, as: UTF8.self))
      writer.endObject()
      return terminal.output(String(decoding: writer.bytes, as: UTF8.self))
    }
    // Dropped because an answer that is no JSON is shown unchanged.
    if !invocation.globals.isJSON, let answer = try? JSONValue(parsing: body) {
      return terminal.output(AnswerText.text(answer))
    }
    // Dropped because an answer that is no JSON is shown unchanged.
    terminal.output(text)
  }

  /// The text without final line ends.
  static func line(_ bytes: [UInt8]) -> String {
    var bytes = bytes[...]
    while bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
    return String(decoding: bytes, as: UTF8.self)
  }
}
