import Records
import Testing

@testable import Gateway

@Suite struct PartBudgetTests {
  private let budget = PartBudget(PartBudget.Limits(total: 30, perUser: 20))

  private func problem(_ holding: PartBudget.Holding, _ count: Int) -> ServerErrorCode? {
    do throws(RecordError) {
      try holding.grow(by: count)
      return nil
    } catch {
      return error.code
    }
  }

  @Test func `a user has his share to its last byte, and is throttled beyond it`() {
    let holding = PartBudget.Holding(budget, of: "alice")
    #expect(problem(holding, 20) == nil)
    #expect(problem(holding, 1) == .throttled && problem(PartBudget.Holding(budget, of: "alice"), 1) == .throttled)
    #expect(budget.counts == (held: 20, refused: 2))
    holding.shrink(by: 1)
    #expect(problem(holding, 1) == nil)
  }

  @Test func `all together have theirs, and whoever comes then comes again`() {
    let (alice, bob) = (PartBudget.Holding(budget, of: "alice"), PartBudget.Holding(budget, of: "bob"))
    #expect(problem(alice, 20) == nil && problem(bob, 10) == nil)
    #expect(problem(bob, 1) == .tryAgainLater)
  }

  @Test func `a request's memory is given back with it`() {
    do {
      let holding = PartBudget.Holding(budget, of: "alice")
      #expect(problem(holding, 20) == nil)
      holding.shrink(by: 5)
      #expect(budget.counts.held == 15)
    }
    #expect(budget.counts == (held: 0, refused: 0))
    #expect(problem(PartBudget.Holding(budget, of: "alice"), 20) == nil)
  }
}
