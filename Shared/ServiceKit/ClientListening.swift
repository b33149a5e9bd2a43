// The options of a server that outside clients reach: TLS, and the proxies in front of it.

public import HTTPServer

public enum ClientListening {
  public static let options = [
    Option(
      "tls-certificate", .path,
      help: "A PEM file: the certificate for TLS, with its chain. The process reads a renewed file without a restart."),
    Option("tls-key", .path, help: "A PEM file: the certificate's private key, without a password."),
    Option(
      "trusted-proxies", .networks,
      help:
        """
        Addresses and networks (10.0.0.0/8, ::1, …) of trusted proxies, separated by commas. X-Forwarded-Proto, -Host \
        and -For count only from them.
        """
    ),
    Option(
      "connections-per-address", .integer(0...1_000_000),
      help:
        """
        The limit of connections from one address (of IPv6: one /64); the process answers more with THROTTLED and \
        closes them. For each client of a trusted proxy, the limit of requests under way. 0: no limit (default: an \
        eighth of all connections).
        """
    ),
  ]

  /// A configuration from `--http` and the options above.
  /// - Throws: `ExitError` when the certificate's options or files are unusable.
  public static func configuration(_ context: ServiceContext) throws(ExitError) -> HTTPServer.Configuration {
    let options = context.options
    guard let address = options.address("http") else { preconditionFailure("--http has a default") }
    var configuration = HTTPServer.Configuration()
    configuration.address = address.host
    configuration.port = address.port
    configuration.trustedProxies = options.text("trusted-proxies").flatMap { NetworkList($0) } ?? NetworkList()
    configuration.connectionsPerClient = options.integer("connections-per-address")
    let memory = MemoryLimit(options, role: context.role).byteCount
    configuration.totalBodyByteLimit = memory / 8
    configuration.totalAnswerByteLimit = memory / 8
    configuration.observe = { [log = context.log] refusal, address in
      log.warning(
        "a client was refused for lack of room", ["room": .text(refusal.rawValue), "address": .text(address)])
    }
    configuration.certificate = try certificate(options, context.log)
    if let certificate = configuration.certificate {
      context.metrics.collect(
        "tls_certificate_expiry_timestamp_seconds", "Expiry of the certificate for clients, in seconds since 1970."
      ) {
        [Metrics.Sample(Double(certificate.expiry))]
      }
    }
    return configuration
  }

  /// The URL at which clients on this machine reach a server with that configuration.
  public static func url(_ configuration: HTTPServer.Configuration, port: UInt16) -> String {
    SocketAddress.url(configuration.address, port, scheme: configuration.certificate == nil ? "http" : "https")
  }

  private static func certificate(_ options: Options, _ log: Log) throws(ExitError) -> TLSCertificate? {
    switch (options.text("tls-certificate"), options.text("tls-key")) {
    case (nil, nil): return nil
    case (.some, nil): throw ExitError(.configuration, "--tls-certificate needs --tls-key.")
    case (nil, .some): throw ExitError(.configuration, "--tls-key needs --tls-certificate.")
    case (.some(let path), .some(let key)):
      do throws(TLSCertificate.Problem) {
        let certificate = try TLSCertificate(
          certificate: path, key: key,
          observe: { renewal in
            switch renewal {
            case .renewed: log.info("certificate renewed", ["file": .text(path)])
            case .refused(let problem): log.error("certificate not renewed", ["reason": .text(problem.description)])
            }
          })
        if certificate.isKeyExposed {
          log.warning("everybody on this machine may read the TLS key", ["file": .text(key)])
        }
        return certificate
      } catch {
        throw ExitError(.configuration, error.description)
      }
    }
  }
}

extension Log {
  /// Logs the number of connections when it is lower than wanted.
  public func connectionLimit(of server: HTTPServer, wanted: Int) {
    guard server.connectionLimit < wanted else { return }
    info(
      "open files limit connections",
      [
        "connections": .integer(Int64(server.connectionLimit)), "wanted": .integer(Int64(wanted)),
        "files": .integer(Int64(clamping: ProcessStatus.fileLimit)),
      ])
  }
}

extension Metrics {
  /// Adds the counts of a server that clients reach.
  public func addClients(of server: HTTPServer) {
    let connections = Description("http_connections", "Open connections, idle ones included.")
    let received = Description("http_request_body_bytes_total", "Bytes of requests' bodies.", .counter)
    let sent = Description("http_response_body_bytes_total", "Bytes of answers' bodies.", .counter)
    let bodies = Description("http_held_body_bytes", "Bytes of requests' bodies in memory.")
    let answers = Description("http_held_answer_bytes", "Bytes of answers that clients have not taken yet.")
    let pressed = Description(
      "http_connections_pressed_out_total", "Idle connections closed because nearly all places were taken.", .counter)
    collect(
      "http_clients_refused_total", "Requests and connections refused for lack of room, by the kind of room.",
      kind: .counter
    ) { [weak server] in
      let refusals = server?.refusals ?? [:]
      return ClientRefusal.allCases.map { Sample(Double(refusals[$0] ?? 0), labels: [("room", $0.rawValue)]) }
    }
    collect([connections, received, sent, bodies, answers, pressed]) { [weak server] in
      var readings = Readings()
      guard let server else { return readings }
      let traffic = server.traffic
      readings[connections.name] = Double(server.connectionCount)
      readings[received.name] = Double(traffic.received)
      readings[sent.name] = Double(traffic.sent)
      let held = server.heldByteCounts
      readings[bodies.name] = Double(held.bodies)
      readings[answers.name] = Double(held.answers)
      readings[pressed.name] = Double(server.pressedOutCount)
      return readings
    }
  }
}
