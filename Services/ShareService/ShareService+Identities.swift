// The gateways' messages about providers of identities and the people whom they identified.

import ServiceBus
import ServiceKit

extension ShareService {
  func registerIdentities(in handlers: inout BusHandlers) {
    let (directory, announcer, log) = (directory, announcer, log)
    handlers.on(FetchIdentityProviders.self) { message, _, _ in
      let rows = try await Self.answering(log) { try await directory.identityProviders(of: message.container) }
      return Answer(FetchIdentityProviders.Reply(providers: rows.map(\.entry)))
    }
    handlers.on(SignInByIdentity.self) { message, _, _ in
      let reply = try await Self.answering(log) { try await directory.signIn(message) }
      Self.tell(reply, to: message, log)
      return Answer(reply)
    }
    handlers.on(SignInByIdentityOnce.self) { message, _, _ in
      let reply = try await Self.answering(log) { try await directory.signIn(message.signIn, claim: message.claim) }
      Self.tell(reply, to: message.signIn, log)
      return Answer(reply)
    }
    handlers.on(UseAccount.self) { [signIns] message, _, _ in
      let reply = try await Self.answering(log) { try await signIns.use(message) }
      if message.act.endsSessions { await announcer.announce(DirectoryChanged(credentials: true, schemas: [])) }
      if case .link(let provider, _) = message.act {
        log.info(
          "identity linked",
          [
            "provider": .text(provider), "user": .text(message.userRecordName),
            "refusal": .text(reply.account == nil ? "session" : reply.refusal?.rawValue ?? "none"),
          ])
      }
      return Answer(reply)
    }
    handlers.on(BeginDeviceSignIn.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.begin(message) })
    }
    handlers.on(LookUpDeviceSignIn.self) { [signIns] message, _, _ in
      Answer(try await Self.answering(log) { try await signIns.lookUp(message) })
    }
    handlers.on(PollDeviceSignIn.self) { [signIns] message, _, _ in
      Answer(try await Self.answering(log) { try await signIns.poll(message) })
    }
    handlers.on(EndIdentitySessions.self) { message, _, _ in
      let count = try await Self.answering(log) { try await directory.end(message) }
      if let count, count > 0 { await announcer.announce(DirectoryChanged(credentials: true, schemas: [])) }
      return Answer(EndIdentitySessions.Reply(isFresh: count != nil))
    }
    handlers.on(SignInByPasskey.self) { [signIns] message, _, _ in
      Answer(try await Self.answering(log) { try await signIns.signIn(message) })
    }
    handlers.on(NoteRefusedSignIn.self) { [signIns] message, _, _ in
      try await Self.answering(log) {
        try await signIns.note(
          NotedSignIn(
            source: message.source, container: message.container, environment: message.environment,
            refusal: message.refusal.rawValue))
      }
      return Answer(Acknowledgement())
    }
  }

  private static func tell(_ reply: SignInByIdentity.Reply, to message: SignInByIdentity, _ log: Log) {
    log.info(
      reply.refusal == nil ? "signed in by identity" : "sign-in by identity refused",
      [
        "provider": .text(message.provider), "user": .text(reply.userRecordName ?? "none"),
        "refusal": .text(reply.refusal?.rawValue ?? "none"),
      ])
  }
}
