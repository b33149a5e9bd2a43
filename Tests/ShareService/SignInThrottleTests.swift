// Tests of the pauses after wrong passwords.

import Crypto
import Foundation
import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct SignInThrottleTests {
  private func begin(_ throttle: inout SignInThrottle, _ name: String = "alice", _ address: String = "a", now: Int64)
    -> Int?
  {
    outcome(&throttle, name, [address], now: now).seconds
  }

  /// - Returns: the seconds to wait, or the counted attempt.
  private func outcome(
    _ throttle: inout SignInThrottle, _ name: String, _ networks: [String], now: Int64
  ) -> (seconds: Int?, counted: SignInThrottle.Attempt?) {
    outcome(&throttle, .name(name), networks, now: now)
  }

  private func outcome(
    _ throttle: inout SignInThrottle, _ target: SignInThrottle.Target, _ networks: [String], now: Int64
  ) -> (seconds: Int?, counted: SignInThrottle.Attempt?) {
    switch throttle.begin(target, from: SignInThrottle.Origin(networks: networks), now: now) {
    case .counted(let attempt): (nil, attempt)
    case .wait(let seconds): (seconds, nil)
    }
  }

  @Test func `the pause doubles up to its limit, and is forgotten after a quarter of an hour`() {
    let allowance = SignInThrottle.Allowance.pair
    #expect(
      (0..<15).map { allowance.pause(after: $0) / 1000 } == [0, 0, 0, 0, 0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
    #expect(allowance.pause(after: Int.max) == allowance.longestPause)
    var throttle = SignInThrottle()
    var now: Int64 = 0
    for _ in 0..<40 { if let seconds = begin(&throttle, now: now) { now += Int64(seconds) * 1000 } }
    #expect(begin(&throttle, now: now) != nil || begin(&throttle, now: now) != nil)
    #expect(begin(&throttle, now: now + allowance.memory) == nil)
  }

  @Test func `a throttled attempt does not make the pause longer`() {
    var throttle = SignInThrottle()
    for _ in 0..<5 { #expect(begin(&throttle, now: 0) == nil) }
    for _ in 0..<100 { #expect(begin(&throttle, now: 0) == 2) }
    #expect(begin(&throttle, now: 1_001) == 1)
    #expect(begin(&throttle, now: 2_000) == nil)
  }

  @Test func `an address is throttled whatever names it tries, and knowing one password does not help`() {
    var throttle = SignInThrottle()
    for attempt in 0..<30 {
      #expect(begin(&throttle, "\(attempt)", now: 0) == nil)
      if let own = outcome(&throttle, "own", ["a"], now: 0).counted { throttle.succeeded(own) }
    }
    #expect(begin(&throttle, "next", now: 0) != nil)
    #expect(begin(&throttle, "next", "b", now: 0) == nil)
  }

  @Test func `a name that is guessed at from everywhere leaves each address one try, for an hour after the last`()
    throws
  {
    var throttle = SignInThrottle()
    for attempt in 0..<SignInThrottle.nameBudget { #expect(begin(&throttle, "alice", "\(attempt)", now: 0) == nil) }
    throttle.succeeded(try #require(outcome(&throttle, "alice", ["home"], now: 0).counted))
    #expect(begin(&throttle, "alice", "home", now: 0) == nil)
    #expect(begin(&throttle, "alice", "home", now: 0) == 30)
    #expect(begin(&throttle, "bob", "home", now: 0) == nil)
    #expect(begin(&throttle, "bob", "home", now: 0) == nil)
    #expect(begin(&throttle, "alice", "home", now: 3_600_000) == nil)
    #expect(begin(&throttle, "alice", "home", now: 3_600_000) == nil)
  }

  @Test func `wrong codes, tokens and passkeys of an address keep others away only where its wrong passwords do`() {
    for target in [SignInThrottle.Target.code, .operatorToken, .passkey] {
      var throttle = SignInThrottle()
      for _ in 0..<29 { #expect(outcome(&throttle, target, ["a"], now: 0).seconds == nil) }
      #expect(begin(&throttle, now: 0) == nil)
      #expect(outcome(&throttle, target, ["a"], now: 0).seconds == 2)
      #expect(begin(&throttle, now: 0) == 2)
      #expect(outcome(&throttle, target, ["b"], now: 0).seconds == nil)
    }
  }

  @Test func `codes and tokens that are guessed at from everywhere leave each address one try, and passkeys do not`() {
    var throttle = SignInThrottle()
    for attempt in 0..<SignInThrottle.sharedBudget {
      #expect(outcome(&throttle, .code, ["\(attempt)"], now: 0).seconds == nil)
      #expect(outcome(&throttle, .operatorToken, ["\(attempt)"], now: 0).seconds == nil)
      #expect(outcome(&throttle, .passkey, ["\(attempt)"], now: 0).seconds == nil)
    }
    #expect(outcome(&throttle, .code, ["home"], now: 0).seconds == nil)
    #expect(outcome(&throttle, .code, ["home"], now: 0).seconds == 30)
    #expect(outcome(&throttle, .operatorToken, ["home"], now: 0).seconds == nil)
    #expect(outcome(&throttle, .operatorToken, ["home"], now: 0).seconds == 30)
    for _ in 0..<9 { #expect(outcome(&throttle, .passkey, ["home"], now: 0).seconds == nil) }
    // Half an hour later half of them no longer counts.
    #expect(outcome(&throttle, .code, ["0"], now: 1_800_000).seconds == nil)
    #expect(outcome(&throttle, .code, ["0"], now: 1_800_000).seconds == nil)
  }

  @Test func `many networks of IPv6 are throttled by the one around them, until their tries have drained`() {
    var throttle = SignInThrottle()
    func seconds(_ name: String, network: Int, customer: Int = 0, now: Int64 = 0) -> Int? {
      outcome(
        &throttle, name,
        ["\(customer).\(network / 256).\(network)/64", "\(customer).\(network / 256)/56", "\(customer)/48"], now: now
      ).seconds
    }
    for attempt in 0..<120 { #expect(seconds("\(attempt)", network: attempt) == nil) }
    #expect(seconds("next", network: 200) == 2)
    for attempt in 120..<480 { #expect(seconds("\(attempt)", network: attempt * 256) == nil) }
    #expect(seconds("next", network: 500 * 256) == 2)
    #expect(seconds("next", network: 0, customer: 1) == nil)
    // After one of fifteen minutes a fifteenth is forgotten: 8 of the 120, 32 of the 480.
    for attempt in 0..<8 { #expect(seconds("later \(attempt)", network: 130 + attempt, now: 60_000) == nil) }
    #expect(seconds("later", network: 140, now: 60_000) == 2)
    for attempt in 0..<24 { #expect(seconds("later \(attempt)", network: (600 + attempt) * 256, now: 60_000) == nil) }
    #expect(seconds("later", network: 700 * 256, now: 60_000) == 2)
  }

  @Test func `an attempt that was withdrawn is as if it had not been made`() throws {
    var throttle = SignInThrottle()
    for _ in 0..<200 { throttle.withdraw(try #require(outcome(&throttle, "alice", ["home"], now: 0).counted)) }
    for _ in 0..<5 { #expect(begin(&throttle, "alice", "home", now: 0) == nil) }
    #expect(begin(&throttle, "alice", "home", now: 0) == 2)
    // It does not restart the pause either.
    throttle.withdraw(try #require(outcome(&throttle, "alice", ["home"], now: 2_000).counted))
    #expect(begin(&throttle, "alice", "home", now: 2_001) == nil)
    // Other attempts stay counted.
    let (first, second) = (
      outcome(&throttle, "bob", ["home"], now: 2_001).counted, outcome(&throttle, "bob", ["home"], now: 2_001).counted
    )
    throttle.withdraw(try #require(first))
    for _ in 0..<4 { #expect(begin(&throttle, "bob", "home", now: 2_001) == nil) }
    #expect(begin(&throttle, "bob", "home", now: 2_001) == 2)
    throttle.withdraw(try #require(second))
    #expect(begin(&throttle, "bob", "home", now: 2_001) == nil)
  }

  @Test func `a clock that is set back locks nobody out for longer`() {
    var throttle = SignInThrottle()
    for _ in 0..<5 { _ = begin(&throttle, now: 10_000_000) }
    #expect(begin(&throttle, now: 0) == 2)
  }

  @Test func `memory is bounded, and those who are throttled last are remembered`() {
    var throttle = SignInThrottle()
    for number in 0..<SignInThrottle.rowLimit {
      #expect(begin(&throttle, "\(number)", "\(number)", now: Int64(number)) == nil)
    }
    let latest = SignInThrottle.rowLimit - 1
    for _ in 0..<4 { _ = begin(&throttle, "\(latest)", "\(latest)", now: Int64(latest)) }
    #expect(begin(&throttle, "\(latest)", "\(latest)", now: Int64(latest)) != nil)
  }
}
