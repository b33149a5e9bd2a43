// `aquifer encryption-key add`: creates the file of keys that workers and gateways read, and rotates the keys.

import Crypto
import Glibc

enum KeyFile {
  /// Appends a new key. Processes seal with it from their next start on; the earlier keys still open what they sealed.
  /// Additions at the same time follow each other.
  /// - Parameter unlessPresent: true: a file that has a key stays as it is.
  /// - Returns: true when a key was added. The file changes atomically and durably, and keeps its owner and its mode.
  /// - Throws: for a file that can't be read or written, or is no key file; nothing was changed then.
  static func addKey(to path: String, unlessPresent: Bool) throws(SystemProblem) -> Bool {
    if unlessPresent, try text(of: path) != nil { return false }
    return try DurableFile.alone(inFolderOf: path) { () throws(SystemProblem) -> Bool in
      var lines = try text(of: path) ?? ""
      // Another process may have added one meanwhile.
      if unlessPresent, !lines.isEmpty { return false }
      if !lines.isEmpty, !lines.hasSuffix("\n") { lines += "\n" }
      try DurableFile.write(Array((lines + KeyRing.newKey() + "\n").utf8), to: path)
      return true
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
      let isAdded = try KeyFile.addKey(to: path, unlessPresent: invocation.flag("unless-present"))
      if isAdded {
        terminal.output(
          "\(path) has a new key. Restart workers and gateways to use it, and keep a copy apart from the data.")
      }
      return ExitCode.done
    } catch {
      terminal.problem("aquifer: \(error.reason)")
      return ExitCode.refused
    }
  }
}
