// Custom roles and quotas of users over HTTP.

import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET` (with `?container=` of one container), `POST {"container","environment","user","role"}`, `DELETE
  /// /{container}/{environment}/{role}/{user}`.
  func roles(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let container = try request.query["container"].map { name throws(RecordError) in try Self.container(name) }
      let rows = try await directory.roles(in: container)
      return OperatorAnswer(list: "roles", rows) { row, writer in
        writer.member("container", row.container.rawValue)
        writer.member("environment", row.environment.rawValue)
        writer.member("role", row.role)
        writer.member("user", row.user)
        writer.member("userRecordName", row.userRecordName)
        writer.member("granted", row.granted)
      }
    case ("POST", 0):
      let object = try RequestObject(request.body, keys: "container", "environment", "user", "role")
      let key = try Self.environment(try object.required("container"), try object.required("environment"))
      let (user, role) = (try object.required("user"), try object.required("role"))
      try await directory.grantRole(role, toUser: user, key)
      await publish(DirectoryChanged(credentials: true, schemas: [key.description]))
      return Self.answer(user, role, key, "granted")
    case ("DELETE", 4):
      let key = try Self.environment(request.rest[0], request.rest[1])
      try await directory.revokeRole(request.rest[2], ofUser: request.rest[3], key)
      await publish(DirectoryChanged(credentials: true, schemas: [key.description]))
      return Self.answer(request.rest[3], request.rest[2], key, "revoked")
    default: throw Self.noSuchCall(request)
    }
  }

  private static func answer(_ user: String, _ role: String, _ key: EnvironmentKey, _ done: String) -> OperatorAnswer {
    OperatorAnswer { writer in
      writer.member("user", user)
      writer.member("container", key.container.rawValue)
      writer.member("environment", key.environment.rawValue)
      writer.member("role", role)
      writer.member(done, true)
    }
  }

  /// `PUT /{name}/quota {"bytes"}`: 0 for no limit, null for the workers' configured limit.
  func setQuota(_ request: Request) async throws -> OperatorAnswer {
    let byteCount = try RequestObject(request.body, keys: "bytes").byteCount("bytes")
    let recordName = try await directory.setQuota(byteCount, ofUser: request.rest[0])
    await publish(DirectoryChanged(credentials: true, schemas: []))
    return OperatorAnswer { writer in
      writer.member("userRecordName", recordName)
      writer.key("quotaBytes")
      if let byteCount { writer.integer(byteCount) } else { writer.null() }
    }
  }
}
