import Records
import Testing

@Suite struct `A cost budget` {
  private struct Unwanted: Error {}

  @Test func `is spent to its limit, and not beyond`() throws {
    var budget = CostBudget(limit: 100)
    for _ in 0..<100 { try budget.spend() }
    #expect(budget.spent == 100)
    #expect(throws: CostBudget.Exceeded.self) { try budget.spend() }
    // A spent budget stays spent.
    #expect(throws: CostBudget.Exceeded.self) { try budget.spend() }
  }

  @Test func `counts bytes in blocks, and an empty value as something`() throws {
    var budget = CostBudget(limit: 1000)
    try budget.spend(bytes: 0)
    #expect(budget.spent == 1)
    try budget.spend(bytes: 640)
    #expect(budget.spent == 12)
  }

  @Test func `asks now and then whether the work is wanted, and ends it when not`() throws {
    var (asked, isWanted) = (0, true)
    var budget = CostBudget(limit: 1_000_000) {
      asked += 1
      if !isWanted { throw Unwanted() }
    }
    for _ in 0..<100_000 { try budget.spend() }
    #expect((5...7).contains(asked), "\(asked)")
    isWanted = false
    #expect(throws: Unwanted.self) { for _ in 0..<20_000 { try budget.spend() } }
    #expect(budget.spent < 120_000)
  }
}
