// Processes that are killed while they work: what was acknowledged is there, and nothing is there in part.

import Foundation
import Sanitizers
import Testing

@testable import ReplicaStore

@Test(arguments: Victim.Kind.allCases) func `what a killed process acknowledged is there, once and whole`(
  kind: Victim.Kind
) async throws {
  let victim = try Victim(kind)
  var random = SeededGenerator(kind.rawValue.count)
  for round in 0..<12 {
    try victim.kill(after: Int.random(in: 1...8, using: &random), spins: Int.random(in: 0...400, using: &random))
    try await victim.check("kill \(round)")
    // At most one piece of work was done whose answer nobody saw; the next process begins behind it.
    let stored = try #require(try await victim.stored()).halves.count
    #expect(kind == .resets || stored - Set(victim.acknowledged()).count <= 12)
  }
  #expect(victim.acknowledged().count > 20)
}

/// Processes die by themselves, before a step of the disk or a statement. A sanitizer's runtime refuses the library
/// that counts them.
@Suite(.enabled(if: !Sanitizer.isOn)) struct DeathTests {
  private let folder: Folder
  private let library: String

  init() throws {
    folder = try World.folder()
    library = try Victim.library(in: folder)
  }

  /// What happens to unsynced work differs from death to death: nothing, all is lost, sectors are lost.
  private func sweep(_ kind: Victim.Kind, after begun: Int, within count: Int) async throws {
    let victim = try Victim(kind, library: library)
    var random = SeededGenerator(7)
    try victim.begin(begun)
    var step = 1
    while try victim.die(.step(step), within: count, isLost: Self.loss(step, &random)) {
      try await victim.check("step \(step)")
      if kind == .consumes {
        // What the reader missed shows when the next process reads on.
        _ = try victim.die(.step(.max), within: 1) { false }
        try await victim.check("after step \(step)")
      }
      try victim.goBack()
      step += 1
    }
    #expect(step > 40)
    #expect(victim.acknowledged().count == begun + count)
  }

  @Test(arguments: Victim.Kind.allCases)
  func `a process that dies before any step of the disk, with the power or alone, loses nothing that it told of`(
    kind: Victim.Kind
  ) async throws { try await sweep(kind, after: 2, within: 1) }

  @Test func `a store's first saves and contents survive a death before any step of the disk`() async throws {
    try await sweep(.contents, after: 0, within: 2)
  }

  /// CI tries every third statement, another one with each migration.
  @Test(arguments: 4..<7, [Victim.Kind.migrates, .tracks])
  func `a migration that dies before any of its statements is whole or not begun`(begun: Int, kind: Victim.Kind)
    async throws
  {
    let victim = try Victim(kind, library: library)
    try victim.begin(begun)
    let stride = Self.deaths == nil ? 3 : 1
    var statement = begun % stride + 1
    while try victim.die(.statement(statement), within: 1, isLost: { false }) {
      try await victim.check("statement \(statement)")
      try victim.goBack()
      statement += stride
    }
    #expect(statement > 50)
  }

  @Test func `a store that does not sync its commits loses with the power what it told of`() async throws {
    let victim = try Victim(.saves, library: library, isControl: true)
    _ = try victim.die(.step(.max), within: 1, isLost: { false })
    #expect(try victim.die(.step(60), within: 100, isLost: { true }))
    let stored = try #require(try await victim.stored()).halves
    #expect(!Set(victim.acknowledged()).isSubset(of: stored.keys))
  }

  /// `AQUIFER_KILLS`: how many processes die at random, by hand.
  private static let deaths = ProcessInfo.processInfo.environment["AQUIFER_KILLS"].flatMap { Int($0) }

  @Test(.enabled(if: Self.deaths != nil))
  func `as many processes as are asked for die at random, and nothing that they told of is lost`() async throws {
    let count = Self.deaths ?? 0
    var random = SeededGenerator(Int(ProcessInfo.processInfo.processIdentifier))
    var told = 0
    for kind in Victim.Kind.allCases {
      var victim = try Victim(kind, library: library)
      for death in 0..<count / Victim.Kind.allCases.count {
        // A store of its own now and then, so that checking stays short.
        if death % 50 == 49 {
          told += victim.acknowledged().count
          victim = try Victim(kind, library: library)
        }
        let step = Int.random(in: 1...400, using: &random)
        _ = try victim.die(.step(step), within: 20, isLost: Self.loss(death, &random))
        try await victim.check("death \(death), step \(step)")
      }
      told += victim.acknowledged().count
      print("\(kind): \(count / Victim.Kind.allCases.count) deaths; \(told) pieces of work told so far")
    }
  }

  private static func loss(_ number: Int, _ random: inout SeededGenerator) -> () -> Bool {
    switch number % 3 {
    case 0: return { false }
    case 1: return { true }
    default:
      var own = SeededGenerator(Int.random(in: 0..<Int.max, using: &random))
      return { Bool.random(using: &own) }
    }
  }
}
