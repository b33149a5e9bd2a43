// Lists, shows and deletes users over HTTP.

import JSON
import Records
import ServiceBus
import ServiceKit

extension OperatorAPI {
  /// With `usage` also the usage of each user's databases; with `container` only users with data in it, and their usage
  /// there. `search` finds a part of a name or an address; `after` and `limit` ask for a page.
  func listUsers(_ request: Request) async throws -> OperatorAnswer {
    var query: [String: String] = [:]
    if let container = request.query["container"] { query["container"] = try Self.container(container).rawValue }
    let limit = try request.query["limit"] == nil ? nil : request.limit(maximum: Self.userPage)
    let counts = request.flag("usage") || !query.isEmpty
    let usage = counts ? await usage(query) : Usage()
    let rows = Dictionary(grouping: usage.rows, by: \.owner)
    let matching = try await users(after: request.query["after"] ?? "", limit: limit.map { $0 + 1 } ?? .max) { user in
      (query.isEmpty || rows[user.recordName] != nil) && Self.matches(user, request.query["search"])
    }
    let shown = matching.prefix(limit ?? .max)
    return OperatorAnswer { writer in
      writer.key("users")
      writer.beginArray()
      for user in shown {
        writer.beginObject()
        Self.write(user, to: &writer)
        if counts { Self.write(Usage(rows: rows[user.recordName] ?? []), to: &writer) }
        writer.endObject()
      }
      writer.endArray()
      if usage.isPartial { writer.member("isPartial", true) }
      if shown.count < matching.count, let last = shown.last { writer.member("after", last.name) }
    }
  }

  private static let userPage = 1000

  /// The first users that match, page by page: a list that needs few of them reads few.
  private func users(after name: String, limit: Int, where isWanted: (User) -> Bool) async throws -> [User] {
    var (found, last) = ([User](), name)
    while found.count < limit, case let page = try await directory.users(after: last, limit: Self.userPage),
      let end = page.last?.name
    {
      found += page.filter(isWanted).prefix(limit - found.count)
      last = end
    }
    return found
  }

  private static func matches(_ user: User, _ search: String?) -> Bool {
    guard let search = search?.lowercased(), !search.isEmpty else { return true }
    return [user.name, user.recordName, user.emailAddress, user.phoneNumber, user.givenName, user.familyName].contains {
      $0?.lowercased().contains(search) == true
    }
  }

  private static func write(_ usage: Usage, to writer: inout JSONWriter) {
    writer.member("bytes", usage.bytes)
    writer.member("records", usage.records)
    writer.member("databases", usage.databases)
  }

  private static func write(_ user: User, to writer: inout JSONWriter) {
    writer.member("name", user.name)
    writer.member("userRecordName", user.recordName)
    if let address = user.emailAddress { writer.member("email", address) }
    if let number = user.phoneNumber { writer.member("phone", number) }
    if let name = user.givenName { writer.member("givenName", name) }
    if let name = user.familyName { writer.member("familyName", name) }
    writer.member("disabled", user.isDisabled)
    writer.member("discoverable", user.isDiscoverable)
    writer.member("password", user.hasPassword)
  }

  /// Everything known about a user; with `brief` only their identity.
  func showUser(_ request: Request) async throws -> OperatorAnswer {
    let name = request.rest[0]
    guard try await directory.userExists(name) else {
      guard let (departure, isRemoving) = try await directory.shownDeparture(of: name) else {
        throw RecordError(.notFound, "There is no user '\(name)'")
      }
      return Self.answer(departure, isRemoving: isRemoving)
    }
    let recordName = try await directory.recordName(ofUser: name)
    guard let user = try await directory.user(recordName: recordName) else {
      throw RecordError(.notFound, "There is no user '\(name)'")
    }
    if request.flag("brief") { return OperatorAnswer { Self.write(user, to: &$0) } }
    let holdings = try await directory.holdings(ofUser: recordName)
    let usage = await usage(["owner": recordName])
    let shares = await shares(of: recordName)
    return OperatorAnswer { writer in
      Self.write(user, to: &writer)
      writer.key("quota")
      if let quota = holdings.quotaByteCount { writer.integer(quota) } else { writer.null() }
      usage.write(to: &writer)
      writer.member("tokens", holdings.tokenCount)
      writer.member("sessions", holdings.sessionCount)
      writer.member("registrations", holdings.registrationCount)
      writer.member("keys", holdings.keyCount)
      writer.member("shares", shares.count)
      writer.member("sharedWith", shares.memberCount)
      Self.write(usage.rows, to: &writer)
      Self.write(holdings.memberships, to: &writer)
    }
  }

  private static func write(_ rows: [Usage.Row], to writer: inout JSONWriter) {
    writer.key("holds")
    writer.beginArray()
    for row in rows {
      writer.beginObject()
      writer.member("container", row.container)
      writer.member("environment", row.environment)
      writer.member("bytes", row.byteCount)
      writer.member("records", row.recordCount)
      writer.member("zones", row.zoneCount)
      writer.endObject()
    }
    writer.endArray()
  }

  private static func write(_ memberships: [UserHoldings.Membership], to writer: inout JSONWriter) {
    writer.key("memberships")
    writer.beginArray()
    for one in memberships {
      writer.beginObject()
      writer.member("container", one.container)
      writer.member("environment", one.environment)
      writer.member("owner", one.owner)
      writer.member("zone", one.zoneName)
      writer.endObject()
    }
    writer.endArray()
  }

  /// The number of shares that the user owns, and of other users with access through them.
  private func shares(of recordName: String) async -> (count: Int, memberCount: Int64) {
    // Without a list there is nothing to count; `isPartial` of the usage tells that a worker did not answer.
    let rows = await list("shares", ["owner": recordName])?.rows ?? []
    return (rows.count, rows.reduce(0) { $0 + ($1["members"]?.int64 ?? 0) })
  }

  /// Ends the user's credentials and sessions at once. Their data are removed later.
  func deleteUser(_ request: Request) async throws -> OperatorAnswer {
    let departure = try await directory.deleteUser(request.rest[0])
    await publish(DirectoryChanged(credentials: true, schemas: []))
    removals.notice()
    log.info("a user was deleted", ["user": .text(departure.recordName)])
    let isRemoving = try await directory.shownDeparture(of: departure.recordName)?.isRemoving ?? true
    return Self.answer(departure, isRemoving: isRemoving)
  }

  private static func answer(_ departure: Departure, isRemoving: Bool) -> OperatorAnswer {
    OperatorAnswer { writer in
      writer.member("name", departure.name)
      writer.member("userRecordName", departure.recordName)
      writer.member("state", isRemoving ? "removing" : "removed")
      writer.member("deleted", departure.requested)
    }
  }
}
