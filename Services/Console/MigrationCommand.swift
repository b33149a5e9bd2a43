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

  func renew(_ invocation: Invocation) throws(UsageError) -> Int32 {
    guard case .database(let database) = shardPlace("records", KeyRing(), invocation) else {
      throw UsageError(
        "--records is no address of PostgreSQL. `aquifer restore` renews the shards that it puts into a folder",
        path: invocation.command.path)
    }
    do {
      tellJob(invocation, [("shards", Int64(try database.renewRestored()))], problemCount: 0)
      return ExitCode.done
    } catch StoreError.io(let reason), StoreError.unreachable(let reason), StoreError.corrupt(let reason),
      StoreError.foreign(let reason)
    {
      terminal.problem("aquifer: \(reason). Give the command again before a worker starts")
    } catch {
      terminal.problem("aquifer: \(error). Give the command again before a worker starts")
    }
    return ExitCode.refused
  }

  private func shardPlace(_ option: String, _ keys: KeyRing, _ invocation: Invocation) -> ShardPlace {
    let text = invocation.value(option) ?? ""
    guard PostgreSQLConfiguration.isAddress(text) else {
      return .files(SQLiteConfiguration(directory: text + "/shards", keys: keys))
    }
    var configuration = PostgreSQLConfiguration(address: text, keys: keys)
    configuration.allowsAsynchronous = invocation.flag("allow-asynchronous")
    return .database(configuration)
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
