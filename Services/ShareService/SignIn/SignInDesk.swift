// Sign-ins: counts attempts, has the password verified, and opens the session.

import Crypto
import Glibc
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Answers `SignIn` and `CheckPassword`. Unknown names, wrong passwords, users without a password and disabled users
/// get the same answer after the same time.
final class SignInDesk: Sendable {
  private let directory: Directory
  private let passwords: PasswordHasher
  private let clock: any WallClock
  private let log: Log
  private let throttle = Mutex(SignInThrottle())
  private let polls = Mutex(DevicePolls())
  private let notes: CommitGroup<NotedSignIn, Void>

  private static let overloadedSeconds = 5

  init(directory: Directory, passwords: PasswordHasher, clock: any WallClock, log: Log) {
    self.directory = directory
    self.passwords = passwords
    self.clock = clock
    self.log = log
    notes = CommitGroup { [directory] signIns in
      try await directory.note(signIns)
      return signIns.map { _ in }
    }
  }

  /// Notes a sign-in that began no session, durably. Attempts that have to wait are not noted: nothing was tried.
  func note(_ signIn: NotedSignIn) async throws { try await notes.commit(signIn) }

  /// - Throws: `notFound` for the container; errors of the directory.
  func signIn(_ message: SignIn) async throws -> SignIn.Reply {
    let grant = message.grant.flatMap { Grant(text: $0) }
    if let hash = grant?.apiToken, try await !directory.isKnown(apiToken: hash, message.container, message.environment)
    {
      return SignIn.Reply(isOver: true)
    }
    let source = SignInSource(way: .password, address: message.clientAddress, client: message.client)
    let outcome = try await look(
      at: Entry(
        name: message.userName, password: message.password, source: source, container: message.container,
        environment: message.environment)
    ) { [directory] known in
      try await directory.createSession(
        forUser: known.key, passwordHash: known.hash, message.container, message.environment, isKept: message.isKept,
        apiToken: grant?.apiToken, from: source)
    }
    switch outcome {
    case .right(let token): return SignIn.Reply(webAuthToken: token)
    case .wrong: return SignIn.Reply()
    case .wait(let seconds): return SignIn.Reply(retryAfter: seconds)
    }
  }

  /// - Throws: errors of the directory.
  func check(_ message: CheckPassword) async throws -> CheckPassword.Reply {
    let source = SignInSource(way: .share, address: message.clientAddress)
    let outcome = try await look(
      at: Entry(name: message.userName, password: message.password, source: source)
    ) { [directory] known in
      try await directory.visitor(known.key, passwordHash: known.hash)
    }
    switch outcome {
    case .right(let visit):
      try await note(NotedSignIn(source: source, user: visit.userRecordName))
      return CheckPassword.Reply(userRecordName: visit.userRecordName, signOutCount: visit.signOutCount)
    case .wrong: return CheckPassword.Reply()
    case .wait(let seconds): return CheckPassword.Reply(retryAfter: seconds)
    }
  }

  /// - Throws: errors of the directory.
  func signIn(_ message: SignInByPasskey) async throws -> SignInByPasskey.Reply {
    let attempt: SignInThrottle.Attempt
    switch begin(.passkey, from: message.source.address) {
    case .counted(let counted): attempt = counted
    case .wait(let seconds): return SignInByPasskey.Reply(retryAfter: seconds)
    }
    let outcome = try await withdrawing(attempt) { try await directory.signIn(message) }
    switch outcome {
    case .token(let token, let userName):
      throttle.withLock { $0.withdraw(attempt) }
      return SignInByPasskey.Reply(webAuthToken: token, userName: userName)
    case .over:
      throttle.withLock { $0.withdraw(attempt) }
      return SignInByPasskey.Reply(isOver: true)
    case .refused(let refusal):
      log.info("passkey refused", ["address": .text(message.source.address), "check": .text(refusal.rawValue)])
      return SignInByPasskey.Reply()
    }
  }

