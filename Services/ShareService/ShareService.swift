// Puts the share service together, for the command, for `aquifer dev`'s tests and for the service's own tests.

public import Crypto
import Records
public import ServiceBus
public import ServiceKit

/// The directory and the publisher of the cluster map, connected to the bus.
public final class ShareService: Sendable {
  public struct Configuration: Sendable {
    /// The folder of all durable files; created when it is missing.
    public var dataPath: String
    /// nil: the installation's number, or the default for a new installation.
    public var shardCount: Int?
    /// Of several share services, processes follow the one with the highest epoch. The directory keeps the highest that
    /// it was given.
    public var epoch: Int64 = 0
    /// Where PostgreSQL has the directory; nil: a file in `dataPath`.
    var database: PostgreSQLDirectory.Configuration?
    /// nil: the token in the data folder.
    public var operatorToken: String?
    /// The age of a sign-in token from which answers carry its successor, and the time for which it counts afterwards.
    public var tokenRotation: Duration?
    public var tokenGrace: Duration?
    /// A PEM file of authorities to trust for the mail server; nil: the system's.
    public var mailAuthorityFile: String?
    /// The cost of hashing passwords.
    public var passwordCost: PasswordHash = .interactive

    public init(dataPath: String, shardCount: Int? = nil, operatorToken: String? = nil) {
      self.dataPath = dataPath
      self.shardCount = shardCount
      self.operatorToken = operatorToken
    }

    var sessions: SessionPolicy {
      func milliseconds(_ duration: Duration) -> Int64 {
        duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
      }
      var policy = SessionPolicy()
      if let tokenRotation { policy.rotation = milliseconds(tokenRotation) }
      if let tokenGrace { policy.grace = milliseconds(tokenGrace) }
      return policy
    }
  }

  let directory: Directory
  let place: DirectoryPlace
  let succession: Succession
  let passwords: PasswordHasher
  let signIns: SignInDesk
  private let signatures: CommitGroup<ClaimSignature, Bool>
  let announcer: Announcer
  private let cluster = ClusterSource()
  let jobs: StorageJobs
  let removals: UserRemovals
  let mails: InvitationMails
  private let clock: any WallClock
  private let random: any RandomSource
  let log: Log
  /// nil for a service that is no process.
  private let own: OwnRecords?

  /// Opens the data folder.
  /// - Throws: an error whose description is one sentence that tells the operator the remedy.
  public convenience init(_ configuration: Configuration, clock: any WallClock, random: any RandomSource, log: Log)
    throws
  {
    try self.init(configuration, clock: clock, random: random, log: log, own: nil)
  }

