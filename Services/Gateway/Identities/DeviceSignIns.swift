// `POST /identity/1/…/device` and `…/token`: a device without a keyboard is signed in (RFC 8628).

import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  private static let deviceGrantType = "urn:ietf:params:oauth:grant-type:device_code"
  private static let nameByteLimit = 60
  /// A kept session lives this long without being used. Unit: seconds.
  private static let sessionTime: Int64 = 14 * 86_400

  /// Takes a form with `device_name`, and answers with the two codes.
  func beginDevice(_ exchange: IncomingRequest, _ address: Address) async throws(RecordError) -> HTTPResponse {
    let (container, environment) = try appPlace(exchange, address)
    guard let grant = exchange.authentication?.reply.grant, exchange.credentials.apiToken != nil else {
      throw RecordError(.authenticationFailed, "The request has no API token: send ckAPIToken")
    }
    let request = exchange.request
    guard let fields = FormBody(request.body) else { return Self.oauthError("invalid_request", "The body is no form") }
    let name = fields["device_name"].flatMap { $0.isEmpty ? nil : $0 }
    if let name, !Self.isDeviceName(name) {
      return Self.oauthError(
        "invalid_request", "device_name is not a text of at most \(Self.nameByteLimit) bytes in one line")
    }
    let source = request.signInSource(.device)
    let reply = try await share.call(
      BeginDeviceSignIn(
        container: container, environment: environment, grant: grant,
        source: SignInSource(way: .device, address: source.address, client: name ?? source.client)))
    guard let deviceCode = reply.deviceCode, let userCode = reply.userCode else {
      throw RecordError(.throttled, "Too many devices wait for a sign-in", retryAfter: 60)
    }
    let page = options.publicAddress.url(for: request)
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("device_code", deviceCode)
    writer.member("user_code", userCode.shown)
    writer.member("verification_uri", page + DevicePage.path)
    writer.member("verification_uri_complete", page + DevicePage.address(userCode))
    writer.member("expires_in", BeginDeviceSignIn.lifetime / 1000)
    writer.member("interval", BeginDeviceSignIn.interval / 1000)
    writer.endObject()
    return Self.unstored(200, writer.bytes)
  }

  /// Takes a form with `grant_type` and `device_code`, and answers with the token once somebody has allowed it.
  func deviceToken(_ exchange: IncomingRequest, _ address: Address) async throws(RecordError) -> HTTPResponse {
    let (container, environment) = try appPlace(exchange, address)
    guard let fields = FormBody(exchange.request.body), let code = fields["device_code"], !code.isEmpty else {
      return Self.oauthError("invalid_request", "device_code is missing")
    }
    guard fields["grant_type"] == Self.deviceGrantType else {
      return Self.oauthError("unsupported_grant_type", "grant_type is not \(Self.deviceGrantType)")
    }
    let reply = try await share.call(
      PollDeviceSignIn(container: container, environment: environment, deviceCode: code))
    switch reply {
    case .pending: return Self.oauthError("authorization_pending", "Nobody has allowed the code yet")
    case .slowDown: return Self.oauthError("slow_down", "From now on wait 5 seconds longer between two questions")
    case .refused: return Self.oauthError("access_denied", "The person has turned the device away")
    case .expired: return Self.oauthError("expired_token", "The code is unknown, too old, or used")
    case .signedIn(let token):
      var writer = JSONWriter()
      writer.beginObject()
      writer.member("access_token", token)
      writer.member("token_type", "Bearer")
      writer.member("expires_in", Self.sessionTime)
      writer.endObject()
      return Self.unstored(200, writer.bytes)
    }
  }

  private func appPlace(_ exchange: IncomingRequest, _ address: Address) throws(RecordError) -> (
    ContainerID, Environment
  ) {
    try take(.address(exchange.request.clientNetwork))
    guard let container = address.container, let environment = address.environment else {
      throw RecordError(.badRequest, "The path names no container")
    }
    return (container, environment)
  }

  private static func isDeviceName(_ text: String) -> Bool {
    text.utf8.count <= nameByteLimit && text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f }
  }

  /// An error as RFC 6749, 5.2 has it, which clients of OAuth read.
  static func oauthError(_ code: String, _ description: String) -> HTTPResponse {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("error", code)
    writer.member("error_description", description)
    writer.endObject()
    return unstored(400, writer.bytes)
  }

  private static func unstored(_ status: Int, _ bytes: [UInt8]) -> HTTPResponse {
    HTTPResponse(
      status: status, headers: [ErrorAnswer.jsonHeader, ("Cache-Control", "no-store")], body: .bytes(bytes))
  }
}
