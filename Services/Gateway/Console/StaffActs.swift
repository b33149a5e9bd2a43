// Operator calls that workers answer: judged by the caller's role, and noted in the audit before they change anything.

import Authentication
import HTTPServer
import Records
import ServiceBus
import WebServices

extension Gateway {
  /// Begins an operator call on a container's data.
  /// - Returns: the act's number in the audit; nil for a call that only reads.
  /// - Throws: `accessDenied` for a developer of other containers; the error of the note, without which nothing
  ///   changes.
  func begin(_ exchange: IncomingRequest, _ caller: Caller, in container: ContainerID, isChange: Bool)
    async throws(RecordError) -> Int64?
  {
    let member = caller.member ?? .tokenHolder
    try Self.expect(member, toSee: container)
    guard isChange else { return nil }
    let request = exchange.request
    let act = NoteAct.Act(
      member, container: container, method: request.method.rawValue, path: request.pathSegments,
      query: Self.query(of: request))
    return try await share.call(NoteAct(act)).number
  }

  /// - Throws: `accessDenied` for a developer of other containers.
  static func expect(_ member: StaffMember, toSee container: ContainerID) throws(RecordError) {
    guard member.maySee(container) else {
      throw RecordError(.accessDenied, "You are not a developer of the container '\(container.rawValue)'")
    }
  }

  /// Carries out a call, and adds its status to the audit.
  func carryOut(_ act: Int64?, _ call: () async throws(RecordError) -> HTTPResponse) async throws(RecordError)
    -> HTTPResponse
  {
    guard let act else { return try await call() }
    do throws(RecordError) {
      let response = try await call()
      await end(act, response.status)
      return response
    } catch {
      await end(act, error.status)
      throw error
    }
  }

  private func end(_ act: Int64, _ status: Int) async {
    // Dropped because the change is made or refused already; its act stays in the audit without a status.
    _ = try? await share.call(EndAct(number: act, status: status))
  }

  /// `/admin/1/as/{user}/…`: a call of either plane on the user's data, with the user's permissions. Of the public
  /// database, the call reads all records.
  func operatorDatabase(_ exchange: IncomingRequest, _ match: RouteMatch, _ address: Address, _ caller: Caller)
    async throws(RecordError) -> HTTPResponse
  {
    guard let route = match.databaseRoute, let container = address.container, let environment = address.environment,
      let user = match.names.first
    else {
      throw RecordError(.internalError, "The route has no database")
    }
    if case .record = route, address.scope == .shared {
      throw RecordError(.badRequest, "Shared records are in their owners' private databases")
    }
    let act = try await begin(exchange, caller, in: container, isChange: !route.isRead)
    return try await carryOut(act) { () async throws(RecordError) in
      // A write for somebody who does not exist would make a database that nobody owns.
      if act != nil { _ = try await share.call(LookUpUser(userRecordName: user)) }
      let standing = try await share.call(
        FetchStanding(userRecordName: user, container: container, environment: environment)
      ).standing
      let reader = Caller(
        userRecordName: user, isOperator: route.plane == .record && address.scope == .public, standing: standing,
        member: caller.member)
      return try await database(exchange, match, address, reader)
    }
  }
}

extension DatabaseRoute {
  /// True if the call only reads, whatever its method.
  fileprivate var isRead: Bool {
    switch self {
    case .record(let route): route.isRead
    case .store(let route, _, _): route.isRead
    case .guest, .zone, .unknown: method == "GET"
    }
  }
}
