// Users and their passwords over HTTP.

import Crypto
import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET` with `usage` and `container`, `GET /{name}` with `brief`, `DELETE /{name}`,
  /// `POST {"name","email","phone","givenName","familyName","password","discoverable"}`, `POST /{name}` with the
  /// changes,
  /// `POST /{name}/password {"password"}`, `POST /{name}/disable`, `POST /{name}/enable`, `POST /{name}/sign-out`,
  /// `POST /{name}/tokens`, `PUT /{name}/quota`.
  func users(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count, request.rest.last) {
    case ("GET", 0, _): return try await listUsers(request)
    case ("GET", 1, _): return try await showUser(request)
    case ("DELETE", 1, _): return try await deleteUser(request)
    case ("POST", 0, _):
      let user = try await newUser(request.body)
      let (recordName, token) = try await directory.createUser(user)
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("userRecordName", recordName)
        writer.member("webAuthToken", token)
      }
    case ("POST", 1, _):
      let recordName = try await directory.updateUser(request.rest[0], try Self.userChange(request.body))
      return OperatorAnswer { $0.member("userRecordName", recordName) }
    case ("POST", 2, "password"):
      let password = try Self.password(try RequestObject(request.body, keys: "password"))
      guard let password else { throw RecordError(.badRequest, "'password' is missing") }
      let recordName = try await directory.setPassword(ofUser: request.rest[0], hash: try await hash(password))
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("userRecordName", recordName) }
    case ("POST", 2, "disable"):
      let recordName = try await directory.disableUser(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("userRecordName", recordName)
        writer.member("disabled", true)
      }
    case ("POST", 2, "enable"):
      let recordName = try await directory.enableUser(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("userRecordName", recordName)
        writer.member("disabled", false)
      }
    case ("POST", 2, "sign-out"):
      let recordName = try await directory.signOut(user: request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("userRecordName", recordName)
        writer.member("signedOut", true)
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

  private func newUser(_ body: [UInt8]) async throws -> NewUser {
    let object = try RequestObject(
      body, keys: "name", "email", "phone", "givenName", "familyName", "password", "discoverable")
    let name = try object.required("name")
    guard !name.hasPrefix("_") else {
      throw RecordError(.badRequest, "A user's name can't begin with '_', because record names do")
    }
    guard name.first != " ", name.last != " " else {
      throw RecordError(.badRequest, "A user's name can't begin or end with a space")
    }
    var user = NewUser(
      name: name, emailAddress: try Self.emailAddress(object), phoneNumber: try Self.phoneNumber(object),
      givenName: try object.text("givenName"),
      familyName: try object.text("familyName"), isDiscoverable: try object.flag("discoverable") ?? false)
    // Last, because hashing a password takes long.
    if let password = try Self.password(object) { user.passwordHash = try await hash(password) }
    return user
  }

  private static func userChange(_ body: [UInt8]) throws(RecordError) -> UserChange {
    let object = try RequestObject(body, keys: "email", "phone", "givenName", "familyName", "discoverable")
    return UserChange(
      emailAddress: try emailAddress(object), phoneNumber: try phoneNumber(object),
      givenName: try object.text("givenName"),
      familyName: try object.text("familyName"), isDiscoverable: try object.flag("discoverable"))
  }

  static func emailAddress(_ object: RequestObject) throws(RecordError) -> String? {
    let address = try object.text("email")
    if let address, address.split(separator: "@", omittingEmptySubsequences: false).map(\.isEmpty) != [false, false] {
      throw RecordError(.badRequest, "'email' is not an e-mail address")
    }
    return address
  }

  private static func phoneNumber(_ object: RequestObject) throws(RecordError) -> PhoneNumber? {
    guard let text = try object.text("phone") else { return nil }
    guard let number = PhoneNumber(text) else {
      throw RecordError(.badRequest, "'phone' is not a telephone number, such as +44 20 7946 0000")
    }
    return number
  }

  /// The password's bytes; nil when absent.
  private static func password(_ object: RequestObject) throws(RecordError) -> [UInt8]? {
    guard let password = try object.text("password", limit: PasswordHasher.byteLimit) else { return nil }
    let bytes = PasswordText.bytes(of: password)
    guard (PasswordHasher.leastByteCount...PasswordHasher.byteLimit).contains(bytes.count) else {
      throw RecordError(
        .badRequest,
        "'password' must have at least \(PasswordHasher.leastByteCount) bytes and at most \(PasswordHasher.byteLimit)")
    }
    return bytes
  }

  private func hash(_ password: [UInt8]) async throws(RecordError) -> String {
    let hash: String?
    do throws(PasswordHasher.Overloaded) {
      hash = try await passwords.make(password)
    } catch {
      throw RecordError(.throttled, "Too many passwords are being hashed", retryAfter: 5)
    }
    guard let hash else {
      throw RecordError(
        .internalError,
        """
        The share service lacks the memory to hash the password (\(passwords.cost.byteCount >> 20) MiB); nothing changed
        """
      )
    }
    return hash
  }
}
