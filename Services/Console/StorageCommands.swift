// `backup` and `scrub`, which run as jobs on the server, and `restore`, which works without a server.

import Glibc
import JSON
import RecordStore
import WebServices

extension Console {
  /// Seconds between two questions about a job's progress.
  private static let pollSeconds: UInt32 = 1
  /// Milliseconds before the first line of progress, and between two lines.
  static let quietTime: Int64 = 2000

  /// Begins a job and waits for its end. Problems found make the exit code 1; shards that a backup lacks make it 3.
  func runJob(_ kind: AdminCall.Kind, _ invocation: Invocation) async -> Int32 {
    var answer: JSONValue?
    // Dropped because an answer that is no JSON has no state: the job counts as failed.
    let take: ([UInt8]) -> Void = { answer = try? JSONValue(parsing: $0) }
    var code = await send(
      AdminCall(kind, invocation, content: Array(Self.absolute(invocation.arguments.first).utf8)), invocation,
      present: take)
    var told = terminal.now()
    let name = invocation.command.path[0]
    let startedAt = answer?["startedAt"]?.int64
    while code == ExitCode.done, answer?["state"]?.string == "running", terminal.pause(Self.pollSeconds) {
      if terminal.now() - told >= Self.quietTime {
        told = terminal.now()
        terminal.problem(
          """
          \(name): \(answer?["done"]?.int64 ?? 0) of \(answer?["shards"]?.int64 ?? 0) shards, \
          \(answer?["records"]?.int64 ?? 0) records
          """
        )
      }
      let query = startedAt.map { [("startedAt", String($0))] } ?? []
      code = await send(AdminCall("GET", ["admin", "1", name], query: query), invocation, present: take)
    }
    guard code == ExitCode.done, let answer else { return ExitCode.refused }
    // A share service of an earlier release tells of the latest job, which can be somebody else's.
    guard answer["startedAt"]?.int64 == startedAt else {
      terminal.problem("aquifer: another \(name) has begun since: the end of this one is not known")
      return ExitCode.refused
    }
    let problems = answer["problems"]?.elements.compactMap(\.string) ?? []
    for problem in problems { terminal.problem("aquifer: \(problem)") }
    guard answer["state"]?.string == "done" else {
      terminal.problem(
        """
        aquifer: the \(name) failed: \(answer["reason"]?.string ?? "the server does not say why")
        """
      )
      return ExitCode.refused
    }
    let missing = answer["missing"]?.elements ?? []
    for shard in missing {
      terminal.problem(
        "aquifer: the backup lacks shard \(shard["shard"]?.int64 ?? -1): \(shard["reason"]?.string ?? "")")
    }
    var members = ["shards", "records", "bytes", "assets"].compactMap { name in answer[name]?.int64.map { (name, $0) } }
    // Usually 0, so they are shown only when there are any.
    for (name, label) in [("looseLinks", "loose links"), ("removedLinks", "removed links")] {
      if let count = answer[name]?.int64, count > 0 { members.append((label, count)) }
    }
    if !missing.isEmpty { members.append(("missing", Int64(missing.count))) }
    tellJob(invocation, members, problemCount: problems.count)
    if !missing.isEmpty {
      terminal.problem(
        """
        aquifer: the backup is PARTIAL: it lacks \(Units.count(Int64(missing.count), "shard")). Keep the previous \
        backup: restore takes them from there
        """
      )
      return ExitCode.partial
    }
    return problems.isEmpty ? ExitCode.done : ExitCode.refused
  }

  func tellJob(_ invocation: Invocation, _ members: [(String, Int64)], problemCount: Int) {
    var writer = JSONWriter()
    writer.beginObject()
    for (name, value) in members { writer.member(name, value) }
    if problemCount > 0 { writer.member("problems", problemCount) }
    writer.endObject()
    show(writer.bytes, invocation)
  }

  /// An absolute path, because the server's working folder differs from this process's.
  private static func absolute(_ path: String?) -> String {
    guard let path, !path.hasPrefix("/"), let folder = getcwd(nil, 0) else { return path ?? "" }
    defer { free(folder) }
    return String(cString: folder) + "/" + path
  }

  /// Works on the folders directly; no service may use them meanwhile.
  func restoreBackup(_ invocation: Invocation) -> Int32 {
    var gaps = BackupRestore.Gaps.refused
    if invocation.flag("without-missing") { gaps = .empty }
    if let folder = invocation.value("missing-from") { gaps = .filled(from: folder) }
    let restore = BackupRestore(
      source: invocation.arguments[0], data: invocation.value("data") ?? "", directory: invocation.value("directory"),
      gaps: gaps
    ) {
      terminal.problem("restore: \($0)")
    }
    do {
      let manifest = try restore.run()
      let keys = Set(manifest.shards.flatMap(\.neededKeys)).sorted()
      if !keys.isEmpty {
        terminal.problem(
          """
          restore: the encryption keys \(keys.joined(separator: ", ")) are needed to read encrypted values and \
          contents; no backup has them
          """
        )
      }
      tellJob(
        invocation,
        [
          ("shards", Int64(manifest.shardCount)), ("records", Int64(manifest.recordCount)),
          ("bytes", manifest.byteCount),
        ],
        problemCount: manifest.problems.count)
      return ExitCode.done
    } catch StoreError.io(let reason), StoreError.full(let reason), StoreError.corrupt(let reason) {
      terminal.problem("aquifer: \(reason)")
    } catch {
      terminal.problem("aquifer: \(error)")
    }
    return ExitCode.refused
  }
}
