// `aquifer encryption-key`: creates the file of keys that workers and gateways read, and replaces the key that seals.

import Crypto
import Glibc

/// The last key of a file seals. A key that waits is an earlier line, below a comment of its own, so that every process
/// can open what the first of them is going to seal with it. Changes at the same time follow each other. The file
/// changes atomically and durably, and keeps its owner and its mode.
enum KeyFile {
  enum Addition {
    /// The file had a key, and stays as it was.
    case none
    /// The file's first key, which seals.
    case first
    /// A key that opens, and does not seal until `useKeys`.
    case waiting
  }

  private static let mark = "# The next line is a key that opens and does not seal: aquifer encryption-key use"

  /// Adds a new key. Processes know it from their next start on.
  /// - Parameter unlessPresent: true: a file that has a key stays as it is.
  /// - Throws: for a file that can't be read or written, or is no key file; nothing was changed then.
  static func addKey(to path: String, unlessPresent: Bool) throws(SystemProblem) -> Addition {
    if unlessPresent, try text(of: path) != nil { return .none }
    return try DurableFile.alone(inFolderOf: path) { () throws(SystemProblem) -> Addition in
      let key = KeyRing.newKey()
      guard let earlier = try text(of: path) else {
        try DurableFile.write(Array((key + "\n").utf8), to: path)
        return .first
      }
      // Another process may have added one meanwhile.
      if unlessPresent { return .none }
      try DurableFile.write(Array("\(mark)\n\(key)\n\(earlier)".utf8), to: path)
      return .waiting
    }
  }

  /// Makes the newest key that waits the one that seals. Processes seal with it from their next start on; the earlier
  /// keys still open what they sealed.
  /// - Throws: for a file that can't be read or written, is no key file, or has no key that waits; nothing was changed
  ///   then.
  static func useKeys(of path: String) throws(SystemProblem) {
    try DurableFile.alone(inFolderOf: path) { () throws(SystemProblem) in
      guard let text = try text(of: path) else { throw SystemProblem(giving: "\(path) is missing") }
      var (kept, waiting): ([Substring], [Substring]) = ([], [])
      var isWaiting = false
      for line in text.split(whereSeparator: \.isNewline) {
        if line == mark {
          isWaiting = true
        } else if isWaiting, !line.hasPrefix("#") {
          waiting.append(line)
          isWaiting = false
        } else {
          kept.append(line)
        }
      }
      guard !waiting.isEmpty else {
        throw SystemProblem(giving: "\(path) has no key that waits: `aquifer encryption-key add` makes one")
      }
      // The newest was added first in the file.
      let lines = kept + waiting.reversed()
      try DurableFile.write(Array((lines.joined(separator: "\n") + "\n").utf8), to: path)
    }
  }

  /// - Returns: nil when there is no file.
  /// - Throws: also for a file that is no key file.
  private static func text(of path: String) throws(SystemProblem) -> String? {
    guard access(path, F_OK) == 0 else { return nil }
    let text: String
    do throws(ModelFile.Problem) {
      text = String(decoding: try ModelFile.read(path), as: UTF8.self)
    } catch {
      throw SystemProblem(giving: error.reason)
    }
    do throws(KeyFileError) {
      _ = try KeyRing(parsing: text)
    } catch {
      throw SystemProblem(giving: "\(path) is not a key file: \(error.reason)")
    }
    return text
  }
}

extension Console {
  func addEncryptionKey(_ invocation: Invocation) -> Int32 {
    let path = invocation.arguments[0]
    do throws(SystemProblem) {
      switch try KeyFile.addKey(to: path, unlessPresent: invocation.flag("unless-present")) {
      case .none: break
      case .first:
        terminal.output(
          "\(path) has a new key. Restart workers and gateways to use it, and keep a copy apart from the data.")
      case .waiting:
        terminal.output(
          "\(path) has a new key, which does not seal yet. Keep a copy apart from the data, and restart all workers "
            + "and gateways. Then run `aquifer encryption-key use`.")
      }
      return ExitCode.done
    } catch {
      terminal.problem("aquifer: \(error.reason)")
      return ExitCode.refused
    }
  }

  func useEncryptionKeys(_ invocation: Invocation) -> Int32 {
    let path = invocation.arguments[0]
    do throws(SystemProblem) {
      try KeyFile.useKeys(of: path)
      terminal.output("The added key of \(path) seals. Restart workers and gateways to use it.")
      return ExitCode.done
    } catch {
      terminal.problem("aquifer: \(error.reason)")
      return ExitCode.refused
    }
  }
}
