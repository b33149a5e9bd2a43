// What a program that starts servers knows besides: deploy/bench writes it, the tables show it.

import JSON

struct Facts {
  /// Of the sources.
  var commit: String?
  /// How the whole was run.
  var command: String?
  /// PostgreSQL on the same work; or why there are no figures.
  var postgres: [Limit] = []
  var postgresNote: String?
  var footprint: Footprint?

  /// What something else than this program reached on a workload.
  struct Limit {
    let name: String
    /// `w1a:16`.
    let workload: String
    let recordsPerSecond: Double
    let p50: Double
  }

  struct Footprint {
    /// Milliseconds from the start of `aquifer dev` until everything answers, once for each start.
    let startMilliseconds: [Double]
    /// Megabytes of 2^20 bytes that are resident when nobody asks anything.
    let idle: [(process: String, memory: Double)]
    /// Bytes: the file, and the shared libraries of Swift that it needs besides.
    let binaries: [(name: String, byteCount: Double, libraryByteCount: Double)]
  }

  init() {}

  init(json: JSONValue) throws(LoadError) {
    commit = json["commit"]?.string
    command = json["command"]?.string
    postgresNote = json["postgres"]?["note"]?.string
    for limit in json["postgres"]?["limits"]?.elements ?? [] {
      guard let name = limit["name"]?.string, let workload = limit["workload"]?.string, let rate = limit["recordsPerSecond"]?.double, let p50 = limit["p50ms"]?.double
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
