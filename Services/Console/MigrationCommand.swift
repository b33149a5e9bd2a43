// `aquifer migrate` and `aquifer renew`, which work on the shards of stopped workers directly, without a server.

import Crypto
import RecordStore
import Synchronization

extension Console {
  func migrate(_ invocation: Invocation) async throws(UsageError) -> Int32 {
    let keys = try keys(invocation)
    let single = try invocation.value("shard").map { text throws(UsageError) in
      guard let shard = Int(text) else {
        throw UsageError("--shard is the number of a shard, not \(text)", path: invocation.command.path)
      }
      return shard
    }
    let (source, target) = (shardPlace("from", keys, invocation), shardPlace("to", keys, invocation))
    if case .files = source, case .files = target {
      throw UsageError(
        "--from and --to are folders. Give an address of PostgreSQL as one of them", path: invocation.command.path)
    }
    let terminal = terminal
    let state = Mutex((told: terminal.now(), shard: 0, rows: 0))
    let migration = StoreMigration(from: source, to: target) { progress in
      let line = state.withLock { state -> String? in
        switch progress {
        case .began(let shard): state.shard = shard
        case .rows(let count): state.rows += count
        }
        guard terminal.now() - state.told >= Self.quietTime else { return nil }
        state.told = terminal.now()
        return "migrate: shard \(state.shard), \(state.rows) rows copied and compared"
      }
      if let line { terminal.problem(line) }
    }
    do {
      let tally = try await migration.run(only: single, isTrial: invocation.flag("dry-run"))
      tellJob(
        invocation,
        [("moved", Int64(tally.moved)), ("present", Int64(tally.present)), ("rows", Int64(tally.rows))],
        problemCount: 0)
      return ExitCode.done
    } catch StoreError.io(let reason), StoreError.full(let reason), StoreError.corrupt(let reason),
      StoreError.foreign(let reason), StoreError.unreachable(let reason), StoreError.missingKey(let reason)
    {
      terminal.problem("aquifer: \(reason). A shard that has not moved is where it was")
    } catch {
      terminal.problem("aquifer: \(error)")
    }
    return ExitCode.refused
  }

  /// Renews each cluster that it can, whatever becomes of the others.
  func renew(_ invocation: Invocation) throws(UsageError) -> Int32 {
    guard let clusters = ClusterAddress.list(invocation.value("records") ?? "") else {
      throw UsageError(
        """
        --records is no address of PostgreSQL, and no list of clusters of different names. `aquifer restore` renews \
        the shards that it puts into a folder
        """,
        path: invocation.command.path)
    }
    var (shardCount, code) = (0, ExitCode.done)
    for cluster in clusters {
      let reason: String
      do {
        shardCount += try database(cluster.address, KeyRing(), invocation).renewRestored()
        continue
      } catch StoreError.io(let text), StoreError.unreachable(let text), StoreError.corrupt(let text),
        StoreError.foreign(let text)
      {
        reason = text
      } catch {
        reason = "\(error)"
      }
      let subject = clusters.count > 1 ? "the cluster \(cluster.name): " : ""
      terminal.problem("aquifer: \(subject)\(reason). Give the command again before a worker starts")
      code = ExitCode.refused
    }
    if code == ExitCode.done { tellJob(invocation, [("shards", Int64(shardCount))], problemCount: 0) }
    return code
  }

  private func shardPlace(_ option: String, _ keys: KeyRing, _ invocation: Invocation) -> ShardPlace {
    let text = invocation.value(option) ?? ""
    guard PostgreSQLConfiguration.isAddress(text) else {
      return .files(SQLiteConfiguration(directory: text + "/shards", keys: keys))
    }
    return .database(database(text, keys, invocation))
  }

  private func database(_ address: String, _ keys: KeyRing, _ invocation: Invocation) -> PostgreSQLConfiguration {
    var configuration = PostgreSQLConfiguration(address: address, keys: keys)
    configuration.allowsAsynchronous = invocation.flag("allow-asynchronous")
    return configuration
  }

  private func keys(_ invocation: Invocation) throws(UsageError) -> KeyRing {
    guard let path = invocation.value("encryption-key") else { return KeyRing() }
    let text: String
    do throws(ModelFile.Problem) {
      text = String(decoding: try ModelFile.read(path), as: UTF8.self)
    } catch {
      throw UsageError(error.reason, path: invocation.command.path)
    }
    do throws(KeyFileError) {
      return try KeyRing(parsing: text)
    } catch {
      throw UsageError("\(path) is not a key file: \(error.reason)", path: invocation.command.path)
    }
  }
}
