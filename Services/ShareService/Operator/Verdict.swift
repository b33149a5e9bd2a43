// The rule that judges an installation's status: all is well, or the findings with their remedies.

import JSON
import ServiceBus
import WebServices

/// The first lines that an operator reads.
struct Verdict: Hashable, Sendable {
  /// A fault of the installation.
  struct Finding: Hashable, Sendable {
    /// A clause that tells the observation.
    let what: String
    /// A sentence that tells the remedy.
    let remedy: String
  }

  /// The gravest first.
  private(set) var findings: [Finding] = []
  /// Observations that are worth a look but are no faults.
  private(set) var notes: [String] = []
  /// The processes and shards in one clause.
  let summary: String

  /// Seconds after which an export is late.
  private static let lateExport: Int64 = 60
  /// Pings that wait for processes that don't accept them.
  private static let manyPings: Int64 = 10_000
  /// Writes that wait at one shard, which accepts 4096.
  private static let longQueue: Int64 = 2000
  /// Free part of a disk, from 0 to 1.
  private static let leastFree = 0.1

  /// - Parameters:
  ///   - held: the number of shards with a holder, of `count`.
  ///   - neededFormat: the stored format that a worker must know in order to hold the others; nil: any will do.
  ///   - accepted: the shards that an operator has accepted and no worker has opened since.
  ///   - now: milliseconds since 1970.
  init(
    _ members: [Peer], _ workers: [ProcessReport], held: Int, of count: Int, neededFormat: Int? = nil,
    accepted: [Int] = [], now: Int64
  ) {
    let holders = workers.count { $0.content?["shards"]?.elements.isEmpty == false }
    summary =
      """
      \(members.count == 1 ? "1 process" : "\(members.count) processes"), \(held) of \(count) shards held by \
      \(Units.count(Int64(holders), "worker"))
      """
    judge(members, workers, unheld: Int64(count - held), neededFormat: neededFormat)
    for worker in workers { judge(worker, now) }
    judgeExports(workers, now)
    if !accepted.isEmpty {
      let (which, them) = accepted.count == 1 ? ("shard", "it") : ("shards", "them")
      notes.append(
        """
        \(which) \(Units.ranges(accepted.map(Int64.init))) will be served as a worker finds \(them): accepted, and not \
        opened since (`aquifer shards`)
        """)
    }
  }

  private mutating func find(_ what: String, _ remedy: String) { findings.append(Finding(what: what, remedy: remedy)) }

  private mutating func judge(_ members: [Peer], _ workers: [ProcessReport], unheld: Int64, neededFormat: Int?) {
    for worker in workers where worker.content == nil {
      find(
        "\(worker.peer.name) does not answer",
        """
        If it does not answer soon, end that process (kill -9): other workers then open its shards. Its log shows its \
        last work.
        """
      )
    }
    if workers.isEmpty {
      find("there is no worker", "Start aquifer-worker, or read its log: clients can neither save nor import.")
    } else if unheld > 0 {
      let which =
        neededFormat.map {
          " of a release that knows the stored format \($0) (an older release can't open files of a newer one)"
        } ?? ""
      find(
        "\(Units.count(unheld, "shard")) \(unheld == 1 ? "has" : "have") no worker",
        "Wait for a worker\(which) to become ready, or start one; `aquifer shards` lists them.")
    }
    for (role, consequence) in [
      ("notifier", "devices get no pings and find changes only when they ask"), ("gateway", "clients reach no server"),
    ]
    where !members.contains(where: { $0.role.rawValue == role }) {
      find("there is no \(role)", "Start aquifer-\(role), or read its log: \(consequence).")
    }
    for worker in workers {
      guard let reason = worker.content?["refused"]?.string else { continue }
      find(
        "\(worker.peer.name) takes no work: \(reason)",
        "Give it the folder with this installation's data (docs/operating/OPERATING.md, AquiferDataRefused).")
    }
    let refused = Set(workers.filter { $0.content?["refused"] != nil }.map(\.peer.name))
    for member in members where !member.isReady && !refused.contains(member.name) {
      let url = member.adminURL.map { "\($0)/readyz" } ?? "its /readyz"
      find("\(member.name) is not ready", "`aquifer health \(url)` says why, on its machine.")
    }
  }

  private mutating func judge(_ worker: ProcessReport, _ now: Int64) {
    let name = worker.peer.name
    func figure(_ member: String) -> Int64? { worker.content?[member]?.int64 }
    for (problem, shards) in problems(of: worker) {
      let which = shards.count == 1 ? "shard" : "shards"
      let remedy =
        problem.contains("held by another worker")
        ? "If that worker no longer answers, end it (kill -9): the shards then open at once."
        : problem.contains("is being opened")
          ? "Wait a moment. If it takes longer, the log of \(name) says why."
          : "See the log of \(name), and docs/operating/OPERATING.md."
      find("\(which) \(Units.ranges(shards)) of \(name): \(problem)", remedy)
    }
    if let free = figure("diskFree"), let size = figure("diskSize"), size > 0,
      Double(free) < Self.leastFree * Double(size)
    {
      find(
        "\(name) has \(Units.bytes(free)) of disk left",
        "Make room: the worker refuses saves when the disk is full.")
    }
    if let longest = figure("longestQueue"), longest >= Self.longQueue {
      find(
        "\(longest) writes wait at one shard of \(name)",
        "Its disk is too slow, or one user sends too much: compare aquifer_store_sync_duration_seconds.")
    }
    if let pings = figure("pendingPings"), pings >= Self.manyPings {
      find("\(pings) pings wait at \(name)", "A notifier or gateway does not read them: see its log.")
    }
  }

  private mutating func judgeExports(_ workers: [ProcessReport], _ now: Int64) {
    if let oldest = workers.compactMap({ $0.content?["oldestWaitingAt"]?.int64 }).min(),
      (now - oldest) / 1000 >= Self.lateExport
    {
      let count = workers.reduce(0) { $0 + ($1.content?["waitingTransactions"]?.int64 ?? 0) }
      find(
        """
        \(Units.count(count, "saved transaction")) \(count == 1 ? "waits for its" : "wait for their") export, the \
        oldest for \(Units.span((now - oldest) / 1000))
        """,
        "`aquifer stores` shows the users, `aquifer events` the reasons.")
    }
    let heldBack = workers.reduce(0) { $0 + ($1.content?["quarantined"]?.int64 ?? 0) }
    if heldBack > 0 {
      notes.append(
        "\(Units.count(heldBack, "object")) \(heldBack == 1 ? "is" : "are") held back (`aquifer quarantine list`)")
    }
  }

  /// The worker's problems, each with the shards concerned.
  private func problems(of worker: ProcessReport) -> [(problem: String, shards: [Int64])] {
    var found: [(problem: String, shards: [Int64])] = []
    for entry in worker.content?["problems"]?.elements ?? [] {
      guard let problem = entry["problem"]?.string, let shard = entry["shard"]?.int64 else { continue }
      if let index = found.firstIndex(where: { $0.problem == problem }) {
        found[index].shards.append(shard)
      } else {
        found.append((problem, [shard]))
      }
    }
    return found
  }

  var isWell: Bool { findings.isEmpty }

  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("isWell", isWell)
    writer.member("summary", summary)
    writer.key("findings")
    writer.beginArray()
    for finding in findings {
      writer.beginObject()
      writer.member("what", finding.what)
      writer.member("remedy", finding.remedy)
      writer.endObject()
    }
    writer.endArray()
    writer.member("notes", notes)
    writer.endObject()
  }
}
