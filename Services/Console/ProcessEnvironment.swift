// The environment that this process was started with.

import Glibc

enum ProcessEnvironment {
  /// `NAME=value`, in the environment's order.
  static var lines: [String] {
    var lines: [String] = []
    var pointer = environ
    while let entry = pointer.pointee {
      lines.append(String(cString: entry))
      pointer += 1
    }
    return lines
  }

  /// Without empty values, which count as absent, as they do for the services.
  static var variables: [String: String] {
    var variables: [String: String] = [:]
    for line in lines {
      guard let equals = line.firstIndex(of: "="), line.index(after: equals) < line.endIndex else { continue }
      variables[String(line[..<equals])] = String(line[line.index(after: equals)...])
    }
    return variables
  }
}
