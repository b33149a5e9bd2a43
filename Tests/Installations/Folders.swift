// A run's folder, the program's own folder, and the program's output.

import Glibc

/// Makes a new folder in /tmp: it holds sockets, whose paths must be short.
package func temporaryFolder(named name: String) throws -> String {
  var template = Array(("/tmp/\(name)-" + String(repeating: "X", count: 6)).utf8CString)
  guard mkdtemp(&template) != nil else { throw RunError("no folder can be made in /tmp") }
  return String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
}

package func removeFolder(_ folder: String) {
  var arguments: [UnsafeMutablePointer<CChar>?] = ["rm", "-rf", folder].map { (word: String) in strdup(word) } + [nil]
  var pid: pid_t = 0
  if posix_spawnp(&pid, "rm", nil, nil, &arguments, environ) == 0 { waitpid(pid, nil, 0) }
  for argument in arguments { free(argument) }
}

/// The folder of this executable.
package func ownFolder() -> String {
  guard let path = realpath("/proc/self/exe", nil) else { return "." }
  defer { free(path) }
  return String(
    String(cString: path).split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/"))
}

package func write(_ bytes: [UInt8], to path: String) throws {
  guard let file = fopen(path, "w") else { throw RunError("\(path) can't be written") }
  defer { fclose(file) }
  guard fwrite(bytes, 1, bytes.count, file) == bytes.count else { throw RunError("\(path) can't be written") }
}

/// Prints at once, because a run takes minutes.
package func say(_ text: String) { put(text, 1) }

package func complain(_ text: String) { put(text, 2) }

private func put(_ text: String, _ descriptor: Int32) {
  _ = "\(text)\n".withCString { Glibc.write(descriptor, $0, strlen($0)) }
}
