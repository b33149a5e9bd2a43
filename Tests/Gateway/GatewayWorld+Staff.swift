// The tests' share service: members of the staff, and what sessions and grants count.

import Records
import ServiceBus
import Synchronization

extension GatewayWorld {
  /// The sessions of the console that the directory knows.
  func staff(_ token: String?) -> Authenticate.Reply? {
    let containers: [String]?
    switch token {
    case "con_operator": containers = nil
    case "con_developer": containers = [Self.container]
    case "con_other": containers = ["iCloud.org.example.other"]
    default: return nil
    }
    var reply = Authenticate.Reply()
    reply.member =
      record.withLock { $0.staff[token ?? ""] }
      ?? StaffMember(name: String((token ?? "").dropFirst(4)), containers: containers)
    reply.sessionEnd = 1_700_000_000_000 + 28_800_000
    return reply
  }

  static func serveStaff(in share: inout BusHandlers, _ relay: Relay) {
    share.on(OpenConsole.self) { message, _, _ in
      switch message.entry {
      case .operatorToken("operator"): return Answer(OpenConsole.Reply(token: "con_operator"))
      case .user("carol", "right"): return Answer(OpenConsole.Reply(token: "con_developer"))
      case .user(_, "right"): return Answer(OpenConsole.Reply(lacksRole: true))
      case .user(_, "often"): return Answer(OpenConsole.Reply(retryAfter: 120))
      default: return Answer(OpenConsole.Reply())
      }
    }
    share.on(CloseConsole.self) { message, _, _ in
      _ = relay.world.record.withLock { $0.revoked.insert(message.token) }
      return Answer(Acknowledgement())
    }
    share.on(NoteAct.self) { message, _, _ in
      Answer(
        NoteAct.Reply(
          number: relay.world.record.withLock { record in
            record.acts.append(message.act)
            return Int64(record.acts.count)
          }))
    }
    share.on(EndAct.self) { message, _, _ in
      relay.world.record.withLock { $0.actStatuses.append(message.status) }
      return Answer(Acknowledgement())
    }
    share.on(FetchStanding.self) { _, _, _ in Answer(FetchStanding.Reply(standing: UserStanding(roles: ["editors"]))) }
    share.on(OperatorRequest.self) { message, body, _ in
      let (answer, refusal) = relay.world.record.withLock { record in
        record.operatorRequests.append((message, body))
        return (record.operatorAnswer, record.operatorRefusal)
      }
      if let refusal {
        return Answer(OperatorRequest.Reply(status: refusal, contentType: "application/json"), body: Array("{}".utf8))
      }
      if let answer {
        return Answer(OperatorRequest.Reply(status: 200, contentType: "application/json"), body: Array(answer.utf8))
      }
      return Answer(OperatorRequest.Reply(status: 201, contentType: "text/plain"), body: Array("made".utf8))
    }
  }

  static func serveGrants(in share: inout BusHandlers, _ relay: Relay) {
    share.on(VerifyVisit.self) { message, _, _ in
      let (isMissed, count) = relay.world.record.withLock { record in
        let isMissed = record.missedGrantCount > 0
        if isMissed { record.missedGrantCount -= 1 }
        return (isMissed, record.signOutCount)
      }
      if isMissed { throw BusError(.draining, "the share service is about to stop") }
      return Answer(VerifyVisit.Reply(holds: message.signOutCount == count))
    }
    share.on(VerifyGrant.self) { message, _, _ in
      let (isMissed, isRevoked) = relay.world.record.withLock { record in
        let isMissed = record.missedGrantCount > 0
        if isMissed { record.missedGrantCount -= 1 }
        return (isMissed, record.revoked.contains { "grant-" + $0 == message.grant })
      }
      if isMissed { throw BusError(.draining, "the share service is about to stop") }
      return Answer(VerifyGrant.Reply(holds: message.grant.hasPrefix("grant-ses_") && !isRevoked))
    }
  }
}
