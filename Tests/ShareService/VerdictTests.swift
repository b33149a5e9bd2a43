import JSON
import ServiceBus
import Testing

@testable import ShareService

private let now: Int64 = 1_800_000_000_000

private func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: Array(text.utf8)) }

private func peer(_ value: JSONValue) throws -> Peer {
  Peer(
    name: value["name"]?.string ?? "", role: try #require(Role(rawValue: value["role"]?.string ?? "worker")),
    incarnation: 1, endpoint: "", isReady: value["ready"]?.bool ?? true, adminURL: value["adminURL"]?.string)
}

/// The verdict on an installation that is described like the answer to `status`.
private func verdict(_ status: JSONValue) throws -> Verdict {
  let workers = try (status["workers"]?.elements ?? []).map { worker in
    ProcessReport(peer: try peer(worker), content: worker["silent"]?.bool == true ? nil : worker)
  }
  return Verdict(
    try (status["members"]?.elements ?? []).map(peer), workers, held: Int(status["shards"]?["held"]?.int64 ?? 0),
    of: Int(status["shards"]?["count"]?.int64 ?? 0),
    neededFormat: (status["shards"]?["neededFormat"]?.int64).map { Int($0) }, now: now)
}

extension Verdict {
  fileprivate var lines: [String] { findings.map { "\($0.what). \($0.remedy)" } }
}

/// The answer to `status` of two workers, with replaceable parts.
private func status(
  members: String =
    #"{"name":"gateway","role":"gateway","ready":true},{"name":"notifier","role":"notifier","ready":true}"#,
  held: Int = 4,
  first: String = "", second: String = #""silent":false,"shards":[2,3],"opening":0,"problems":[]"#
) throws -> JSONValue {
  try json(
    """
    {"members":[\(members),{"name":"share","role":"share","ready":true},{"name":"worker-1","role":"worker",\
    "ready":true}],
    "shards":{"count":4,"held":\(held)},"mapVersion":3,
    "workers":[{"name":"worker-1","ready":true,"silent":false,"shards":[0,1],"opening":0,"databases":1,"records":12,\
    "problems":[]\(first)},
    {"name":"worker-2","ready":true,\(second)}]}
    """)
}

struct VerdictTests {
  @Test func `an installation without trouble is well in one line`() throws {
    let found = try verdict(status())
    #expect(found.isWell && found.notes.isEmpty)
    #expect(found.summary == "4 processes, 4 of 4 shards held by 2 workers")
    let idle = try verdict(status(second: #""silent":false,"shards":[],"opening":0,"problems":[]"#))
    #expect(idle.summary == "4 processes, 4 of 4 shards held by 1 worker", "the other worker holds none")
  }

  @Test func `held-back objects are noted and no trouble`() throws {
    let verdict = try verdict(status(first: #","quarantined":2"#))
    #expect(verdict.isWell)
    #expect(verdict.notes == ["2 objects are held back (`aquifer quarantine list`)"])
  }

  @Test func `a finding says what is wrong and what to do, the gravest first`() throws {
    let lines = try verdict(status(held: 2, second: #""silent":true"#)).lines
    #expect(lines.count == 2)
    #expect(lines[0].hasPrefix("worker-2 does not answer. If it does not answer soon, end that process"))
    #expect(lines[1].hasPrefix("2 shards have no worker. "))
  }

  @Test func `shards that only a newer worker may have say which`() throws {
    let answer = try json(
      """
      {"members":[{"name":"gateway","role":"gateway","ready":true},{"name":"notifier","role":"notifier","ready":true}],
      "shards":{"count":3,"held":2,"neededFormat":21},"workers":[{"name":"worker-1","ready":true,"silent":false}]}
      """)
    #expect(
      try verdict(answer).lines[0].hasPrefix(
        "1 shard has no worker. Wait for a worker of a release that knows the stored format 21"))
  }

  @Test func `shards that the same worker holds are one finding, which names it`() throws {
    let problem = "is held by another worker: process 4711"
    let second = #""silent":false,"problems":[{"shard":2,"problem":"\#(problem)"},{"shard":3,"problem":"\#(problem)"}]"#
    #expect(
      try verdict(status(second: second)).lines == [
        """
        shards 2-3 of worker-2: \(problem). If that worker no longer answers, end it (kill -9): the shards \
        then open at once.
        """
      ])
  }

  @Test(arguments: [
    (
      #","oldestWaitingAt":1799999880000,"waitingTransactions":7"#,
      "7 saved transactions wait for their export, the oldest for 2 min"
    ),
    (#","diskFree":5000000000,"diskSize":100000000000"#, "worker-1 has 5.00 GB of disk left"),
    (#","longestQueue":2500"#, "2500 writes wait at one shard of worker-1"),
    (#","pendingPings":10000"#, "10000 pings wait at worker-1"),
    (
      #","problems":[{"shard":0,"problem":"can't be opened: damaged"}]"#,
      "shard 0 of worker-1: can't be opened: damaged"
    ),
  ])
  func `figures beyond their limits are findings`(members: String, what: String) throws {
    let answer = try json(
      """
      {"members":[{"name":"gateway","role":"gateway","ready":true},{"name":"notifier","role":"notifier","ready":true}],\
      "shards":{"count":2,"held":2},
      "workers":[{"name":"worker-1","ready":true,"silent":false\(members)}]}
      """)
    #expect(try verdict(answer).findings.map(\.what) == [what])
  }

  @Test func `an export that waits for less than a minute is the day's business`() throws {
    #expect(try verdict(status(first: #","oldestWaitingAt":1799999941000,"waitingTransactions":7"#)).isWell)
  }

  @Test func `missing and unready processes are findings`() throws {
    let lines = try verdict(
      status(members: #"{"name":"gateway","role":"gateway","ready":false,"adminURL":"http://127.0.0.1:9"}"#)
    ).lines
    #expect(lines[0].hasPrefix("there is no notifier"))
    #expect(lines[1].hasPrefix("gateway is not ready. `aquifer health http://127.0.0.1:9/readyz` says why"))
  }
}
