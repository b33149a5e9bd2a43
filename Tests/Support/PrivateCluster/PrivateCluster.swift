// A PostgreSQL cluster of a test's own, from Debian's packages: made, broken and removed with the test's process.

import CuttingProxy
import Foundation
import Synchronization

/// A cluster in a temporary folder, on a Unix socket and a port of 127.0.0.1, with TLS. A shell keeps it: the shell
/// ends the server and removes the folder once this process is gone, however it ended.
public final class PrivateCluster: Sendable {
  public struct Failure: Error {
    let reason: String
  }

  /// The cluster of the tests that leave servers alive. Each works in a schema of its own.
  public static let shared = Result { try PrivateCluster() }

  public let port: UInt16
  public let folder: String
  private let shell: Mutex<Shell>

  /// libpq's connection string over the Unix socket.
  public var address: String { "host=\(folder) port=\(port) user=aquifer dbname=postgres" }
  /// libpq's connection string over TCP.
  public var networkAddress: String { Self.networkAddress(port: port) }
  /// The certificate of the server, for `localhost`, which also signs itself.
  public var certificate: String { "\(folder)/data/server.crt" }

  public static func networkAddress(port: UInt16) -> String {
    "host=127.0.0.1 port=\(port) user=aquifer dbname=postgres"
  }

  /// Makes the cluster and starts it.
  /// - Parameters:
  ///   - primary: the cluster that this one follows until `promote`; nil: a cluster of its own. It confirms the commits
  ///     of sessions of `primary` with `synchronous_commit=on`, and waits for no standby itself.
  ///   - host: an address of this machine in a network of tests, whose hosts may connect; nil: 127.0.0.1.
  public init(following primary: PrivateCluster? = nil, at host: String? = nil) throws {
    let (descriptor, port) = try CuttingProxy.listen()
    close(descriptor)
    self.port = port
    folder = FileManager.default.temporaryDirectory.path + "/aquifer-cluster-\(port)-\(getpid())"
    shell = Mutex(try Shell(arguments: [folder, "\(port)", primary?.address ?? "", host ?? "127.0.0.1"]))
    try start()
  }

  /// Starts the server, and waits until it accepts sessions.
  public func start() throws { try shell.withLock { try $0.ask("start") } }

  /// Makes a standby a primary, and waits until it accepts writes.
  public func promote() throws { try shell.withLock { try $0.ask("promote") } }

  /// Runs a statement as the owner of all tables.
  /// - Parameter sql: one line.
  public func run(_ sql: String) throws { try shell.withLock { try $0.ask("run \(sql)") } }

  /// Kills all processes of the server, as the loss of its machine does.
  public func kill() throws { try shell.withLock { try $0.ask("kill") } }
}

/// The shell that keeps a cluster. It reads a word a line, one of them with a statement, and answers each with a line.
private struct Shell: Sendable {
  /// The shell's standard input and output.
  private let socket: FileHandle

  /// Arguments: the folder, the port, the primary's address, and the address to listen at. PostgreSQL refuses to run
  /// as root.
  private static let script = """
    trap '' INT TERM HUP
    folder=$1 port=$2 primary=$3 host=$4 as=
    PATH=$(pg_config --bindir):$PATH
    mkdir -m 755 "$folder"
    if [ "$(id -u)" = 0 ]; then
      as='setpriv --reuid=postgres --regid=postgres --clear-groups'
      chown postgres "$folder"
    fi
    log=$folder/log
    options="-p $port -k $folder -c listen_addresses=$host -c ssl=on -c fsync=off -c shared_buffers=16MB"
    options="$options -c max_connections=800"
    # Tests that wait for a standby say so themselves.
    options="$options -c synchronous_standby_names=absent -c synchronous_commit=local -c deadlock_timeout=50ms"
    [ -z "$primary" ] || options="$options -c synchronous_standby_names= -c synchronous_commit=on"
    follow() {
      $as pg_basebackup -d "$primary" -X stream -c fast -D "$folder/data" &&
        echo "primary_conninfo = '$primary application_name=absent'" >>"$folder/data/postgresql.auto.conf" &&
        $as touch "$folder/data/standby.signal"
    }
    make() {
      [ -z "$primary" ] || { follow; return; }
      $as initdb --no-sync -A trust -U aquifer -E UTF8 --locale=C -D "$folder/data" &&
        $as openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \\
          -addext subjectAltName=IP:127.0.0.1 -keyout "$folder/data/server.key" -out "$folder/data/server.crt" &&
        echo 'host all all samenet trust' >>"$folder/data/pg_hba.conf"
    }
    start() { $as pg_ctl -D "$folder/data" -o "$options" -l "$log" -w start; }
    cd "$folder"
    while read -r word rest; do
      case $word in
        start) { [ -d data ] || make; } >>setup 2>&1 && start >>setup 2>&1 ;;
        promote) $as pg_ctl -D data -w promote >>setup 2>&1 ;;
        run) psql -q -h "$folder" -p "$port" -U aquifer -d postgres -v ON_ERROR_STOP=1 -c "$rest" >>setup 2>&1 ;;
        kill)
          processes=$(head -1 data/postmaster.pid)
          kill -STOP "$processes"
          for file in /proc/[0-9]*/stat; do
            read -r process name state parent rest <"$file" || continue
            [ "$parent" != "${processes%% *}" ] || processes="$processes $process"
          done 2>/dev/null
          # A dead process whose parent has not noticed would keep the next server from starting.
          kill -9 $processes && rm data/postmaster.pid ".s.PGSQL.$port.lock"
          # The next server refuses the memory of one that is still dying.
          for process in $processes; do
            while grep -qs '^State:.[^ZX]' "/proc/$process/status"; do sleep 0.02; done
          done ;;
      esac && echo done || { tail -n 5 setup "$log" 2>/dev/null | tr '\\n' ' '; echo; }
    done
    $as pg_ctl -D "$folder/data" -m immediate -w stop >>setup 2>&1
    cd / && rm -rf "$folder"
    """

  init(arguments: [String]) throws {
    var ends: [Int32] = [0, 0]
    // No other child may inherit this end: the shell must see it close.
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw PrivateCluster.Failure(reason: "no socket") }
    socket = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
    defer { close(ends[1]) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0)
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
    var words = (["sh", "-c", Self.script, "sh"] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var child = pid_t()
    guard posix_spawn(&child, "/bin/sh", &actions, nil, &words, environ) == 0 else {
      throw PrivateCluster.Failure(reason: "no shell")
    }
  }

  func ask(_ request: String) throws {
    try socket.write(contentsOf: Data("\(request)\n".utf8))
    var line: [UInt8] = []
    while let byte = try socket.read(upToCount: 1)?.first, byte != UInt8(ascii: "\n") { line.append(byte) }
    let answer = String(decoding: line, as: UTF8.self)
    guard answer == "done" else { throw PrivateCluster.Failure(reason: "\(request): \(answer)") }
  }
}
