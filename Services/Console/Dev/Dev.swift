// `aquifer dev`: runs all four services on one machine until it is told to stop.

import Glibc

struct Dev {
  let options: DevOptions
  let terminal: Terminal
  let http: HTTPSender

  /// - Returns: the exit code.
  func run() async -> Int32 {
    do throws(SystemProblem) {
      return try await supervise() ? Console.ExitCode.done : Console.ExitCode.refused
    } catch {
      terminal.problem("aquifer dev: \(error.reason)")
      return Console.ExitCode.refused
    }
  }

  private func supervise() async throws(SystemProblem) -> Bool {
    let clock = ContinuousClock()
    let start = clock.now
    let folder = try DevFolder(options.dataDirectory)
    defer { folder.cleanUp() }
    let stored = text(ofFile: folder.data + "/operator-token").map { Console.line(Array($0.utf8)) }
    if let note = OperatorTokenOrigin.note(ProcessEnvironment.variables, stored: stored, data: folder.data) {
      terminal.problem("aquifer dev: \(note)")
    }
    let signals = try SignalPipe(catching: [SIGTERM, SIGINT, SIGHUP, SIGCHLD])
    let executable = try Self.ownPath()
    let binDirectory = String(executable[..<(executable.lastIndex(of: "/") ?? executable.startIndex)])
    let fleet = Fleet(
      options: options, binDirectory: binDirectory, data: folder.data, run: folder.run,
      console: ConsoleFolder.find(beside: binDirectory))
    _ = try KeyFile.addKey(to: fleet.encryptionKey, unlessPresent: true)
    let watch = try startGuard(executable, log: folder.log(of: "guard"))
    defer { endGuard(watch) }
    let supervisor = Supervisor(fleet.members, group: watch.group, signals: signals, policy: options.restartPolicy) {
      member, addresses in
      unlink(fleet.readyFile(of: member))
      return fleet.specification(of: member, addresses, log: folder.log(of: member.name))
    } readiness: { member, pid in
      await answers(MemberReadyFile.read(fleet.readyFile(of: member), pid: pid))
    } living: { addresses in
      await living(addresses)
    }
    return try await supervisor.run { event in
      switch event {
      case .ready:
        writeFiles(supervisor, folder, fleet)
        announce(supervisor, folder, after: clock.now - start)
      case .changed: writeFiles(supervisor, folder, fleet)
      case .ended(let member, let pid, let status, let pause):
        terminal.problem(
          """
          aquifer dev: \(member.name) (pid \(pid)) \(status.text); it starts again in \(Self.milliseconds(pause)) ms; \
          its log is \(folder.log(of: member.name))
          """
        )
      case .notStarted(let member, let problem, let pause):
        terminal.problem(
          "aquifer dev: \(member.name): \(problem.reason); it is tried again in \(Self.milliseconds(pause)) ms")
      case .silent(let member, let pid):
        terminal.problem("aquifer dev: \(member.name) (pid \(pid)) no longer answers; `aquifer dev` kills it")
      case .gaveUp(let member, _):
        for line in lastLines(of: folder.log(of: member.name)) { terminal.problem("\(member.name): \(line)") }
      }
    }
  }

  /// The addresses of a member that answers that it is ready; nil otherwise.
  private func answers(_ addresses: MemberAddresses?) async -> MemberAddresses? {
    guard let addresses, let admin = addresses.admin else { return nil }
    // Dropped because a silent process is asked again, and one that ended is restarted.
    return (try? await http.get(admin + "/readyz", within: Self.readinessLimit))?.status == 200 ? addresses : nil
  }

  /// The addresses whose processes are alive. All are asked at once, so that a silent one delays no other.
  private func living(_ addresses: Set<String>) async -> Set<String> {
    await withTaskGroup(of: String?.self) { group in
      for address in addresses {
        // Dropped because a process that does not answer is not counted.
        group.addTask { [http] in
          (try? await http.get(address + "/livez", within: Self.livenessLimit))?.status == 200 ? address : nil
        }
      }
      return await group.reduce(into: []) { living, address in if let address { living.insert(address) } }
    }
  }

  private static let readinessLimit: Duration = .seconds(1)
  /// Longer, because a process is killed after too many missed answers, and a busy one must not be.
  private static let livenessLimit: Duration = .seconds(4)