  /// Finds the device behind a typed code. Wrong codes count as guesses.
  /// - Throws: errors of the directory.
  func lookUp(_ message: LookUpDeviceSignIn) async throws -> LookUpDeviceSignIn.Reply {
    switch begin(.code, from: message.clientAddress) {
    case .wait(let seconds): return LookUpDeviceSignIn.Reply(retryAfter: seconds)
    case .counted(let attempt):
      let device = try await withdrawing(attempt) { try await directory.waitingDevice(message.userCode) }
      guard let device else { return LookUpDeviceSignIn.Reply() }
      throttle.withLock { $0.withdraw(attempt) }
      return LookUpDeviceSignIn.Reply(device: device)
    }
  }

  /// Carries out what a person does on the account page. A wrong code counts as one that is looked up.
  /// - Throws: errors of the directory.
  func use(_ message: UseAccount) async throws -> UseAccount.Reply {
    // Gateways of earlier releases tell no address.
    guard message.act.namesDevice, let address = message.clientAddress else { return try await directory.use(message) }
    switch begin(.code, from: address) {
    case .wait(let seconds): return UseAccount.Reply(retryAfter: seconds)
    case .counted(let attempt):
      let reply = try await withdrawing(attempt) { try await directory.use(message) }
      if reply.refusal != .device { throttle.withLock { $0.withdraw(attempt) } }
      return reply
    }
  }

  /// - Throws: errors of the directory.
  func poll(_ message: PollDeviceSignIn) async throws -> PollDeviceSignIn.Reply {
    let device = Array(SHA256.hash(message.deviceCode))
    if polls.withLock({ $0.isEarly(device, now: clock.now) }) { return .slowDown }
    return try await directory.poll(message)
  }

  /// Opens a session of the console.
  /// - Throws: errors of the directory.
  func open(_ message: OpenConsole) async throws -> OpenConsole.Reply {
    let outcome: Outcome<Directory.ConsoleOpening>
    let source = SignInSource(way: .console, address: message.clientAddress)
    switch message.entry {
    case .user(let name, let password):
      outcome = try await look(at: Entry(name: name, password: password, source: source)) { [directory] known in
        try await directory.openConsole(forUser: known.key, passwordHash: known.hash, from: source)
      }
    case .operatorToken(let token): outcome = try await look(at: token, from: source)
    }
    switch outcome {
    case .right(.token(let token)): return OpenConsole.Reply(token: token)
    case .right(.lacksRole(let user)):
      try await note(NotedSignIn(source: source, user: user, refusal: "role"))
      return OpenConsole.Reply(lacksRole: true)
    case .wrong: return OpenConsole.Reply()
    case .wait(let seconds): return OpenConsole.Reply(retryAfter: seconds)
    }
  }

  /// Several operators may have the token, and share an address: wrong ones count as those of codes do.
  private func look(at operatorToken: String, from source: SignInSource) async throws
    -> Outcome<Directory.ConsoleOpening>
  {
    let counted: SignInThrottle.Attempt
    switch begin(.operatorToken, from: source.address) {
    case .counted(let attempt): counted = attempt
    case .wait(let seconds): return .wait(seconds: seconds)
    }
    guard directory.isOperatorToken(operatorToken) else {
      log.info("sign-in refused", ["address": .text(source.address)])
      try await note(NotedSignIn(source: source, refusal: Self.wrongWord))
      return .wrong
    }
    throttle.withLock { $0.succeeded(counted) }
    return .right(.token(try await directory.openConsole(from: source)))
  }

  /// The audit's word for a wrong name, password or token.
  private static let wrongWord = "wrong"

  /// A typed name and password, the client's place, and the app that the person signs in to.
  private struct Entry {
    let name: String
    let password: String
    let source: SignInSource
    var container: ContainerID?
    var environment: Environment?
  }

  private enum Outcome<Opened> {
    /// The result of `open`, such as a session's token.
    case right(Opened)
    case wrong
    case wait(seconds: Int)
  }

