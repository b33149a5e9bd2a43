// The sanitizer that tests run with, if any.

import Foundation

/// A sanitizer slows a program down at least ten times and checks its operations, not its results, so a few random runs
/// suffice.
package enum Sanitizer {
  /// True when this program was built with a sanitizer (Tests/Sanitizers/run).
  package static let isOn = ProcessInfo.processInfo.environment["AQUIFER_SANITIZER"] != nil

  /// The first `count` of `cases` with a sanitizer, all of them without one.
  package static func few<Cases: Collection>(_ count: Int, of cases: Cases) -> [Cases.Element] {
    Array(isOn ? cases.prefix(count) : cases[...])
  }
}
