// `status`, `workers` and `shards` for people: unusual rows come first and are marked.

import JSON
import WebServices

enum ClusterViews {
  static func status(_ answer: JSONValue, now: Int64) -> String {
    [verdict(answer["verdict"]), members(answer["members"]?.elements ?? []), workers(answer, now: now)].joined(
      separator: "\n\n")
  }

  /// One line for the verdict, and one for each further finding.
  static func verdict(_ verdict: JSONValue?) -> String {
    guard let verdict else { return "The server is of an earlier release, which tells no verdict." }
    let findings = (verdict["findings"]?.elements ?? []).map { finding in
      "\(View.text(finding["what"])). \(View.text(finding["remedy"]))"
    }
    let notes = (verdict["notes"]?.elements ?? []).map { View.text($0) }
    guard let first = findings.first else {
      return "All is well: \(View.text(verdict["summary"]))."
        + (notes.isEmpty ? "" : " \(notes.joined(separator: "; ")).")
    }
    let further = findings.dropFirst().map { "also: \($0)" } + notes.map { "also: \($0)." }
    return (["NOT WELL: \(first)"] + further).joined(separator: "\n")
  }

  private static func members(_ members: [JSONValue]) -> String {
    let rows = members.map { member in
      let isReady = member["ready"]?.bool == true
      return View.Row(
        isOdd: !isReady,
        cells: [
          View.text(member["name"]), View.text(member["role"]), isReady ? "ready" : "NOT READY",
          View.text(member["adminURL"]),
        ])
    }
    return View.table(["process", "role", "state", "admin"], rows)
  }

  static func workers(_ answer: JSONValue, now: Int64) -> String {
    let rows = (answer["workers"]?.elements ?? []).map { worker in
      let isSilent = worker["silent"]?.bool == true
      let isReady = worker["ready"]?.bool == true
      let problems = worker["problems"]?.elements.count ?? 0
      let state = isSilent ? "SILENT" : !isReady ? "NOT READY" : problems > 0 ? "TROUBLE" : "ready"
      let oldest = worker["oldestWaitingAt"]?.int64.map { Units.span(max(now - $0, 0) / 1000) } ?? (isSilent ? "" : "-")
      let disk = worker["diskFree"]?.int64.map(Units.bytes) ?? ""
      return View.Row(
        isOdd: state != "ready",
        cells: [
          View.text(worker["name"]), state, worker["shards"].map { String($0.count) } ?? "",
          isSilent ? "" : String(problems), View.text(worker["databases"]),
          View.text(worker["zones"]), View.text(worker["records"]), View.text(worker["stores"]),
          View.text(worker["queue"]), View.text(worker["waitingTransactions"]),
          oldest, View.text(worker["quarantined"]), View.text(worker["pendingPings"]), disk,
        ])
    }
    let columns = [
      "worker", "state", "shards", "not open", "databases", "zones", "records", "stores", "queue", "to export",
      "oldest", "held back", "pings waiting", "disk free",
    ]
    return View.table(columns, rows)
  }

  /// One line for each worker and cluster, with the numbers of its shards; one for each shard that moves or is divided,
  /// and for each that does not serve; and one for each shard with its size and load.
  static func shards(_ answer: JSONValue) -> String {
    let shards = answer["shards"]?.elements ?? []
    func cluster(_ shard: JSONValue) -> String { shard["cluster"]?.string ?? "main" }
    let hasClusters = shards.contains { cluster($0) != "main" }
    let groups = Dictionary(grouping: shards) { [$0["worker"]?.string ?? "", cluster($0)] }
    let rows = groups.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map { key, shards in
      let cells = [String(shards.count), Units.ranges(shards.map { $0["shard"]?.int64 ?? -1 })]
      return View.Row(
        isOdd: key[0].isEmpty, cells: [key[0].isEmpty ? "NONE" : key[0]] + (hasClusters ? [key[1]] : []) + cells)
    }
    let keys = ["movesTo", "splitsInto", "splitProblem"]
    let moving = shards.filter { shard in keys.contains { shard[$0] != nil } }.map { shard in
      let problem = shard["splitProblem"]?.string ?? shard["moveProblem"]?.string
      let target = shard["splitsInto"].map { "new shard in \(View.text($0))" } ?? View.text(shard["movesTo"])
      return View.Row(
        isOdd: problem != nil,
        cells: [
          View.text(shard["shard"]), cluster(shard), target, View.text(shard["movedRows"]),
          problem.map(TextTable.printable) ?? step(shard["splitStep"]?.string),
        ])
    }
    let table = View.table(["worker"] + (hasClusters ? ["cluster"] : []) + ["count", "shards"], rows)
    let waiting = shards.filter { $0["waitsFor"] != nil }.map { shard in
      View.Row(
        isOdd: false, cells: [View.text(shard["shard"]), cluster(shard), View.text(shard["waitsFor"]), "", "waits"])
    }
    let moves =
      (moving + waiting).isEmpty
      ? [] : [View.table(["moves", "from", "to", "rows", "problem"], moving + waiting)]
    let parts = [table] + moves + refused(shards) + accepted(shards) + [loads(shards, hasClusters: hasClusters)]
    return parts.joined(separator: "\n\n")
  }

