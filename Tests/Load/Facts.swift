// Facts that only the starting program knows: deploy/bench writes them, the tables show them.

import JSON

struct Facts {
  /// The commit of the sources.
  var commit: String?
  /// The command of the whole benchmark.
  var command: String?
  /// PostgreSQL's figures on the same work; empty with a note on the reason.
  var postgres: [Limit] = []
  var postgresNote: String?
  var footprint: Footprint?

  /// Another program's figures on a workload.
  struct Limit {
    let name: String
    /// `w1a:16`.
    let workload: String
    let recordsPerSecond: Double
    let p50: Double
  }

  struct Footprint {
    /// Milliseconds from the start of `aquifer dev` until all processes answer, one for each start.
    let startMilliseconds: [Double]
    /// Resident megabytes of 2^20 bytes while the installation is idle.
    let idle: [(process: String, memory: Double)]
    /// Bytes of the file, and of the shared Swift libraries that it needs.
    let binaries: [(name: String, byteCount: Double, libraryByteCount: Double)]
  }

  init() {}

  init(json: JSONValue) throws(LoadError) {
    commit = json["commit"]?.string
    command = json["command"]?.string
    postgresNote = json["postgres"]?["note"]?.string
    for limit in json["postgres"]?["limits"]?.elements ?? [] {
      guard let name = limit["name"]?.string, let workload = limit["workload"]?.string,
        let rate = limit["recordsPerSecond"]?.double, let p50 = limit["p50ms"]?.double
      else {
        throw LoadError(description: "the facts' figures of PostgreSQL are not complete")
      }
      postgres.append(Limit(name: name, workload: workload, recordsPerSecond: rate, p50: p50))
    }
    guard let footprint = json["footprint"] else { return }
    self.footprint = Footprint(
      startMilliseconds: footprint["startMilliseconds"]?.elements.compactMap(\.double) ?? [],
      idle: footprint["idle"]?.elements.compactMap { entry in
        guard let process = entry["process"]?.string, let memory = entry["memoryMB"]?.double else { return nil }
        return (process, memory)
      } ?? [],
      binaries: footprint["binaries"]?.elements.compactMap { entry in
        guard let name = entry["name"]?.string, let bytes = entry["bytes"]?.double else { return nil }
        return (name, bytes, entry["libraryBytes"]?.double ?? 0)
      } ?? [])
  }
}
