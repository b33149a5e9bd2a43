// The console's HTTP: one request, one answer.

import HTTPClient

/// Sends requests; tests replace it.
struct HTTPSender: Sendable {
  struct Answer: Hashable, Sendable {
    let status: Int
    let body: [UInt8]
    /// The address to which the answer leads, if any.
    var location: String?
  }

  struct Failure: Error, Hashable {
    let reason: String
    var security: HTTPClientError.Security?
    /// The connection was made, but no HTTP answer came.
    var isLost = false

    /// A suggestion for the user; nil when the reason suffices.
    func hint(for server: String) -> String? {
      switch security {
      case .untrusted:
        return
          """
          Its certificate is not trusted. If it is your own, name it or its authority: \
          AQUIFER_CERTIFICATE_AUTHORITY=FILE.pem
          """
      case .badAuthorities: return "AQUIFER_CERTIFICATE_AUTHORITY must name a file of certificates in PEM"
      case .noTLS where server.hasPrefix("https://"):
        return "If it does not speak TLS, use http://\(server.dropFirst("https://".count)) (--server, AQUIFER_SERVER)"
      case nil where isLost && server.hasPrefix("http://"):
        return "If it speaks TLS, use https://\(server.dropFirst("http://".count)) (--server, AQUIFER_SERVER)"
      default: return nil
      }
    }
  }

  typealias Sending =
    @Sendable (
      _ method: String, _ url: String, _ headers: [(name: String, value: String)], _ body: [UInt8], _ limit: Duration
    ) async -> Result<Answer, Failure>

  /// Time for an operator's call.
  static let callLimit: Duration = .seconds(60)
  /// Time for a look at the installation: the operator should learn soon that it does not answer.
  static let viewLimit: Duration = .seconds(10)

  let exchange: Sending

  func send(_ call: AdminCall, to server: String, token: String?, within limit: Duration = Self.callLimit)
    async throws(Failure) -> Answer
  {
    let headers = token.map { [(name: "Authorization", value: "Bearer \($0)")] } ?? []
    return try await exchange(call.method, server + call.target, headers, call.body, limit).get()
  }

  func get(_ url: String, within limit: Duration) async throws(Failure) -> Answer {
    try await exchange("GET", url, [], [], limit).get()
  }

  /// Sends requests over the network.
  /// - Parameter certificateAuthorityFile: a PEM file of the authorities to trust instead of the system's; nil: the
  ///   system's.
  static func standard(trusting certificateAuthorityFile: String?) -> HTTPSender {
    let client = HTTPClient(certificateAuthorityFile: certificateAuthorityFile)
    return HTTPSender { method, url, headers, body, limit in
      do throws(HTTPClientError) {
        let headers = headers.map { HTTPClient.Header($0.name, $0.value) }
        let response = try await client.send(
          method, url, headers: headers, body: body.isEmpty ? nil : body, timeout: limit)
        return .success(Answer(status: response.status, body: response.body, location: response["location"]))
      } catch {
        return .failure(Failure(reason: error.reason, security: error.security, isLost: error.kind == .lost))
      }
    }
  }
}