  /// - Parameter open: called when the password is right; returns nil when the user is disabled or the password changed
  ///   meanwhile.
  private func look<Opened>(
    at entry: Entry, open: (_ known: (key: Int64, hash: String)) async throws -> Opened?
  ) async throws -> Outcome<Opened> {
    // No user has a longer name, and the memory for attempts is bounded.
    guard entry.name.utf8.count <= Limit.nameByteCount else { return .wrong }
    let counted: SignInThrottle.Attempt
    switch begin(.name(entry.name), from: entry.source.address) {
    case .counted(let attempt): counted = attempt
    case .wait(let seconds): return .wait(seconds: seconds)
    }
    do {
      return try await withdrawing(counted) { try await attempt(entry, counted, open: open) }
    } catch is PasswordHasher.Overloaded {
      return .wait(seconds: Self.overloadedSeconds)
    }
  }

  /// Runs the check of an attempt that was counted. It does not count if the server fails to check it, which is not
  /// the client's fault.
  private func withdrawing<Checked>(_ counted: SignInThrottle.Attempt, _ check: () async throws -> Checked) async throws
    -> Checked
  {
    do {
      return try await check()
    } catch {
      throttle.withLock { $0.withdraw(counted) }
      throw error
    }
  }

  private func begin(_ target: SignInThrottle.Target, from address: String) -> SignInThrottle.Outcome {
    let outcome = throttle.withLock { $0.begin(target, from: Self.origin(of: address), now: clock.now) }
    if case .wait(let seconds) = outcome {
      log.warning("sign-in throttled", ["address": .text(address), "seconds": .integer(Int64(seconds))])
    }
    return outcome
  }

  /// Checks an attempt that was counted.
  private func attempt<Opened>(
    _ entry: Entry, _ counted: SignInThrottle.Attempt,
    open: (_ known: (key: Int64, hash: String)) async throws -> Opened?
  ) async throws -> Outcome<Opened> {
    let password = PasswordText.bytes(of: entry.password)
    // Earlier releases hashed passwords as typed. Longer ones can't match; they are cut so that they take no more time.
    let typed = Array(entry.password.utf8.prefix(PasswordHasher.byteLimit + 1))
    let known = try await directory.passwordHash(ofUser: entry.name)
    var isMatch = try await passwords.isMatch(password, known?.hash)
    var isAsTyped = false
    if !isMatch, typed != password {
      do {
        isMatch = try await passwords.isMatch(typed, known?.hash)
      } catch {
        // The attempt stays counted, because one guess was checked.
        return .wait(seconds: Self.overloadedSeconds)
      }
      isAsTyped = isMatch
    }
    guard isMatch, let known, let opened = try await open(known) else {
      log.info("sign-in refused", ["address": .text(entry.source.address)])
      try await note(
        NotedSignIn(
          source: entry.source, user: try await directory.key(ofUser: entry.name)?.recordName,
          container: entry.container, environment: entry.environment, refusal: Self.wrongWord))
      return .wrong
    }
    throttle.withLock { $0.succeeded(counted) }
    if isAsTyped || passwords.cost.isOutdated(known.hash) { await hashAnew(known, password) }
    return .right(opened)
  }

  /// Replaces a hash that an earlier release made with other costs or of the text as typed.
  private func hashAnew(_ known: (key: Int64, hash: String), _ password: [UInt8]) async {
    do {
      guard let hash = try await passwords.make(password) else { return }
      try await directory.replacePasswordHash(ofUser: known.key, known.hash, with: hash)
    } catch {
      // Dropped because the old hash still works; the next sign-in tries again.
      log.info("password not hashed again", ["error": .text(String(describing: error))])
    }
  }

  /// The networks whose attempts count together: an IPv4 address, or for IPv6 the usual sizes of a customer's network.
  static func origin(of address: String) -> SignInThrottle.Origin {
    var bytes = in6_addr()
    guard address.contains(":"), inet_pton(AF_INET6, address, &bytes) == 1 else {
      return SignInThrottle.Origin(networks: [address])
    }
    let networks = withUnsafeBytes(of: bytes) { bytes in
      let isIPv4 = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xff && bytes[11] == 0xff
      if isIPv4 { return [bytes[12...].map { String($0) }.joined(separator: ".")] }
      return [8, 7, 6].map { count in
        bytes[..<count].map { String($0, radix: 16) }.joined(separator: ".") + "/\(count * 8)"
      }
    }
    return SignInThrottle.Origin(networks: networks)
  }
}
