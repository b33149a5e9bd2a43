// Judges an installation's status: all is well, or the findings with their remedies.

import JSON

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
  private let summary: String

  /// Seconds after which an export is late.
  private static let lateExport: Int64 = 60
  /// Pings that wait for processes that don't accept them.
  private static let manyPings: Int64 = 10_000
  /// Writes that wait at one shard, which accepts 4096.
  private static let longQueue: Int64 = 2000
  /// Free part of a disk, from 0 to 1.
  private static let leastFree = 0.1

  /// - Parameters:
  ///   - status: the answer to `GET /admin/1/status`.
  ///   - now: milliseconds since 1970.
  init(_ status: JSONValue, now: Int64) {
    let members = status["members"]?.elements ?? []
    let workers = status["workers"]?.elements ?? []
    let count = status["shards"]?["count"]?.int64 ?? 0
    let held = status["shards"]?["held"]?.int64 ?? 0
    summary =
      """
      \(members.count == 1 ? "1 process" : "\(members.count) processes"), \(held) of \(count) shards held by \
      \(Units.count(Int64(workers.count), "worker"))
      """
    judge(members, workers, unheld: count - held, neededFormat: status["shards"]?["neededFormat"]?.int64)
    for worker in workers { judge(worker, now) }
    judgeExports(workers, now)
  }

  private mutating func find(_ what: String, _ remedy: String) { findings.append(Finding(what: what, remedy: remedy)) }

  private mutating func judge(_ members: [JSONValue], _ workers: [JSONValue], unheld: Int64, neededFormat: Int64?) {
    for worker in workers where worker["silent"]?.bool == true {
      find(
        "\(name(worker)) does not answer",
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
    where !members.contains(where: { $0["role"]?.string == role }) {
      find("there is no \(role)", "Start aquifer-\(role), or read its log: \(consequence).")
    }
    for worker in workers {
      guard let reason = worker["refused"]?.string else { continue }
      find(
        "\(name(worker)) takes no work: \(reason)",
        "Give it the folder with this installation's data (docs/operating/OPERATING.md, AquiferDataRefused).")
    }
    let refused = Set(workers.filter { $0["refused"] != nil }.compactMap { $0["name"]?.string })
    for member in members where member["ready"]?.bool == false && !refused.contains(name(member)) {
      let url = member["adminURL"]?.string.map { "\($0)/readyz" } ?? "its /readyz"
      find("\(name(member)) is not ready", "`aquifer health \(url)` says why, on its machine.")
    }
  }

  private mutating func judge(_ worker: JSONValue, _ now: Int64) {
    for (problem, shards) in problems(of: worker) {
      let which = shards.count == 1 ? "shard" : "shards"
      let remedy =
        problem.contains("held by another worker")
        ? "If that worker no longer answers, end it (kill -9): the shards then open at once."
        : problem.contains("is being opened")
          ? "Wait a moment. If it takes longer, the log of \(name(worker)) says why."
          : "See the log of \(name(worker)), and docs/operating/OPERATING.md."
      find("\(which) \(Units.ranges(shards)) of \(name(worker)): \(problem)", remedy)
    }
    if let free = worker["diskFree"]?.int64, let size = worker["diskSize"]?.int64, size > 0,
      Double(free) < Self.leastFree * Double(size)
    {
      find(
        "\(name(worker)) has \(Units.bytes(free)) of disk left",
        "Make room: the worker refuses saves when the disk is full.")
    }
    if let longest = worker["longestQueue"]?.int64, longest >= Self.longQueue {
      find(
        "\(longest) writes wait at one shard of \(name(worker))",
        "Its disk is too slow, or one user sends too much: compare aquifer_store_sync_duration_seconds.")
    }
    if let pings = worker["pendingPings"]?.int64, pings >= Self.manyPings {
      find("\(pings) pings wait at \(name(worker))", "A notifier or gateway does not read them: see its log.")
    }
  }

  private mutating func judgeExports(_ workers: [JSONValue], _ now: Int64) {
    if let oldest = workers.compactMap({ $0["oldestWaitingAt"]?.int64 }).min(), (now - oldest) / 1000 >= Self.lateExport
    {
      let count = workers.reduce(0) { $0 + ($1["waitingTransactions"]?.int64 ?? 0) }
      find(
        """
        \(Units.count(count, "saved transaction")) \(count == 1 ? "waits for its" : "wait for their") export, the \
        oldest for \(Units.span((now - oldest) / 1000))
        """,
        "`aquifer stores` shows the users, `aquifer events` the reasons.")
    }
    let heldBack = workers.reduce(0) { $0 + ($1["quarantined"]?.int64 ?? 0) }
    if heldBack > 0 {
      notes.append(
        "\(Units.count(heldBack, "object")) \(heldBack == 1 ? "is" : "are") held back (`aquifer quarantine list`)")
    }
  }

  private func name(_ object: JSONValue) -> String { object["name"]?.string ?? "?" }

  /// The worker's problems, each with the shards concerned.
  private func problems(of worker: JSONValue) -> [(problem: String, shards: [Int64])] {
    var found: [(problem: String, shards: [Int64])] = []
    for entry in worker["problems"]?.elements ?? [] {
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

  /// One line for the verdict, and one for each further finding.
  var text: String {
    guard let first = findings.first else {
      return "All is well: \(summary)." + (notes.isEmpty ? "" : " " + notes.joined(separator: "; ") + ".")
    }
    let further = findings.dropFirst().map { "also: \($0.what). \($0.remedy)" } + notes.map { "also: \($0)." }
    return (["NOT WELL: \(first.what). \(first.remedy)"] + further).joined(separator: "\n")
  }
}
