import Foundation
import Gates
import Glibc
import HTTPClient
import HTTPServer
import Synchronization
import Testing

/// The same server behind TLS. The client is libcurl with OpenSSL, not the server's TLS library.
struct TLSTests {
  /// Certificates of an unknown authority, made once for all tests.
  static let one = Result { try Certificates() }
  static let other = Result { try Certificates() }

  private static func server(
    _ handler: any HTTPHandler, _ certificates: Certificates,
    configure: (inout HTTPServer.Configuration) -> Void = { _ in }
  ) throws -> HTTPServer {
    var configuration = HTTPServer.Configuration()
    configuration.certificate = try TLSCertificate(certificate: certificates.chain, key: certificates.key)
    configure(&configuration)
    return try HTTPServer(configuration: configuration, handler: handler)
  }

  @Test func `requests, bodies and content pass over one kept connection`() async throws {
    let certificates = try Self.one.get()
    let server = try Self.server(
      ClosureHandler { request in
        switch request.pathSegments {
        case ["content"]:
          HTTPResponse(status: 206, body: .content(ContentTests.Squares(), offset: 1000, byteCount: 2_900_000))
        default: HTTPResponse(status: 200, body: .bytes(request.body))
        }
      }, certificates)
    let client = HTTPClient(certificateAuthorityFile: certificates.authority)
    let url = "https://127.0.0.1:\(server.port)"
    for size in [0, 1, 100_000, 4_000_000] {
      let body = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      #expect(try await client.send("POST", url, body: body).body == body)
    }
    let content = (1000..<2_901_000).map { ContentTests.Squares.byte($0) }
    #expect(try await client.send("GET", url + "/content").body == content)
    #expect(server.connectionCount == 1)
  }

