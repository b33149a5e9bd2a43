// A user who takes no part in an attack: saves a record and looks it up, again and again.

import HTTPClient
import Installations

/// The results of a bystander's calls over a period.
struct Calm: Sendable {
  let saves: Times
  let lookups: Times
  /// Calls that were not answered with 200, or had an error in an item, by reason.
  let failures: [String: Int]

  var failureCount: Int { failures.values.reduce(0, +) }
}

struct Bystander: Sendable {
  let user: UserClient

  private static let pause: Duration = .milliseconds(10)
  private static let moment: Duration = .milliseconds(200)

  /// Saves and looks up while `goesOn` returns true.
  private func calm(while goesOn: () -> Bool) async -> Calm {
    var (saves, lookups): ([Double], [Double]) = ([], [])
    var failures: [String: Int] = [:]
    var number = 0
    func call(_ name: String, _ body: String, isLastOfConnection: Bool = false) async -> Double {
      let start = monotonicNanoseconds()
      do throws(HTTPClientError) {
        let answer = try await user.records(name, Array(body.utf8), isLastOfConnection: isLastOfConnection)
        if answer.text != "200" { failures["\(name) \(answer.text)", default: 0] += 1 }
      } catch {
        failures["\(name) \(error.kind)", default: 0] += 1
      }
      return Double(monotonicNanoseconds() - start) / 1e6
    }
    while goesOn() {
      number += 1
      let record =
        #"""
        {"recordName":"bystander-\#(number % 50)","recordType":"Note","fields":{"text":{"value":"number \#(number)"}}}
        """#
      saves.append(
        await call(
          "records/modify",
          #"{"zoneID":{"zoneName":"Zone"},"operations":[{"operationType":"forceUpdate","record":\#(record)}]}"#))
      // The next save needs a new connection, like an app that was just opened.
      lookups.append(
        await call(
          "records/lookup", #"{"zoneID":{"zoneName":"Zone"},"records":[{"recordName":"bystander-\#(number % 50)"}]}"#,
          isLastOfConnection: number % 4 == 0))
      // Dropped because a cancelled sleep leads to the check of the time.
      try? await Task.sleep(for: Self.pause)
    }
    return Calm(saves: Times(saves), lookups: Times(lookups), failures: failures)
  }

  /// Calls until all are answered quickly for a moment.
  /// - Returns: the calls of the last moment; `isQuiet` is false when none was quick within `limit`.
  func quiet(within limit: Duration) async -> (calm: Calm, isQuiet: Bool) {
    let end = ContinuousClock.now + limit
    while true {
      let calm = await calm(for: Self.moment)
      if calm.failureCount == 0, max(calm.saves.max, calm.lookups.max) < 100 { return (calm, true) }
      if ContinuousClock.now >= end { return (calm, false) }
    }
  }

  func calm(for duration: Duration) async -> Calm {
    let end = ContinuousClock.now + duration
    return await calm { ContinuousClock.now < end }
  }
}
