// The endpoints of a process's bus. Without keys only this user's processes may reach it, and the operating system
// enforces that.

internal import Glibc
internal import ServiceBus

/// The endpoints of a process from its options, checked.
struct BusEndpoints {
  /// The endpoint to bind.
  let own: String
  /// The endpoints of the share services; none for a share service itself.
  let shares: [String]

  /// The endpoint at which all processes of one user and machine find the share service.
  static let defaultShare = "ipc://%r/share.sock"
  static let defaultOwn = "ipc://%r/%n.sock"

  /// - Parameter environment: looks up a variable.
  /// - Throws: `ExitError` that names the remedy.
  init(_ options: Options, role: Role, name: String, hasKeys: Bool, environment: (String) -> String?) throws(ExitError)
  {
    func endpoint(_ option: String, _ value: String) throws(ExitError) -> String {
      let folder = Self.runtimeFolder(environment)
      let text = ServiceProcess.expanded(value).replacing("%r", by: folder).replacing("%n", by: name)
      if let reason = Endpoint.refusal(text, hasKeys: hasKeys, isBound: option == "bus")
        ?? (hasKeys ? nil : Self.exposure(of: text))
      {
        throw ExitError(.configuration, "--\(option): \(reason).")
      }
      return text
    }
    own = try endpoint("bus", options.requiredText("bus"))
    var shares: [String] = []
    if role != .share {
      for value in Option.endpoints(of: options.requiredText("share")) { shares.append(try endpoint("share", value)) }
    }
    self.shares = shares
    for share in shares where !hasKeys {
      guard let problem = SocketFolder(of: share).problem(ifMissing: nil) else { continue }
      throw ExitError(.configuration, "--share: \(problem).")
    }
  }

  /// The reason why other accounts of this machine could join at the endpoint; nil when only this account can.
  private static func exposure(of endpoint: String) -> String? {
    if endpoint.hasPrefix("tcp://") {
      return
        """
        \(endpoint) is open to every account of this machine: give the process a key (--bus-key and --bus-peers), or \
        use ipc:// with the path of a socket
        """
    }
    guard endpoint.hasPrefix("ipc:///") else {
      return "\(endpoint) must be a path in a folder of this account: use ipc:// with the full path of a socket"
    }
    return nil
  }

  /// The folder of this user's sockets on this machine.
  private static func runtimeFolder(_ environment: (String) -> String?) -> String {
    if let folder = environment("XDG_RUNTIME_DIR"), folder.hasPrefix("/") { return folder + "/aquifer" }
    let user = geteuid()
    return user == 0 ? "/run/aquifer" : "/tmp/aquifer-\(user)"
  }
}

/// The folder of a socket. An account that can enter it can join the bus.
struct SocketFolder {
  let path: String

  init(of endpoint: String) {
    let socket = endpoint.dropFirst("ipc://".count)
    path = socket.lastIndex(of: "/").map { $0 == socket.startIndex ? "/" : String(socket[..<$0]) } ?? "."
  }

  /// Makes the folder if it is missing. The folder above it must exist.
  /// - Returns: the reason why it is unusable; nil when it is usable.
  func prepare() -> String? {
    // The checks below cover an existing folder.
    guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
      return "the folder \(path) can't be made (\(String(cString: strerror(errno))))"
    }
    return problem(ifMissing: "the folder \(path) is missing")
  }

  /// The reason why other accounts could join; nil when only this account can.
  /// - Parameter missing: the result for a folder that does not exist.
  func problem(ifMissing missing: String?) -> String? {
    var status = stat()
    guard lstat(path, &status) == 0 else { return missing }
    guard status.st_mode & S_IFMT == S_IFDIR else { return "\(path) is not a folder" }
    guard status.st_uid == geteuid() else {
      return "the folder \(path) belongs to another account, which could join the bus: use a folder of this account"
    }
    guard status.st_mode & 0o077 == 0 else {
      return "the folder \(path) is open to other accounts, which could join the bus: chmod 700 it"
    }
    return nil
  }
}

extension String {
  fileprivate func replacing(_ mark: String, by text: String) -> String {
    guard let range = firstRange(of: mark) else { return self }
    return String(self[..<range.lowerBound]) + text + String(self[range.upperBound...])
  }
}
