// What tests know of the sanitizer that they run with.

import Foundation

/// A sanitizer makes a program ten times as slow and more, and looks at what code does, not at what comes out: a few of many random runs are enough for it.
package enum Sanitizer {
  /// Whether this program was built with one, as Tests/Sanitizers/run says.
  package static let isOn = ProcessInfo.processInfo.environment["AQUIFER_SANITIZER"] != nil

  /// The first `count` of `cases` with a sanitizer, all of them without one.
  package static func few<Cases: Collection>(_ count: Int, of cases: Cases) -> [Cases.Element] { Array(isOn ? cases.prefix(count) : cases[...]) }
}
