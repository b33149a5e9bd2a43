// The share service as a process: its options, its start on a bus, and its stop.

import PostgreSQL
import Records
public import ServiceBus
public import ServiceKit

extension ShareService {
  /// The options of `aquifer-share` besides those of every process.
  public static let options = [
    Option("data", .path, isRequired: true, help: "The data folder; created if it is missing."),
    Option(
      "shards", .integer(DirectoryFormat.shardCountRange),
      help:
        """
        The number of shards for the users' data, fixed when the installation is created (default \
        \(DirectoryFormat.defaultShardCount)).
        """
    ),
    Option(
      "epoch", .integer(0...Int(Int32.max)), default: "0",
      help:
        """
        Of several share services that the others are told of, the one with the highest epoch leads. The directory \
        keeps the highest that it was given.
        """
    ),
    Option(
      "directory", .secret,
      help: """
        The database of PostgreSQL that keeps the directory, for several share services of which one leads: \
        postgresql://USER@HOST1,HOST2/DATABASE, or libpq's keywords. Without it, a file in <data>.
        """),
    Option(
      "directory-from", .path,
      help: """
        Begin an empty database of --directory with the rows of this file: the directory.sqlite of a share service \
        that has ended, or of a backup. The file must be writable. A database that is not empty must be of the same \
        installation.
        """),
    Option(
      "allow-asynchronous", .flag,
      help: """
        Accept a database whose commits wait for no synchronous standby: the loss of its machine can lose changes.
        """),
    Option(
      "operator-token", .secret,
      help: """
        The token that operators present (default: the one in <data>/operator-token, created at the first start).
        """),
    Option(
      "token-rotation", .seconds(0...86_400), default: "300",
      help:
        """
        The age at which an answer brings the successor of a sign-in's token (X-Apple-CloudKit-Web-Auth-Token); 0: \
        every answer does.
        """
    ),
    Option(
      "token-grace", .seconds(0...86_400), default: "300",
      help:
        """
        The time that a sign-in's token stays valid after an answer brought its successor; with 0, and rotation 0, \
        each token is valid for one answer.
        """
    ),
    Option(
      "mail-authorities", .path,
      help: "Trust the authorities in this PEM file for the mail server (default: the system's)."),
  ]

  /// Makes the service. With a directory in PostgreSQL, waits until this process leads: while another share service
  /// does, and while the database is away.
  public static func leading(_ context: ServiceContext) async throws -> ShareService {
    let waiting = Waiting(context)
    guard let database = database(context) else { return try ShareService(context) }
    let watch = LeaderWatch(database)
    while true {
      do {
        let service = try ShareService(context)
        await watch.close()
        waiting.ended()
        return service
      } catch is PostgreSQLDirectory.Led {
        waiting.note("another share service leads, and this one waits to take its place", asStandby: true)
        while await watch.seesLeader(at: .now) { try await context.timing.sleep(Self.pause) }
      } catch let error as PostgreSQLError where error.recordError?.code == .tryAgainLater {
        waiting.note("the directory's database can't be used (\(error))", asStandby: false)
      }
      try await context.timing.sleep(Self.pause)
    }
  }

  /// Between two looks at the leader, and between two attempts to lead.
  private static let pause = Duration.milliseconds(200)

  private static func database(_ context: ServiceContext) -> PostgreSQLDirectory.Configuration? {
    context.options.text("directory").map {
      var configuration = PostgreSQLDirectory.Configuration(
        address: $0, allowsAsynchronous: context.options.flag("allow-asynchronous"))
      configuration.formerFile = context.options.text("directory-from")
      return configuration
    }
  }

  /// Makes the service from the process's options.
  public convenience init(_ context: ServiceContext) throws {
    var configuration = Configuration(
      dataPath: context.options.requiredText("data"), shardCount: context.options.integer("shards"),
      operatorToken: context.options.text("operator-token"))
    configuration.epoch = Int64(context.options.integer("epoch") ?? 0)
    configuration.database = Self.database(context)
    configuration.tokenRotation = context.options.duration("token-rotation")
    configuration.tokenGrace = context.options.duration("token-grace")
    configuration.mailAuthorityFile = context.options.text("mail-authorities")
    try self.init(
      configuration, clock: context.clock, random: context.random, log: context.log, own: OwnRecords(context))
    context.metrics.addDisk(of: configuration.dataPath)
    context.metrics.collect(
      "shared_zones", "Users' accesses to others' zones: active ones, and ended ones that the directory remembers."
    ) { [directory] in
      // Dropped because a scrape reports only known values; the health check tells that the directory can't be read.
      guard let counts = try? await directory.sharedZoneCounts() else { return [] }
      return [
        Metrics.Sample(Double(counts.active), labels: [("state", "active")]),
        Metrics.Sample(Double(counts.ended), labels: [("state", "ended")]),
      ]
    }
    context.metrics.collect("departing_users", "Deleted users with data that are still being removed.") { [directory] in
      // Dropped because a scrape reports only known values.
      guard let count = try? await directory.departingCount() else { return [] }
      return [Metrics.Sample(Double(count))]
    }
    addMail(to: context.metrics)
    for kind in StorageJob.Kind.allCases {
      context.metrics.collect(
        "\(kind.rawValue)_last_success_timestamp_seconds",
        "End of the last \(kind.rawValue) without problems, in seconds since 1970."
      ) {
        [jobs] in await jobs.successTimes[kind].map { [Metrics.Sample(Double($0))] } ?? []
      }
    }
    context.metrics.collect("scrub_problems_total", "Problems that scrubs found.", kind: .counter) { [jobs] in
      [Metrics.Sample(Double(await jobs.problemCount))]
    }
  }

