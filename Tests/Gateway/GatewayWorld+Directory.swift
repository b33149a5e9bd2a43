// The tests' share service: providers of identities, and devices that vendors wake.

import Records
import ServiceBus
import Synchronization

extension GatewayWorld {
  /// Registrations that the gateway made, and those that it ended.
  struct Pushes: Sendable {
    var made: [RegisterForPush] = []
    var ended: [UnregisterFromPush] = []
    /// False: the container has no push service.
    var isServed = true
  }

  var pushRegistrations: [RegisterForPush] { record.withLock(\.pushes.made) }
  var pushEnds: [UnregisterFromPush] { record.withLock(\.pushes.ended) }
  func refusePushes() { record.withLock { $0.pushes.isServed = false } }

  static func serveIdentities(in share: inout BusHandlers, _ relay: Relay) {
    share.on(FetchIdentityProviders.self) { message, _, _ in
      let providers = relay.world.record.withLock { record in
        record.providerQuestions.append(message.container)
        return record.providers
      }
      guard let providers else {
        throw BusError(.unknownMessage, "no such message")
      }
      return Answer(FetchIdentityProviders.Reply(providers: providers))
    }
    share.on(SignInByIdentity.self) { message, _, _ in
      Answer(try relay.world.answer(to: message, nil))
    }
    share.on(SignInByIdentityOnce.self) { message, _, _ in
      guard relay.world.record.withLock(\.claimsWithSession) else {
        throw BusError(.unknownMessage, "no such message")
      }
      return Answer(try relay.world.answer(to: message.signIn, message.claim))
    }
  }

  private func answer(to signIn: SignInByIdentity, _ claim: ClaimSignature?) throws -> SignInByIdentity.Reply {
    let (failure, reply) = record.withLock { record -> (BusError.Code?, SignInByIdentity.Reply) in
      let reply = SignInByIdentity.Reply(webAuthToken: "ses_new", userRecordName: "_alice", userName: "alice")
      if let failure = record.identityFailures.popLast() { return (failure, reply) }
      if let claim {
        if record.claims[claim.digest] != nil { return (nil, SignInByIdentity.Reply(refusal: .used)) }
        record.claims[claim.digest] = claim.requestID
      }
      record.identitySignIns.append(signIn)
      return (nil, record.identityRefusal.map { SignInByIdentity.Reply(refusal: $0) } ?? reply)
    }
    if let failure { throw BusError(failure, "no") }
    return reply
  }

  static func serveSignInAudit(in share: inout BusHandlers, _ relay: Relay) {
    share.on(NoteRefusedSignIn.self) { message, _, _ in
      relay.world.record.withLock { $0.refusedSignIns.append(message) }
      return Answer(Acknowledgement())
    }
  }

  static func serveAccounts(in share: inout BusHandlers, _ relay: Relay) {
    share.on(UseAccount.self) { message, _, _ in
      Answer(
        relay.world.record.withLock { record in
          record.accountUses.append(message)
          if let wait = record.accountWait { return UseAccount.Reply(retryAfter: wait) }
          return UseAccount.Reply(account: record.account, refusal: record.accountRefusal)
        })
    }
    share.on(StopMail.self) { message, _, _ in
      relay.world.record.withLock { $0.stoppedMail.append(message.emailAddress) }
      return Answer(Acknowledgement())
    }
  }

  static func serveDevices(in share: inout BusHandlers, _ relay: Relay) {
    share.on(BeginDeviceSignIn.self) { message, _, _ in
      relay.world.record.withLock { $0.deviceBeginnings.append(message) }
      return Answer(BeginDeviceSignIn.Reply(deviceCode: "device-1", userCode: UserCode("WDJBMJHT")))
    }
    share.on(PollDeviceSignIn.self) { message, _, _ in
      Answer(message.deviceCode == "device-1" ? relay.world.record.withLock(\.devicePoll) : .expired)
    }
    share.on(LookUpDeviceSignIn.self) { message, _, _ in
      guard message.userCode.shown == "WDJB-MJHT", let container = ContainerID(rawValue: Self.container) else {
        return Answer(LookUpDeviceSignIn.Reply(retryAfter: message.userCode.letters == "BBBBBBBB" ? 30 : nil))
      }
      return Answer(
        LookUpDeviceSignIn.Reply(
          device: LookUpDeviceSignIn.Device(
            container: container, environment: .development, grant: "app", name: "<i>Living room", address: "192.0.2.9",
            created: 1_699_999_940_000)))
    }
  }

  static func serveLogouts(in share: inout BusHandlers, _ relay: Relay) {
    share.on(EndIdentitySessions.self) { message, _, _ in
      let isFresh = relay.world.record.withLock { record in
        guard record.claims.updateValue(message.claim.requestID, forKey: message.claim.digest) == nil else {
          return false
        }
        record.logouts.append(message)
        return true
      }
      return Answer(EndIdentitySessions.Reply(isFresh: isFresh))
    }
  }

  static func servePasskeys(in share: inout BusHandlers, _ relay: Relay) {
    share.on(SignInByPasskey.self) { message, _, _ in
      relay.world.record.withLock { $0.passkeySignIns.append(message) }
      guard message.assertion.credentialID == [1] else { return Answer(SignInByPasskey.Reply()) }
      return Answer(SignInByPasskey.Reply(webAuthToken: "ses_new", userName: "alice"))
    }
  }

  static func servePushes(in share: inout BusHandlers, _ relay: Relay) {
    share.on(RegisterForPush.self) { message, _, _ in
      let isServed = relay.world.record.withLock { record in
        if record.pushes.isServed { record.pushes.made.append(message) }
        return record.pushes.isServed
      }
      return Answer(RegisterForPush.Reply(isServed: isServed, isChanged: isServed))
    }
    share.on(UnregisterFromPush.self) { message, _, _ in
      relay.world.record.withLock { $0.pushes.ended.append(message) }
      return Answer(Acknowledgement())
    }
    share.on(FetchApplicationServerKey.self) { _, _, _ in
      let isServed = relay.world.record.withLock(\.pushes.isServed)
      return Answer(FetchApplicationServerKey.Reply(key: isServed ? [4, 7, 7] : nil))
    }
  }
}