  @Test func `an upload that its sink holds back at every piece arrives whole`() async throws {
    let certificates = try Self.one.get()
    let sink = TestSink(byteLimit: 10_000_000, hasRoom: false)
    let server = try Self.server(StreamingHandler(sink: sink), certificates)
    let client = HTTPClient(certificateAuthorityFile: certificates.authority)
    let content = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 251) }
    let sending = Task { try await client.send("POST", "https://127.0.0.1:\(server.port)/stream", body: content) }
    // Bytes that GnuTLS has decrypted already cause no socket event, so a paused connection must not wait for one.
    var count = 0
    while sink.content.count < content.count {
      count += 1
      await sink.pieces.reaches(count)
      sink.goOn(forGood: false)
    }
    sink.goOn(forGood: true)
    #expect(try await sending.value.body == Array("streamed 1000000 0".utf8))
    #expect(sink.content == content)
    #expect(count > 10)
  }

  @Test func `held requests are answered, and a hang-up cancels them`() async throws {
    let certificates = try Self.one.get()
    let gate = Gate()
    let started = Counter()
    let cancelled = Counter()
    let server = try Self.server(
      ClosureHandler { _ in
        started.increment()
        if await !gate.pass() { cancelled.increment() }
        return HTTPResponse(status: 200, body: .bytes(Array("late".utf8)))
      }, certificates)
    let client = HTTPClient(certificateAuthorityFile: certificates.authority)
    let url = "https://127.0.0.1:\(server.port)"
    let lost = Task { try await client.send("GET", url) }
    let held = Task { try await client.send("GET", url) }
    await started.reaches(2)
    lost.cancel()
    await cancelled.reaches(1)
    gate.open()
    #expect(try await held.value.body == Array("late".utf8))
  }

  @Test func `an event stream flows piece by piece and ends with the server's drain`() async throws {
    let certificates = try Self.one.get()
    let source = TestSource()
    let server = try Self.server(ClosureHandler { _ in HTTPResponse(status: 200, body: .source(source)) }, certificates)
    let client = HTTPClient(certificateAuthorityFile: certificates.authority)
    // The head is sent together with the first piece.
    source.say("one")
    let stream = try await client.stream("https://127.0.0.1:\(server.port)/events")
    var chunks = stream.chunks.makeAsyncIterator()
    #expect(try await chunks.next() == Array("one".utf8))
    source.say("two")
    #expect(try await chunks.next() == Array("two".utf8))
    await server.drain(within: .seconds(20))
    #expect(try await chunks.next() == nil)
    #expect(server.connectionCount == 0)
  }

  @Test func `TLS 1,2 and 1,3 are spoken, older versions and plain HTTP are not`() async throws {
    let certificates = try Self.one.get()
    let server = try Self.server(echo, certificates)
    func handshake(_ version: String) throws -> Bool {
      // Level 0, so that the server and not the client refuses old versions.
      let arguments = [
        "s_client", "-connect", "127.0.0.1:\(server.port)", version, "-cipher", "DEFAULT:@SECLEVEL=0", "-CAfile",
        certificates.authority, "-verify_return_error",
      ]
      return try Certificates.run("openssl", arguments).code == 0
    }
    #expect(try handshake("-tls1_2"))
    #expect(try handshake("-tls1_3"))
    #expect(try !handshake("-tls1_1"))
    #expect(try !handshake("-tls1"))
    let plain = try RawConnection(port: server.port)
    try await plain.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await !String(decoding: plain.readToEnd(), as: UTF8.self).contains("HTTP/"))
  }

  @Test(.timeLimit(.minutes(1))) func `a handshake that never ends is cut off`() async throws {
    let server = try Self.server(echo, Self.one.get()) { $0.headerDeadline = .milliseconds(100) }
    let silent = try RawConnection(port: server.port)
    // The beginning of a ClientHello.
    try await silent.send([0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
    _ = try await silent.readToEnd()
    while server.connectionCount > 0 { try await Task.sleep(for: .milliseconds(5)) }
  }

  @Test func `a renewed certificate is shown to connections that come later`() async throws {
    let (one, other) = (try Self.one.get(), try Self.other.get())
    let folder = try Certificates.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let (chain, key) = (folder.appending(path: "chain.pem"), folder.appending(path: "key.pem"))
    func put(_ source: String, _ target: URL) throws {
      // Like programs that renew certificates: the new file replaces the old one atomically.
      let new = target.appendingPathExtension("new")
      try Data(contentsOf: URL(filePath: source)).write(to: new)
      guard rename(new.path, target.path) == 0 else { throw RawConnection.Failure(description: "rename") }
    }
    try put(one.chain, chain)
    try put(one.key, key)
    let renewals = Mutex<[TLSCertificate.Renewal]>([])
    var configuration = HTTPServer.Configuration()
    configuration.certificate = try TLSCertificate(
      certificate: chain.path, key: key.path, lookInterval: .zero,
      observe: { renewal in renewals.withLock { $0.append(renewal) } })
    let server = try HTTPServer(configuration: configuration, handler: echo)
    let url = "https://127.0.0.1:\(server.port)"
    let early = HTTPClient(certificateAuthorityFile: one.authority)
    #expect(try await early.send("GET", url).status == 200)

    // Only the certificate is new and does not match the key, so the server keeps the old pair.
    try put(other.chain, chain)
    #expect(try await HTTPClient(certificateAuthorityFile: one.authority).send("GET", url).status == 200)
    #expect(renewals.withLock { $0.count } == 1)
    if case .refused(let problem)? = renewals.withLock({ $0.last }) {
      #expect(problem.description.contains("does not hold the key of the certificate"))
    } else {
      Issue.record("not refused")
    }

    try put(other.key, key)
    #expect(try await HTTPClient(certificateAuthorityFile: other.authority).send("GET", url).status == 200)
    #expect(renewals.withLock { $0.last } == .renewed)
    await #expect(throws: HTTPClientError.self) {
      try await HTTPClient(certificateAuthorityFile: one.authority).send("GET", url)
    }
    // The earlier connection still works.
    #expect(try await early.send("GET", url).status == 200)

    try Data().write(to: chain)
    #expect(try await HTTPClient(certificateAuthorityFile: other.authority).send("GET", url).status == 200)
  }

  @Test func `files that were refused are read again until they serve, and the reason is told once`() async throws {
    let (one, other) = (try Self.one.get(), try Self.other.get())
    let folder = try Certificates.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let (chain, key) = (folder.appending(path: "chain.pem"), folder.appending(path: "key.pem"))
    func put(_ certificates: Certificates) throws {
      try Data(contentsOf: URL(filePath: certificates.chain)).write(to: chain, options: .atomic)
      try Data(contentsOf: URL(filePath: certificates.key)).write(to: key, options: .atomic)
    }
    try put(one)
    let renewals = Mutex<[TLSCertificate.Renewal]>([])
    let lead = Mutex<Int64>(0)
    var configuration = HTTPServer.Configuration()
    configuration.certificate = try TLSCertificate(
      certificate: chain.path, key: key.path, lookInterval: .zero,
      seconds: { TLSCertificate.systemSeconds() + lead.withLock { $0 } },
      observe: { renewal in renewals.withLock { $0.append(renewal) } })
    let server = try HTTPServer(configuration: configuration, handler: echo)
    let url = "https://127.0.0.1:\(server.port)"

    // The clock is wrong while the files are replaced.
    lead.withLock { $0 = 3 * 86_400 }
    try put(other)
    for _ in 0..<3 {
      #expect(try await HTTPClient(certificateAuthorityFile: one.authority).send("GET", url).status == 200)
    }
    #expect(renewals.withLock { $0.count } == 1)
    lead.withLock { $0 = 0 }
    #expect(try await HTTPClient(certificateAuthorityFile: other.authority).send("GET", url).status == 200)
    #expect(renewals.withLock { $0.count } == 2)
    #expect(renewals.withLock { $0.last } == .renewed)
  }

  @Test func `files that can't serve are refused with a sentence`() throws {
    let (one, other) = (try Self.one.get(), try Self.other.get())
    func problem(_ certificate: String, _ key: String, at seconds: Int64 = TLSCertificate.systemSeconds()) -> String? {
      do throws(TLSCertificate.Problem) {
        _ = try TLSCertificate(certificate: certificate, key: key, seconds: { seconds })
        return nil
      } catch { return error.description }
    }
    let now = TLSCertificate.systemSeconds()
    #expect(problem(one.chain, one.key) == nil)
    // The script makes certificates that are valid for two days.
    #expect(try abs(TLSCertificate(certificate: one.chain, key: one.key).expiry - now - 2 * 86_400) < 3600)
    #expect(
      problem("/no/such.pem", one.key)
        == "The TLS certificate file /no/such.pem can't be read: No such file or directory.")
    #expect(
      problem(one.chain, "/no/such.pem") == "The TLS key file /no/such.pem can't be read: No such file or directory.")
    #expect(problem("/tmp", one.key) == "The TLS certificate file /tmp can't be read: Is a directory.")
    #expect(problem("/dev/null", one.key)?.contains("holds no certificate chain in PEM form") == true)
    #expect(problem(one.key, one.key)?.contains("holds no certificate chain in PEM form") == true)
    #expect(problem("/dev/zero", one.key)?.contains("too large") == true)
    #expect(problem(one.chain, one.chain)?.contains("holds no private key") == true)
    #expect(problem(one.chain, other.key)?.contains("does not hold the key of the certificate") == true)
    #expect(problem(one.chain, one.key, at: now + 3 * 86_400)?.hasSuffix("has expired.") == true)
    #expect(problem(one.chain, one.key, at: now - 86_400)?.contains("is not valid yet") == true)
  }

  @Test func `a key that everybody may read is told apart`() throws {
    let one = try Self.one.get()
    let folder = try Certificates.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let key = folder.appending(path: "key.pem").path
    try FileManager.default.copyItem(atPath: one.key, toPath: key)
    #expect(chmod(key, 0o640) == 0)
    #expect(try !TLSCertificate(certificate: one.chain, key: key).isKeyExposed)
    #expect(chmod(key, 0o644) == 0)
    #expect(try TLSCertificate(certificate: one.chain, key: key).isKeyExposed)
  }

  @Test func `connections cut anywhere leave the server whole`() async throws {
    let certificates = try Self.one.get()
    let server = try Self.server(echo, certificates)
    // The recorded beginning of a handshake, cut at every length, and random bytes.
    let hello: [UInt8] =
      [0x16, 0x03, 0x01, 0x00, 0x2f, 0x01, 0x00, 0x00, 0x2b, 0x03, 0x03] + (0..<32).map { $0 } + [
        0, 0, 2, 0x13, 0x01, 1, 0, 0, 0,
      ]
    for count in 0..<hello.count {
      let client = try RawConnection(port: server.port)
      try await client.send(Array(hello[..<count]))
      client.close()
    }
    for seed in 0..<20 {
      let client = try RawConnection(port: server.port)
      try await client.send((0..<300).map { UInt8(truncatingIfNeeded: ($0 + seed) &* 197 ^ seed) })
      client.close()
    }
    let client = HTTPClient(certificateAuthorityFile: certificates.authority)
    #expect(try await client.send("GET", "https://127.0.0.1:\(server.port)").status == 200)
  }
}

