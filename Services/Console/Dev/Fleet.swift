// The processes of an installation on one machine and their command lines, as pure values.

/// The installation that `aquifer dev` runs.
struct Fleet: Hashable, Sendable {
  let options: DevOptions
  /// The folder of the executables.
  let binDirectory: String
  let data: String
  let run: String
  /// The folder of the console's pages; nil: the gateway has no console.
  var console: String?

  /// In the order of starting: servers before their clients.
  var members: [FleetMember] {
    let workers = (1...options.workerCount).map { FleetMember(name: "worker-\($0)", role: .worker) }
    return [FleetMember(name: "share", role: .share)] + workers + [
      FleetMember(name: "notifier", role: .notifier), FleetMember(name: "gateway", role: .gateway),
    ]
  }

  /// - Parameter addresses: of the members that have been ready once; restarts keep them.
  /// - Returns: nil while another member's address is needed and not known.
  func specification(of member: FleetMember, _ addresses: [FleetMember: MemberAddresses], log: String)
    -> ChildSpecification?
  {
    let own = addresses[member]
    var arguments = [
      "--name", member.name, "--bus", endpoint(of: member.name), "--admin", Self.listening(at: own?.admin, port: 0),
      "--ready-file", readyFile(of: member),
    ]
    if member.role != .share { arguments += ["--share", endpoint(of: "share")] }
    if [.notifier, .gateway].contains(member.role) { arguments += tls }
    if let level = options.logLevel { arguments += ["--log-level", level] }
    switch member.role {
    case .share: arguments += ["--data", data]
    case .worker:
      arguments += [
        "--data", data, "--assets", data + "/assets", "--user-quota", String(options.userQuota), "--encryption-key",
        encryptionKey,
      ]
    case .notifier:
      arguments += ["--http", Self.listening(at: own?.client, port: options.pingPort)]
      if let count = options.userDevices { arguments += ["--user-devices", String(count)] }
    case .gateway:
      guard let notifierURL = addresses.first(where: { $0.key.role == .notifier })?.value.client else { return nil }
      arguments += [
        "--http", Self.listening(at: own?.client, port: options.httpPort), "--notifier-url", notifierURL, "--assets",
        data + "/assets",
        "--encryption-key", encryptionKey,
      ]
      if let console { arguments += ["--console", console] }
      // All of a user's devices fetch after one save, and one user gets at most three quarters of a container's places.
      if let count = options.userDevices {
        arguments += [
          "--user-requests", String(count), "--user-waits", String(count), "--container-requests",
          String(max(count * 2, 1024)),
        ]
      }
    }
    // Last, so that options given on the command line override those derived from others.
    for (option, value) in options.passed.sorted(by: { $0.key.name < $1.key.name })
    where option.roles.contains(member.role) {
      arguments += ["--\(option.name)"] + (option.placeholder == nil ? [] : [value])
    }
    return ChildSpecification(
      executable: "\(binDirectory)/aquifer-\(member.role.rawValue)", arguments: arguments,
      logPath: log)
  }

  /// The file with the keys of encrypted values.
  var encryptionKey: String { options.encryptionKey ?? data + "/encryption-key" }

  private var tls: [String] {
    guard let tls = options.tls else { return [] }
    return ["--tls-certificate", tls.certificate, "--tls-key", tls.key]
  }

  func readyFile(of member: FleetMember) -> String { "\(run)/\(member.name).ready" }

  private func endpoint(of name: String) -> String { "ipc://\(run)/\(name).sock" }

  /// `127.0.0.1:port`, with the port of `url` when there is one.
  private static func listening(at url: String?, port: Int) -> String {
    let known = url.flatMap { $0.split(separator: ":").last }.flatMap { Int($0) }
    return "127.0.0.1:\(known ?? port)"
  }
}
