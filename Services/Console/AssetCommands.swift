// `aquifer assets copy`, which works on the places of contents directly, without a server.

import Assets
import Crypto
import S3
import Synchronization

extension Console {
  func copyAssets(_ invocation: Invocation) async throws(UsageError) -> Int32 {
    let source = try place("from", invocation)
    let target = try place("to", invocation)
    let terminal = terminal
    let told = Mutex(terminal.now())
    let copy = AssetCopy(from: source, to: target, now: { terminal.now() / 1000 }) { tally in
      let isDue = told.withLock { last in
        let now = terminal.now()
        guard now - last >= Self.quietTime else { return false }
        last = now
        return true
      }
      if isDue {
        terminal.problem(
          "assets copy: \(tally.copied) copied, \(tally.copiedByteCount) bytes; \(tally.present) were there")
      }
    }
    let tally: AssetCopy.Tally
    do throws(AssetError) {
      tally = try await copy.run()
    } catch {
      terminal.problem("aquifer: \(error.reason). What is copied stays; give the command again to go on")
      return ExitCode.refused
    }
    for problem in tally.problems { terminal.problem("aquifer: \(problem); it was not copied") }
    tellJob(
      invocation,
      [("copied", Int64(tally.copied)), ("bytes", tally.copiedByteCount), ("present", Int64(tally.present))],
      problemCount: tally.problems.count)
    return tally.problems.isEmpty ? ExitCode.done : ExitCode.refused
  }

  private func place(_ option: String, _ invocation: Invocation) throws(UsageError) -> any StoredContents {
    let text = invocation.value(option) ?? ""
    guard text.hasPrefix(S3Location.scheme) else { return AssetFolder(directory: text) }
    let location: S3Location
    do throws(S3Location.Fault) {
      location = try S3Location(text)
    } catch {
      throw UsageError("--\(option) \(error.reason)", path: invocation.command.path)
    }
    let terminal = terminal
    return AssetBucket(
      S3Signer(location: location, credentials: try credentials(invocation)), clock: { terminal.now() / 1000 })
  }

  private func credentials(_ invocation: Invocation) throws(UsageError) -> S3Credentials {
    guard let path = invocation.value("assets-credentials") else {
      if let found = S3Credentials(environment: { environment[$0] }) { return found }
      throw UsageError(
        "The bucket's access key is missing. Give --assets-credentials, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        path: invocation.command.path)
    }
    do throws(ModelFile.Problem) {
      if let found = S3Credentials(parsing: String(decoding: try ModelFile.read(path), as: UTF8.self)) { return found }
    } catch {
      throw UsageError(error.reason, path: invocation.command.path)
    }
    throw UsageError(
      "\(path) lacks aws_access_key_id or aws_secret_access_key", path: invocation.command.path)
  }
}