  init(
    _ configuration: Configuration, clock: any WallClock, random: any RandomSource, log: Log, own: OwnRecords?
  ) throws {
    self.own = own
    let folder = try DataFolder(configuration.dataPath)
    let succession = Succession()
    self.succession = succession
    func operatorToken() throws -> String {
      try folder.operatorToken(
        given: configuration.operatorToken, isShared: configuration.database != nil, random: random)
    }
    if let database = configuration.database {
      try folder.refuseDirectory()
      // One that waits says early what it lacks.
      _ = try operatorToken()
      place = .database(database)
    } else {
      place = .file(try folder.protectedDirectory())
    }
    directory = try Directory(
      place, shardCount: configuration.shardCount, epoch: configuration.epoch, operatorToken: operatorToken,
      sessions: configuration.sessions, clock: clock, random: random, onSuccession: { succession.note($0) })
    jobs = StorageJobs(directory: directory, clock: clock, random: random, log: log)
    removals = UserRemovals(directory: directory, clock: clock, log: log)
    mails = InvitationMails(
      directory: directory, sender: SMTPSender(), authorityFile: configuration.mailAuthorityFile, clock: clock, log: log
    )
    passwords = PasswordHasher(cost: configuration.passwordCost, decoy: random.bytes(48))
    signIns = SignInDesk(directory: directory, passwords: passwords, clock: clock, log: log)
    signatures = CommitGroup { [directory] in try await directory.claim($0) }
    announcer = Announcer(epoch: random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) })
    self.clock = clock
    self.random = random
    self.log = log
  }

  /// Registers the directory's handlers; to be called before the bus is made that `run` uses.
  public func register(in handlers: inout BusHandlers) {
    let (directory, announcer, log) = (directory, announcer, log)
    handlers.on(Authenticate.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.authenticate(message) })
    }
    handlers.on(LookUpUser.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.lookUp(message) })
    }
    handlers.on(FetchStanding.self) { message, _, _ in
      Answer(
        FetchStanding.Reply(
          standing: try await Self.answering(log) {
            try await directory.standing(ofUser: message.userRecordName, message.container, message.environment)
          }))
    }
    handlers.on(LookUpApp.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.app(of: message.container) })
    }
    handlers.on(DiscoverUsers.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.discover(message) })
    }
    handlers.on(IdentifyUsers.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.identify(message) })
    }
    handlers.on(NoteSharedZones.self) { message, _, _ in
      try await Self.answering(log) { try await directory.note(message.zones) }
      return Answer(Acknowledgement())
    }
    handlers.on(NoteInvitations.self) { [mails] message, _, _ in
      try await Self.answering(log) { try await directory.note(message) }
      mails.notice()
      return Answer(Acknowledgement())
    }
    handlers.on(StopMail.self) { message, _, _ in
      try await Self.answering(log) { try await directory.refuseMail(message.emailAddress) }
      return Answer(Acknowledgement())
    }
    handlers.on(BeginComparison.self) { _, _, _ in
      Answer(BeginComparison.Reply(number: try await Self.answering(log) { try await directory.beginComparison() }))
    }
    handlers.on(CompareSharedZones.self) { message, _, _ in
      Answer(
        CompareSharedZones.Reply(correctedCount: try await Self.answering(log) { try await directory.compare(message) })
      )
    }
    handlers.on(FetchSharedZones.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.sharedZones(message) })
    }
    handlers.on(ClaimFolder.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.claim(message) })
    }
    handlers.on(FetchShardEpochs.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.shardEpochs(message) })
    }
    handlers.on(NoteShardEpochs.self) { [cluster] message, _, _ in
      let noted = try await Self.answering(log) { try await directory.note(message) }
      for problem in noted.problems { log.error("a division has a problem", ["reason": .text(problem)]) }
      if noted.isNews { await cluster.notice() }
      return Answer(Acknowledgement())
    }
    handlers.on(SignIn.self) { [signIns] message, _, _ in
      Answer(try await Self.answering(log) { try await signIns.signIn(message) })
    }
    handlers.on(CheckPassword.self) { [signIns] message, _, _ in
      Answer(try await Self.answering(log) { try await signIns.check(message) })
    }
    handlers.on(RotateSession.self) { message, _, _ in
      Answer(
        RotateSession.Reply(successor: try await Self.answering(log) { try await directory.rotate(message.token) }))
    }
    handlers.on(VerifyGrant.self) { message, _, _ in
      Answer(VerifyGrant.Reply(holds: try await Self.answering(log) { try await directory.holds(message) }))
    }
    handlers.on(VerifyVisit.self) { message, _, _ in
      Answer(VerifyVisit.Reply(holds: try await Self.answering(log) { try await directory.holds(message) }))
    }
    handlers.on(ClaimSignature.self) { [signatures] message, _, _ in
      Answer(ClaimSignature.Reply(isFresh: try await Self.answering(log) { try await signatures.commit(message) }))
    }
    handlers.on(FetchSchema.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.fetchSchema(message) })
    }
    handlers.on(FetchSecrets.self) { _, _, _ in Answer(FetchSecrets.Reply(signingKey: directory.signingKey)) }
    handlers.on(ExtendSchema.self) { message, _, _ in
      let isChanged = try await Self.answering(log) {
        try await directory.extendDevelopment(message.container, with: message.fields)
      }
      if isChanged {
        await announcer.announceSoon(
          EnvironmentKey(container: message.container, environment: .development).description)
      }
      return Answer(Acknowledgement())
    }
    registerStaff(in: &handlers)
    registerIdentities(in: &handlers)
    registerPush(in: &handlers)
    let operators = OperatorAPI(
      directory: directory, jobs: jobs, removals: removals, passwords: passwords, random: random, log: log,
      publish: { await announcer.announce($0) },
      report: { [cluster] subject, query in await cluster.reports?.answer(subject, query) },
      list: { [cluster] subject, query in await cluster.reports?.list(subject, query) },
      command: { [cluster] subject, query in await cluster.reports?.carryOut(subject, query) },
      sentPings: { [cluster] question in await cluster.reports?.pings(question) ?? PingList() },
      lastMailFailure: { [mails] in await mails.lastFailure },
      pushRecords: { [cluster] ids in await cluster.reports?.pushRecords(of: ids) ?? PushRecordList() },
      records: { [cluster] subject, query in try await cluster.records?.answer(subject, query) },
      map: { [cluster] in await cluster.reports?.map() },
      shardFigures: { [cluster] in await cluster.reports?.shardFigures() ?? [:] },
      openShards: { [cluster] in await cluster.reports?.openShards() ?? [] },
      clustersChanged: { [cluster] in await cluster.notice() })
    handlers.on(OperatorRequest.self) { message, body, _ in
      let answer = await operators.answer(message, body: body)
      return Answer(
        OperatorRequest.Reply(status: answer.status, contentType: answer.contentType, retryAfter: answer.retryAfter),
        body: answer.body)
    }
  }

  /// Publishes cluster maps and changes of the directory until the task is cancelled, the bus closes, or a process
  /// follows another share service.
  /// - Throws: when the last map can't be read.
  public func run(on bus: any Bus) async throws {
    let publisher = try await publisher(on: bus)
    await run(publisher)
  }

  /// Does the part of the start that can fail, before anything runs.
  func publisher(on bus: any Bus) async throws -> ClusterMapPublisher {
    let (directory, log) = (directory, log)
    let stored = try await directory.clusterMap()
    if directory.epoch > 0 { bus.setEpoch(directory.epoch) }
    // The version starts at the current time: processes that kept running may know higher versions than a directory
    // restored from a backup.
    let publisher = ClusterMapPublisher(
      bus: bus, shardCount: directory.createdShardCount, splits: directory.layout.splits, persisted: stored.map,
      epoch: directory.epoch,
      startVersion: stored.version, leastVersion: clock.now,
      places: { try await directory.places(known: $0) }, persist: { try await directory.store($0) },
      report: { log.warning("the cluster map has a problem", ["reason": .text($0)]) })
    await announcer.attach(bus)
    await jobs.attach(bus) { publisher.current }
    await removals.attach(bus) { publisher.current }
    await mails.attach { question in
      let map = publisher.current
      guard map.holders.indices.contains(question.shard),
        let holder = map.holders[question.shard]
      else { return nil }
      // Dropped because the mail waits for the shard, whatever the reason; the bus counts failed calls.
      return try? await bus.call(question, to: .peer(holder), within: .seconds(5))
    }
    await cluster.attach(
      ClusterReports(
        bus: bus, shardCount: { directory.shardCount }, now: { [clock] in clock.now }, map: { publisher.current },
        // Dropped because what can't be read is left out of the report.
        plannedMoves: { [directory] in (try? await directory.shardClusters().planned) ?? [] },
        splits: { [directory] in (try? await directory.splitStandings()) ?? [:] },
        acceptedShards: { [directory] in (try? await directory.acceptedShards()) ?? [] },
        sharedZoneCount: { [directory] in (try? await directory.sharedZoneCounts())?.active }),
      own.map { ClusterRecords(bus: bus, own: $0, clock: clock) { publisher.current } },
      onNotice: { publisher.notice() })
    return publisher
  }

  func run(_ publisher: ClusterMapPublisher) async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await publisher.run() }
      if case .database(let configuration) = place {
        let pulse = DirectoryPulse(configuration, epoch: directory.epoch) { [succession] in succession.note($0) }
        group.addTask { await pulse.run() }
        group.addTask { [succession] in await succession.wait() }
      }
      group.addTask { [announcer] in await announcer.run() }
      group.addTask { await self.announceRenewals() }
      group.addTask { [removals] in await removals.run() }
      group.addTask { [mails] in await mails.run() }
      // The publisher ends when the bus closes or for a successor, and the pulse for one. The other tasks have nothing
      // to do then.
      await group.next()
      group.cancelAll()
    }
  }

  /// Announces that everything may have changed, whenever the directory has another connection. The calls that made
  /// changes of unknown outcome were refused, and announced nothing.
  private func announceRenewals() async {
    for await _ in directory.renewals {
      // Dropped because workers ask for schemas again after a while.
      let schemas = (try? await directory.environmentNames()) ?? []
      await announcer.announce(DirectoryChanged(credentials: true, schemas: schemas))
    }
  }

  /// Closes the directory; no method may be called afterwards.
  public func close() async {
    await jobs.close()
    await directory.close()
  }

  /// The service boundary: turns the directory's errors into codes that callers know.
  static func answering<Reply: Sendable>(_ log: Log, _ body: () async throws -> Reply) async throws(BusError)
    -> Reply
  {
    do {
      return try await body()
    } catch let error as RecordError {
      throw BusError(error.code == .notFound ? .notFound : .refused, error.reason)
    } catch {
      log.error("directory failed", ["error": .text(String(describing: error))])
      let answer = RecordError(ofDirectory: error)
      if answer == .noSpace { throw BusError(.noSpace, answer.reason) }
      throw BusError(answer.code == .tryAgainLater ? .unreachable : .internalError, "the directory failed")
    }
  }
}

/// Gives the operators' calls the cluster reports, once there is a bus.
private actor ClusterSource {
  private(set) var reports: ClusterReports?
  private(set) var records: ClusterRecords?
  private var onNotice: @Sendable () -> Void = {}

  func attach(_ reports: ClusterReports, _ records: ClusterRecords?, onNotice: @escaping @Sendable () -> Void) {
    self.reports = reports
    self.records = records
    self.onNotice = onNotice
  }

  /// Says that the clusters of shards may have changed.
  func notice() { onNotice() }
}