/// The files of Tests/Clients/certificates, in a folder that exists as long as the tests run.
struct Certificates: Sendable {
  let authority: String
  let chain: String
  let key: String

  init() throws {
    let folder = try Self.folder()
    let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().appending(
      path: "Clients/certificates"
    ).path
    let made = try Self.run(script, [folder.path])
    guard made.code == 0 else { throw RawConnection.Failure(description: "certificates: \(made.output)") }
    authority = folder.appending(path: "ca.pem").path
    chain = folder.appending(path: "chain.pem").path
    key = folder.appending(path: "key.pem").path
    Self.made.withLock { $0.append(folder) }
    _ = Self.removal
  }

  private static let made = Mutex<[URL]>([])
  private static let removal: Int32 = atexit {
    for folder in Certificates.made.withLock({ $0 }) { try? FileManager.default.removeItem(at: folder) }
  }

  static func folder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aq-tls-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder
  }

  /// Runs a command to its end. Foundation's `Process` is not used: it walks the list of open descriptors and fails on
  /// the thousands that other tests open and close meanwhile.
  static func run(_ command: String, _ arguments: [String]) throws -> (code: Int32, output: String) {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw RawConnection.Failure(description: "no pipe") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[0]) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    for stream: Int32 in [1, 2] { posix_spawn_file_actions_adddup2(&actions, ends[1], stream) }
    var words = ([command] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var pid: pid_t = 0
    let code = posix_spawnp(&pid, command, &actions, nil, &words, environ)
    close(ends[1])
    guard code == 0 else { throw RawConnection.Failure(description: "\(command): \(String(cString: strerror(code)))") }
    var output: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = read(ends[0], &buffer, buffer.count)
      guard count > 0 else { break }
      output += buffer[..<count]
    }
    var status: Int32 = 0
    waitpid(pid, &status, 0)
    return (status & 0x7f == 0 ? status >> 8 & 0xff : -1, String(decoding: output, as: UTF8.self))
  }
}
