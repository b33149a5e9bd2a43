import Testing

@testable import ServiceKit

struct RepeatedStopTests {
  private let start = ContinuousClock.now

  /// The signals that are stops of their own.
  private func impatient(
    after first: StopSender?, _ signals: [(sender: StopSender, milliseconds: Int)]
  ) -> [Bool] {
    var stop = RepeatedStop(after: first, at: start)
    return signals.map { stop.isImpatient($0.sender, at: start + .milliseconds($0.milliseconds)) }
  }

  @Test func `a stop that the parent passes on late is the one that an init system told before`() {
    #expect(impatient(after: .other, [(.parent, 3000), (.parent, 4000)]) == [false, true])
  }

  @Test(arguments: [StopSender.parent, .other])
  func `the same sender's second signal is a stop of its own after a second`(sender: StopSender) {
    #expect(impatient(after: sender, [(sender, 999), (sender, 1000)]) == [false, true])
  }

  @Test func `a stop by another sender counts after the parent's`() {
    #expect(impatient(after: .parent, [(.other, 999), (.other, 1000)]) == [false, true])
  }
}