  /// Begins to publish maps and changes. Once a process follows another share service, this one is not ready for good.
  /// - Throws: when the last map can't be read.
  public func start(on bus: any Bus, _ context: ServiceContext) async throws -> any Service {
    let publisher = try await publisher(on: bus)
    Self.add(publisher, to: context.metrics)
    let publishing = Task {
      await run(publisher)
      guard let epoch = succession.epoch ?? publisher.successor else { return }
      log.error("another share service leads", ["epoch": .integer(epoch), "own": .integer(directory.epoch)])
      if case .database = place {
        context.ending.end(
          ExitError(.tryAgain, "Another share service leads: start this one again, to wait for the lead."))
      }
      // The process may become ready only now: its start runs beside this.
      for await _ in bus.peerChanges() where bus.own.isReady { bus.setReady(false) }
    }
    return RunningShareService(share: self, publisher: publisher, publishing: publishing)
  }
}

extension ShareService {
  private func addMail(to metrics: Metrics) {
    metrics.collect("mails_total", "Ends of invitations by mail, and failed attempts (later).", kind: .counter) {
      [mails] in
      let (counts, laterCount) = await (mails.counts, mails.laterCount)
      return MailOutcome.allCases.map {
        Metrics.Sample(Double(counts[$0] ?? 0), labels: [("outcome", $0.rawValue)])
      } + [Metrics.Sample(Double(laterCount), labels: [("outcome", "later")])]
    }
    metrics.collect("invitations_waiting", "People without an account who are invited, and mails to them that wait.") {
      [directory] in
      // Dropped because a scrape reports only known values.
      guard let people = try? await directory.waitingInvitationCount(),
        let mails = try? await directory.waitingMailCount()
      else { return [] }
      return [
        Metrics.Sample(Double(people), labels: [("what", "people")]),
        Metrics.Sample(Double(mails), labels: [("what", "mails")]),
      ]
    }
  }

  /// Adds metrics about the cluster map.
  private static func add(_ publisher: ClusterMapPublisher, to metrics: Metrics) {
    let version = Metrics.Description("cluster_map_version", "Version of the cluster map that this process uses.")
    let shards = Metrics.Description("cluster_shards", "Shards, with and without a worker.")
    let members = Metrics.Description("cluster_members", "Processes, by role and readiness.")
    metrics.collect([version, shards, members]) { [weak publisher] in
      var readings = Metrics.Readings()
      guard let map = publisher?.current else { return readings }
      let held = map.holders.count { $0 != nil }
      readings[version.name] = Double(map.version)
      readings.samples[shards.name] = [
        Metrics.Sample(Double(held), labels: [("state", "held")]),
        Metrics.Sample(Double(map.holders.count - held), labels: [("state", "unheld")]),
      ]
      readings.samples[members.name] = Role.allCases.flatMap { role in
        [true, false].map { isReady in
          Metrics.Sample(
            Double(map.members.count { $0.role == role && $0.isReady == isReady }),
            labels: [("role", role.rawValue), ("ready", isReady ? "yes" : "no")])
        }
      }
      return readings
    }
  }
}

struct RunningShareService: Service {
  let share: ShareService
  let publisher: ClusterMapPublisher
  /// The process's one long-lived task; `drain` ends it.
  let publishing: Task<Void, Never>

  var checks: [HealthCheck] {
    [
      HealthCheck("directory") { [share] in await share.directory.isReadable ? nil : "the directory can't be read" },
      HealthCheck("leads") { [publisher, share] in
        (share.succession.epoch ?? publisher.successor).map { "the share service of epoch \($0) leads" }
      },
    ]
  }

  /// Stops publishing. The other processes go on with the last map, in which the share service's absence changes
  /// nothing.
  func drain() async {
    publishing.cancel()
    await publishing.value
  }

  func close() async { await share.close() }
}
