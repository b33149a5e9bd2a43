// Requests that a process finds at once, because it stood still while they came.

import Foundation
import Testing

struct BurstTests {
  /// Stops a process while so many of its clients send a request each, lets it go on, and reads the answers.
  /// libmicrohttpd reads 128 events at a time, and two threads share the clients: one of the numbers gives a thread
  /// exactly 128.
  private static let program = """
    import os, signal, socket, sys
    port, process = map(int, sys.argv[1:])
    def answer(client):
        data = b""
        while b"\\r\\n\\r\\n" not in data: data += client.recv(65536)
        head, body = data.split(b"\\r\\n\\r\\n", 1)
        length = next(int(line[15:]) for line in head.split(b"\\r\\n") if line.lower().startswith(b"content-length:"))
        while len(body) < length: body += client.recv(65536)
    def ask(clients):
        for client in clients: client.sendall(b"GET /nowhere HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n")
    clients = [socket.create_connection(("127.0.0.1", port), 25) for _ in range(300)]
    ask(clients)
    for client in clients: answer(client)
    for count in range(128, 301):
        os.kill(process, signal.SIGSTOP)
        ask(clients[:count])
        os.kill(process, signal.SIGCONT)
        try:
            for client in clients[:count]: answer(client)
        except TimeoutError:
            sys.exit(f"{count} requests at once are not all answered")
    """

  @Test(.timeLimit(.minutes(3))) func `a gateway that stood still answers all that came, however many they are`()
    async throws
  {
    try await Installation.run { installation in
      let port = try #require(URL(string: installation.ready.gateway)?.port)
      let process = try #require(installation.ready.pids["gateway"]?.first)
      let run = try CommandLineTool.run(
        ["-c", Self.program, "\(port)", "\(process)"], executable: URL(filePath: "/usr/bin/python3"))
      #expect(run.code == 0, "\(run.output) \(run.problem)")
    }
  }
}
