// Containers, users, tokens and keys over HTTP.

import Crypto
import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET`, `POST {"container"}`, `DELETE /{id}`.
  func containers(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let rows = try await directory.containers()
      return OperatorAnswer(list: "containers", rows) { row, writer in
        writer.member("container", row.id.rawValue)
        writer.member("created", row.created)
      }
    case ("POST", 0):
      let name = try RequestObject(request.body, keys: "container").required("container")
      guard let id = ContainerID(rawValue: name) else {
        throw RecordError(.badRequest, "'\(name)' is no container ID: 1 to 255 of A-Z a-z 0-9 . _ -, not beginning with a full stop")
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

  private static func environments(of container: ContainerID) -> [String] {
    Environment.allCases.map { EnvironmentKey(container: container, environment: $0).description }
  }

  /// `GET`, `POST {"name","email","givenName","familyName"}`, `POST /{name}/disable`, `POST /{name}/tokens`,
  /// `PUT /{name}/quota`.
  func users(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count, request.rest.last) {
    case ("GET", 0, _):
      return try await listUsers()
    case ("POST", 0, _):
      let user = try Self.newUser(request.body)
      let (recordName, token) = try await directory.createUser(user)
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("userRecordName", recordName)
        writer.member("webAuthToken", token)
      }
    case ("POST", 2, "disable"):
      let recordName = try await directory.disableUser(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("userRecordName", recordName)
        writer.member("disabled", true)
      }
    case ("POST", 2, "tokens"):
      let (recordName, token) = try await directory.createWebAuthToken(forUser: request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("userRecordName", recordName)
        writer.member("webAuthToken", token)
      }
    case ("PUT", 2, "quota"): return try await setQuota(request)
    default: throw Self.noSuchCall(request)
    }
  }

  private func listUsers() async throws -> OperatorAnswer {
    let users = try await directory.users()
    return OperatorAnswer(list: "users", users) { user, writer in
      writer.member("name", user.name)
      writer.member("userRecordName", user.recordName)
      if let address = user.emailAddress { writer.member("email", address) }
      if let name = user.givenName { writer.member("givenName", name) }
      if let name = user.familyName { writer.member("familyName", name) }
      writer.member("disabled", user.isDisabled)
    }
  }

  private static func newUser(_ body: [UInt8]) throws(RecordError) -> NewUser {
    let object = try RequestObject(body, keys: "name", "email", "givenName", "familyName")
    let name = try object.required("name")
    guard !name.hasPrefix("_") else { throw RecordError(.badRequest, "A user's name does not begin with '_': record names do") }
    let address = try object.text("email")
    if let address, address.split(separator: "@", omittingEmptySubsequences: false).map(\.isEmpty) != [false, false] {
      throw RecordError(.badRequest, "'email' is no e-mail address")
    }
    return NewUser(name: name, emailAddress: address, givenName: try object.text("givenName"), familyName: try object.text("familyName"))
  }

  /// `GET`, `POST {"container","environment","allowedOrigins"}`, `DELETE /{token}`.
  func tokens(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let rows = try await directory.apiTokens()
      return OperatorAnswer(list: "tokens", rows) { row, writer in
        writer.member("apiToken", row.beginning + "…")
        writer.member("container", row.container.rawValue)
        writer.member("environment", row.environment.rawValue)
        writer.key("allowedOrigins")
        writer.beginArray()
        for origin in row.allowedOrigins { writer.string(origin) }
        writer.endArray()
        writer.member("created", row.created)
      }
    case ("POST", 0):
      let object = try RequestObject(request.body, keys: "container", "environment", "allowedOrigins")
      let key = try Self.environment(try object.required("container"), try object.required("environment"))
      let origins = try object.texts("allowedOrigins", limit: Self.originLimit)
      for origin in origins where !Self.isOrigin(origin) {
        throw RecordError(.badRequest, "'\(origin)' is no origin: scheme, host and port only, such as https://example.org")
      }
      let token = try await directory.createAPIToken(key.container, key.environment, allowedOrigins: origins)
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

  /// As browsers send it: lower case, without path.
  private static func isOrigin(_ text: String) -> Bool {
    guard let scheme = ["https://", "http://"].first(where: text.hasPrefix) else { return false }
    let host = text.dropFirst(scheme.count)
    return !host.isEmpty && host.utf8.allSatisfy { (0x21...0x7e).contains($0) && !"/?#@\\".utf8.contains($0) }
  }

  /// `GET`, `POST {"container","publicKey","name"}`, `DELETE /{keyID}`.
  func keys(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let rows = try await directory.serverKeys()
      return OperatorAnswer(list: "keys", rows) { row, writer in
        writer.member("keyID", row.keyID)
        writer.member("container", row.container.rawValue)
        if let name = row.name { writer.member("name", name) }
        writer.member("created", row.created)
      }
    case ("POST", 0):
      let object = try RequestObject(request.body, keys: "container", "publicKey", "name")
      let container = try Self.container(try object.required("container"))
      let pem = try object.required("publicKey", limit: Self.pemByteLimit, allowsLines: true)
      guard P256PublicKey(pem: pem) != nil else {
        throw RecordError(.badRequest, "'publicKey' is no ECDSA P-256 public key in PEM (-----BEGIN PUBLIC KEY-----)")
      }
      let keyID = try await directory.addServerKey(container, name: try object.text("name"), pem: pem)
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("keyID", keyID) }
    case ("DELETE", 1):
      try await directory.revokeServerKey(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("revoked", true) }
    default: throw Self.noSuchCall(request)
    }
  }

  private static let pemByteLimit = 4096
}
