// Containers, API tokens and server keys over HTTP.

import Crypto
import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET`, `POST {"container"}`, `POST /{id} {"displayName","appURL"}` with the changes (null removes a text), `DELETE
  /// /{id}`.
  func containers(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let rows = try await directory.containers().filter { request.member.maySee($0.id) }
      return OperatorAnswer(list: "containers", rows) { row, writer in
        writer.member("container", row.id.rawValue)
        Self.write(row.app, to: &writer)
        writer.member("created", row.created)
      }
    case ("POST", 1):
      let id = try Self.container(request.rest[0])
      let app = try await directory.setApp(of: id, try Self.appChange(request.body))
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("container", id.rawValue)
        Self.write(app, to: &writer)
      }
    case ("POST", 0):
      let name = try RequestObject(request.body, keys: "container").required("container")
      guard let id = ContainerID(rawValue: name) else {
        throw RecordError(
          .badRequest,
          "'\(name)' is not a container ID: use 1 to 255 of A-Z a-z 0-9 . _ -, and no full stop at the beginning")
      }
      try await directory.createContainer(id)
      await publish(DirectoryChanged(credentials: true, schemas: Self.environments(of: id)))
      return OperatorAnswer { $0.member("container", name) }
    case ("DELETE", 1):
      let id = try Self.container(request.rest[0])
      try await directory.deleteContainer(id)
      await publish(DirectoryChanged(credentials: true, schemas: Self.environments(of: id)))
      return OperatorAnswer { $0.member("container", id.rawValue) }
    default: throw Self.noSuchCall(request)
    }
  }

  private static func write(_ app: LookUpApp.Reply, to writer: inout JSONWriter) {
    if let name = app.displayName { writer.member("displayName", name) }
    if let url = app.appURL { writer.member("appURL", url) }
  }

  private static func appChange(_ body: [UInt8]) throws(RecordError) -> Directory.AppChange {
    let object = try RequestObject(body, keys: "displayName", "appURL")
    var change = Directory.AppChange()
    if object.has("displayName") {
      change.displayName = .some(try object.text("displayName", limit: AppText.nameByteLimit))
    }
    if object.has("appURL") { change.appURL = .some(try object.text("appURL", limit: urlByteLimit)) }
    if case .some(.some(let name)) = change.displayName, !AppText.isName(name) {
      throw RecordError(.badRequest, "'displayName' \(AppText.nameRule)")
    }
    if case .some(.some(let url)) = change.appURL, !AppText.isAddress(url) {
      throw RecordError(.badRequest, "'appURL' \(AppText.addressRule)")
    }
    return change
  }

  private static func environments(of container: ContainerID) -> [String] {
    Environment.allCases.map { EnvironmentKey(container: container, environment: $0).description }
  }

  /// `GET`, `POST {"container","environment","allowedOrigins","callbackURL"}`, `DELETE /{token}`.
  func tokens(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let rows = try await directory.apiTokens().filter {
        $0.container.rawValue == request.query["container"] ?? $0.container.rawValue
      }
      return OperatorAnswer(list: "tokens", rows) { row, writer in
        writer.member("apiToken", row.beginning + "…")
        writer.member("container", row.container.rawValue)
        writer.member("environment", row.environment.rawValue)
        writer.key("allowedOrigins")
        writer.beginArray()
        for origin in row.allowedOrigins { writer.string(origin) }
        writer.endArray()
        if let url = row.callbackURL { writer.member("callbackURL", url) }
        writer.member("created", row.created)
      }
    case ("POST", 0):
      let object = try RequestObject(request.body, keys: "container", "environment", "allowedOrigins", "callbackURL")
      let key = try Self.environment(try object.required("container"), try object.required("environment"))
      let origins = try object.texts("allowedOrigins", limit: Self.originLimit)
      for origin in origins where !Self.isOrigin(origin) {
        throw RecordError(
          .badRequest, "'\(origin)' is not an origin: give only scheme, host and port, such as https://example.org")
      }
      let callbackURL = try object.text("callbackURL", limit: Self.urlByteLimit)
      if let callbackURL, !CallbackURL.isAcceptable(callbackURL) {
        throw RecordError(.badRequest, "'callbackURL' \(CallbackURL.rule)")
      }
      let token = try await directory.createAPIToken(
        key.container, key.environment, allowedOrigins: origins, callbackURL: callbackURL)
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("apiToken", token) }
    case ("DELETE", 1):
      try await directory.revokeToken(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("revoked", true) }
    default: throw Self.noSuchCall(request)
    }
  }

  private static let originLimit = 100
  private static let urlByteLimit = 2048

  /// True for an origin as browsers send it: scheme and host without a path, in lower case.
  private static func isOrigin(_ text: String) -> Bool {
    guard let scheme = ["https://", "http://"].first(where: text.hasPrefix) else { return false }
    let host = text.dropFirst(scheme.count)
    return !host.isEmpty && host.utf8.allSatisfy { (0x21...0x7e).contains($0) && !"/?#@\\".utf8.contains($0) }
  }

  /// `GET`, `POST {"container","publicKey","name","user"}`, `DELETE /{keyID}`.
  func keys(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let rows = try await directory.serverKeys().filter {
        $0.container.rawValue == request.query["container"] ?? $0.container.rawValue
      }
      return OperatorAnswer(list: "keys", rows) { row, writer in
        writer.member("keyID", row.keyID)
        writer.member("container", row.container.rawValue)
        if let name = row.name { writer.member("name", name) }
        if let name = row.userName { writer.member("user", name) }
        writer.member("created", row.created)
      }
    case ("POST", 0):
      let object = try RequestObject(request.body, keys: "container", "publicKey", "name", "user")
      let container = try Self.container(try object.required("container"))
      let pem = try object.required("publicKey", limit: Self.pemByteLimit, allowsLines: true)
      guard P256PublicKey(pem: pem) != nil else {
        throw RecordError(
          .badRequest, "'publicKey' is not an ECDSA P-256 public key in PEM (-----BEGIN PUBLIC KEY-----)")
      }
      let (keyID, recordName) = try await directory.addServerKey(
        container, name: try object.text("name"), pem: pem, userName: try object.text("user"))
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("keyID", keyID)
        writer.member("userRecordName", recordName)
      }
    case ("DELETE", 1):
      try await directory.revokeServerKey(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("revoked", true) }
    default: throw Self.noSuchCall(request)
    }
  }

  private static let pemByteLimit = 4096
}
