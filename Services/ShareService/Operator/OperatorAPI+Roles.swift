// Roles and quotas of users over HTTP: custom roles of a schema, and the roles of operators and developers.

import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET` (with `?container=` of one container), `POST {"container","environment","user","role"}`, `DELETE
  /// /{container}/{environment}/{role}/{user}`. A developer's role has no environment, an operator's no container
  /// either.
  func roles(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let container = try request.query["container"].map { name throws(RecordError) in try Self.container(name) }
      let rows = try await directory.roles(in: container)
      let staff = try await directory.staffRoles(in: container)
      return OperatorAnswer(list: "roles", staff.map(ShownRole.init) + rows.map(ShownRole.init)) { $0.write(to: &$1) }
    case ("POST", 0):
      let object = try RequestObject(request.body, keys: "container", "environment", "user", "role")
      guard object.has("environment") else {
        let container = try object.has("container") ? Self.container(try object.required("container")) : nil
        return try await changeStaffRole(
          try object.required("role"), of: container, user: try object.required("user"), isGranted: true)
      }
      let key = try Self.environment(try object.required("container"), try object.required("environment"))
      let (user, role) = (try object.required("user"), try object.required("role"))
      try await directory.grantRole(role, toUser: user, key)
      await publish(DirectoryChanged(credentials: true, schemas: [key.description]))
      return Self.answer(user, role, key, "granted")
    case ("DELETE", 2):
      return try await changeStaffRole(request.rest[0], of: nil, user: request.rest[1], isGranted: false)
    case ("DELETE", 3):
      return try await changeStaffRole(
        request.rest[1], of: try Self.container(request.rest[0]), user: request.rest[2], isGranted: false)
    case ("DELETE", 4):
      let key = try Self.environment(request.rest[0], request.rest[1])
      try await directory.revokeRole(request.rest[2], ofUser: request.rest[3], key)
      await publish(DirectoryChanged(credentials: true, schemas: [key.description]))
      return Self.answer(request.rest[3], request.rest[2], key, "revoked")
    default: throw Self.noSuchCall(request)
    }
  }

  private func changeStaffRole(_ role: String, of container: ContainerID?, user: String, isGranted: Bool) async throws
    -> OperatorAnswer
  {
    let expected: StaffMember.Role = container == nil ? .operator : .developer
    guard role == expected.rawValue else {
      throw RecordError(
        .badRequest,
        "A role without an environment is 'operator', or 'developer' of a container; '\(role)' needs an environment")
    }
    if isGranted {
      try await directory.grantStaffRole(toUser: user, of: container)
    } else {
      try await directory.revokeStaffRole(ofUser: user, of: container)
    }
    await publish(DirectoryChanged(credentials: true, schemas: []))
    return OperatorAnswer { writer in
      writer.member("user", user)
      if let container { writer.member("container", container.rawValue) }
      writer.member("role", role)
      writer.member(isGranted ? "granted" : "revoked", true)
    }
  }

  /// A row of the list, of either kind of role.
  private struct ShownRole {
    let role: String
    let user: String
    let userRecordName: String
    let container: ContainerID?
    let environment: Environment?
    let granted: Int64

    init(_ row: Directory.RoleRow) {
      (role, user, userRecordName) = (row.role, row.user, row.userRecordName)
      (container, environment, granted) = (row.container, row.environment, row.granted)
    }

    init(_ row: Directory.StaffRoleRow) {
      (role, user, userRecordName) = (row.role.rawValue, row.user, row.userRecordName)
      (container, environment, granted) = (row.container, nil, row.granted)
    }

    func write(to writer: inout JSONWriter) {
      if let container { writer.member("container", container.rawValue) }
      if let environment { writer.member("environment", environment.rawValue) }
      writer.member("role", role)
      writer.member("user", user)
      writer.member("userRecordName", userRecordName)
      writer.member("granted", granted)
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
