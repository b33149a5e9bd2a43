// The table of rules beside what the planes do: every kind of write, each rule.

import Testing
@testable import ZoneCommit

struct WriteRulesTests {
  /// Cells that are tried.
  private static let situations =
    BringingPath.all.flatMap(\.situations) + BringingSituations.all + MergeSituations.all + RetrySituations.all
    + ShareActSituations.all + LooseLinkSituations.all + ZoneSituations.all

  /// Cells that no situation leads to, each with the reason.
  private static let unreachable: [(cell: RuleCell, reason: String)] = [
    (RuleCell(.merge, .merge), "every merge is what the rule asks for"),
    (RuleCell(.shareAct, .references), "the fields of shares are declared: none is a reference"),
    (RuleCell(.shareAct, .uniqueness), "a share is of no entity, and rules speak of entities"),
    (RuleCell(.shareAct, .merge), "a share is of no entity, and rules speak of entities"),
    (RuleCell(.looseLinks, .uniqueness), "a deletion gives no record a value"),
    (RuleCell(.looseLinks, .merge), "a deletion gives no record a value"),
    (RuleCell(.makeZone, .references), "a zone is made without records"),
    (RuleCell(.makeZone, .uniqueness), "a zone is made without records"),
    (RuleCell(.makeZone, .merge), "a zone is made without records"),
    (RuleCell(.endZone, .uniqueness), "a deletion gives no record a value"),
    (RuleCell(.endZone, .merge), "a deletion gives no record a value"),
    (RuleCell(.removeUser, .permission), "no user asks for it, and no GRANT holds in a private database"),
    (RuleCell(.removeUser, .uniqueness), "a deletion gives no record a value"),
    (RuleCell(.removeUser, .merge), "a deletion gives no record a value"),
  ]

  @Test(arguments: ZoneWrite.allCases, WriteRule.allCases)
  func `a write path is held to the rules that the table says`(_ write: ZoneWrite, _ rule: WriteRule) async throws {
    let cell = RuleCell(write, rule)
    guard let situation = Self.situations.first(where: { $0.cell == cell }) else {
      #expect(!WriteRules.rules(of: write)[rule].applies, "\(cell): a rule that applies can be reached")
      return
    }
    try await ObjectPlaneWorld.with(situation.kind, keepsPastStates: true) { world in
      let hasTakenEffect = try await situation.observe(RuleWorld(world))
      let application = WriteRules.rules(of: write)[rule]
      #expect(hasTakenEffect == application.applies, "\(cell): the table says \(application)")
    }
  }

  @Test func `every cell of the table is tried or said to be out of reach, and none twice`() {
    let cells = Self.situations.map(\.cell) + Self.unreachable.map(\.cell)
    let all = ZoneWrite.allCases.flatMap { write in WriteRule.allCases.map { RuleCell(write, $0) } }
    #expect(Set(cells) == Set(all))
    #expect(cells.count == all.count, "\(Dictionary(grouping: cells) { $0 }.filter { $0.value.count > 1 }.keys)")
    for (cell, reason) in Self.unreachable { #expect(!reason.isEmpty, "\(cell)") }
  }
}