  /// The shards that don't serve, with the reason that their workers tell.
  private static func refused(_ shards: [JSONValue]) -> [String] {
    let rows = shards.filter { $0["reason"] != nil }.map { shard in
      View.Row(isOdd: true, cells: [View.text(shard["shard"]), View.text(shard["worker"]), View.text(shard["reason"])])
    }
    return rows.isEmpty ? [] : [View.table(["shard", "worker", "out of service"], rows)]
  }

  /// The shards that were accepted and not opened since.
  private static func accepted(_ shards: [JSONValue]) -> [String] {
    let rows = shards.filter { $0["accepted"]?.bool == true }.map { shard in
      let hasWorker = shard["worker"]?.string != nil
      let next = hasWorker ? "its worker opens it: `aquifer status`" : "a worker has it: `aquifer workers`"
      return View.Row(isOdd: !hasWorker, cells: [View.text(shard["shard"]), next])
    }
    return rows.isEmpty ? [] : [View.table(["shard", "accepted as found, until"], rows)]
  }

  /// What a division that has no problem waits for.
  private static func step(_ name: String?) -> String {
    switch name {
    case "takenBack": "taken back; waits until the shard is opened anew"
    case "lastStep": "divided; waits for the opening of the new shard"
    default: ""
    }
  }

  /// A plan: what each cluster has before and after, and the moves.
  static func balance(_ answer: JSONValue) -> String {
    let moves = (answer["moves"]?.elements ?? []).map { move in
      View.Row(
        isOdd: false,
        cells: [View.text(move["shard"]), View.text(move["from"]), View.text(move["to"]), size(move["bytes"])])
    }
    let clusters = (answer["clusters"]?.elements ?? []).map { cluster in
      View.Row(
        isOdd: false,
        cells: [View.text(cluster["cluster"])]
          + ["", "After"].flatMap {
            [View.text(cluster["shards" + $0]), size(cluster["bytes" + $0]), View.text(cluster["load" + $0])]
          })
    }
    let table = View.table(["cluster", "shards", "size", "load", "then", "size", "load"], clusters)
    if moves.isEmpty { return table + "\n\nThe clusters are as even as moves can make them." }
    return table + "\n\n" + View.table(["shard", "from", "to", "size"], moves)
      + "\n\n\(size(answer["movedBytes"])) to copy."
  }

  private static func size(_ value: JSONValue?) -> String { value?.int64.map(Units.bytes) ?? "-" }

  /// A dash is a figure that nobody told, because the shard's worker is silent or has just opened it.
  private static func loads(_ shards: [JSONValue], hasClusters: Bool) -> String {
    let rows = shards.map { shard in
      let place = [View.text(shard["shard"]), shard["worker"]?.string.map(TextTable.printable) ?? "-"]
      return View.Row(
        isOdd: false,
        cells: place + (hasClusters ? [shard["cluster"]?.string ?? "main"] : []) + [
          shard["records"].map(View.text) ?? "-", size(shard["bytes"]),
          shard["savesPerSecond"].map(View.text) ?? "-", shard["readsPerSecond"].map(View.text) ?? "-",
        ])
    }
    return View.table(
      ["shard", "worker"] + (hasClusters ? ["cluster"] : []) + ["records", "size", "saves/s", "reads/s"], rows)
  }
}
