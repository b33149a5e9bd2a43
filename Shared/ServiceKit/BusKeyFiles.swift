// Reads the files that make a process's bus private: its own key, and the keys of the peers that it admits.

internal import Glibc
internal import ServiceBus

/// `--bus-key FILE` and `--bus-peers FILE`. The first is read when the process starts, the second whenever it changes.
enum BusKeyFiles {
  private static let keyName = "bus-key"
  private static let peersName = "bus-peers"
  /// The interval at which the file of known peers is read.
  private static let interval = Duration.seconds(1)

  static let options = [
    Option(
      keyName, .path, variable: "AQUIFER_BUS_KEY_FILE",
      help:
        """
        The file with this process's key on the bus (`aquifer bus-key add` makes it). With a key, the bus is encrypted \
        and admits only processes in --bus-peers; without one, it uses only ipc:// and tcp:// on 127.0.0.1.
        """
    ),
    Option(
      peersName, .path, variable: "AQUIFER_BUS_PEERS_FILE",
      help:
        """
        The file with the public keys of all processes of the installation: a line for each, with role, name and key. \
        The process reads it again when it changes.
        """
    ),
  ]

  /// - Returns: nil when neither option is given.
  /// - Throws: `ExitError` when one option is missing, a file is unreadable or malformed, other accounts may use the
  ///   key file, or the list lacks this process under its role, name and key.
  static func keys(_ options: Options, role: Role, name: String) throws(ExitError) -> BusKeys? {
    guard let keyPath = options.text(keyName) else {
      guard options.text(peersName) == nil else {
        throw ExitError(.configuration, "--\(peersName) needs --\(keyName): make a key with `aquifer bus-key add`.")
      }
      return nil
    }
    guard let peersPath = options.text(peersName) else {
      throw ExitError(
        .configuration, "--\(keyName) needs --\(peersName), the file with the public keys of all processes.")
    }
    var status = stat()
    guard stat(keyPath, &status) == 0, let text = readSmallFile(keyPath) else {
      throw ExitError(
        .configuration, "--\(keyName) names '\(keyPath)', which can't be read: \(String(cString: strerror(errno))).")
    }
    guard status.st_mode & 0o007 == 0 else {
      throw ExitError(.configuration, "--\(keyName) names '\(keyPath)', which other accounts may use: chmod 600 it.")
    }
    let own: BusKeyPair
    do throws(BusError) {
      own = try BusKeyPair(parsing: text)
    } catch {
      throw ExitError(.configuration, "--\(keyName) names '\(keyPath)': \(error.reason).")
    }
    let known = try peers(peersPath)
    let line = KnownPeer(role: role, name: name, publicKey: own.publicKey)
    guard known[own.publicKey] == line else {
      throw ExitError(
        .configuration,
        "--\(peersName) names '\(peersPath)', which does not list this process: it needs the line '\(line)'.")
    }
    return BusKeys(own: own, known: known)
  }

  private static func peers(_ path: String) throws(ExitError) -> KnownPeers {
    guard let text = readSmallFile(path) else {
      throw ExitError(
        .configuration, "--\(peersName) names '\(path)', which can't be read: \(String(cString: strerror(errno))).")
    }
    let known: KnownPeers
    do throws(BusError) {
      known = try KnownPeers(parsing: text)
    } catch {
      throw ExitError(.configuration, "--\(peersName) names '\(path)': \(error.reason).")
    }
    // An empty file is more likely a copy in progress than an order to end all processes.
    guard !known.all.isEmpty else {
      throw ExitError(.configuration, "--\(peersName) names '\(path)', which lists no process.")
    }
    return known
  }

  /// Reads the file of known peers at intervals until cancelled, and passes changes to the bus. An unusable file
  /// changes nothing.
  ///
  /// A process that is no longer listed ends, so that a worker hands its shards to listed ones.
  static func follow(_ context: ServiceContext, _ keys: BusKeys, on bus: any Bus) async {
    guard let path = context.options.text(peersName) else { return }
    var present = keys.known
    var lastProblem: String?
    while true {
      do { try await context.timing.sleep(interval) } catch { return }
      do throws(ExitError) {
        let known = try peers(path)
        lastProblem = nil
        guard known != present else { continue }
        present = known
        bus.admit(known)
        context.log.info("known peers changed", ["peers": .integer(Int64(known.all.count))])
        guard known[keys.own.publicKey] == nil else { continue }
        context.log.error(
          "no longer listed",
          ["reason": .text("'\(path)' no longer has a line for the key \(keys.own.publicKey): this process ends")])
        kill(getpid(), SIGTERM)
        return
      } catch {
        guard error.description != lastProblem else { continue }
        lastProblem = error.description
        context.log.error("known peers not read", ["reason": .text(error.description)])
      }
    }
  }
}