  private func lastLines(of log: String) -> [Substring] {
    // Dropped because the reason is reported without the log, too.
    let text = (try? ModelFile.read(log)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return text.split(separator: "\n").suffix(5)
  }

  // MARK: The process that ends the others after this one was killed

  private struct Watch {
    let pid: pid_t
    let group: pid_t
    /// Closing it tells the guard; the end of this process closes it, too.
    let pipe: Int32
  }

  private func startGuard(_ executable: String, log: String) throws(SystemProblem) -> Watch {
    let pipe = try SignalPipe.pipe()
    defer { close(pipe.read) }
    // It leads the group, whose number is the guard's own pid.
    let pid = try ChildProcess.spawn(
      ChildSpecification(executable: executable, arguments: ["guard"], logPath: log), standardInput: pipe.read, group: 0
    )
    return Watch(pid: pid, group: pid, pipe: pipe.write)
  }

  private func endGuard(_ watch: Watch) {
    close(watch.pipe)
    waitpid(watch.pid, nil, 0)
  }

  // MARK: Messages and files

  /// Writes the shells' file first: a program that has seen the ready file may read it.
  private func writeFiles(_ supervisor: Supervisor, _ folder: DevFolder, _ fleet: Fleet) {
    let path = folder.data + "/env"
    let text = EnvironmentFile.text(
      binDirectory: fleet.binDirectory, gateway: ReadyFile.clientAddress(of: .gateway, supervisor.running) ?? "",
      notifier: ReadyFile.clientAddress(of: .notifier, supervisor.running) ?? "", operatorToken: operatorToken(folder),
      authority: ProcessEnvironment.variables["AQUIFER_CERTIFICATE_AUTHORITY"], earlier: text(ofFile: path) ?? "")
    do throws(SystemProblem) {
      try ReadyFile.write(Array(text.utf8), to: path)
    } catch {
      terminal.problem("aquifer dev: \(error.reason)")
    }
    writeReadyFile(supervisor, folder)
  }

  /// nil for a file that can't be read.
  private func text(ofFile path: String) -> String? {
    // Dropped because a missing file has no text.
    (try? ModelFile.read(path)).map { String(decoding: $0, as: UTF8.self) }
  }

  private func writeReadyFile(_ supervisor: Supervisor, _ folder: DevFolder) {
    guard let path = options.readyFile else { return }
    do throws(SystemProblem) {
      try ReadyFile.write(ReadyFile.json(supervisor.running, operatorToken: operatorToken(folder)), to: path)
    } catch {
      terminal.problem("aquifer dev: \(error.reason)")
    }
  }

  private func announce(_ supervisor: Supervisor, _ folder: DevFolder, after time: Duration) {
    let gateway = ReadyFile.clientAddress(of: .gateway, supervisor.running) ?? ""
    let console = ReadyFile.consoleAddress(supervisor.running).map { [("console", $0)] } ?? []
    let pairs = [
      ("gateway", gateway), ("notifier", ReadyFile.clientAddress(of: .notifier, supervisor.running) ?? ""),
      ("operator token", operatorToken(folder)), ("data", folder.data), ("logs", folder.logs),
    ]
    terminal.output(
      """
      Aquifer is ready after \(Self.milliseconds(time)) ms.

      \(TextTable.text(pairs: console + pairs))

      Next, in another terminal:
        source \(folder.data)/env
        aquifer status
        aquifer container create iCloud.org.example.photos
        aquifer user create alice

      Ctrl-C stops everything.
      """)
  }

  /// The share service created the token, or got it, before it was ready.
  private func operatorToken(_ folder: DevFolder) -> String {
    let variables = ProcessEnvironment.variables
    if let token = variables["AQUIFER_OPERATOR_TOKEN"] { return token }
    let path = variables["AQUIFER_OPERATOR_TOKEN_FILE"] ?? folder.data + "/operator-token"
    do throws(ModelFile.Problem) {
      return Console.line(try ModelFile.read(path))
    } catch {
      terminal.problem("aquifer dev: \(error.reason)")
      return ""
    }
  }

  private static func milliseconds(_ duration: Duration) -> Int64 {
    duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
  }

  /// The path of this executable; the other executables are in the same folder.
  private static func ownPath() throws(SystemProblem) -> String {
    guard let path = realpath("/proc/self/exe", nil) else {
      throw SystemProblem("This executable's path can't be found")
    }
    defer { free(path) }
    return String(cString: path)
  }
}
