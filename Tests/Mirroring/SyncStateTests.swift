// Where objects and stores stand, and why: decided from facts alone (V3).

import Mirroring
import Records
import Testing

private let problem = MirroringProblem(
  recordName: "p", entity: "Post", code: .badRequest, reason: "Post.title: is too long")

private func facts(
  _ stored: SyncFacts.Stored, pending: [Int64] = [], problem: MirroringProblem? = nil, isHeld: Bool = false,
  conflicts: [Int64] = [], isExporting: Bool = false
) -> SyncFacts {
  SyncFacts(
    stored: stored, pendingTransactions: pending, problem: problem, isHeld: isHeld, conflicts: conflicts,
    store: StoreFacts(pendingCount: Int64(pending.count), isExporting: isExporting))
}

@Test(arguments: [
  (facts(.record), SyncState.clean, ["exported"]), (facts(.tombstone), .clean, ["deleted"]),
  (facts(.nothing), .clean, ["unknown"]),
  (facts(.nothing, pending: [3, 4]), .dirty, ["notExported", "waiting"]),
  (facts(.record, pending: [3], isExporting: true), .inFlight, ["notExported", "exporting"]),
  (facts(.record, problem: problem), .clean, ["leftOut"]),
  (facts(.record, problem: problem, isHeld: true), .quarantined, ["quarantined"]),
  (facts(.record, pending: [7], problem: problem), .dirty, ["leftOut", "notExported", "waiting"]),
  (
    facts(.record, pending: [7], problem: problem, isHeld: true, conflicts: [1]), .quarantined,
    ["quarantined", "conflict", "notExported", "waiting"]
  ),
  (facts(.record, pending: [7], conflicts: [1]), .conflict, ["conflict", "notExported", "waiting"]),
])
func `an object's state follows from what is known of it, and every reason is told`(
  _ facts: SyncFacts, _ state: SyncState, _ codes: [String]
) {
  #expect(facts.state == state)
  #expect(facts.reasons.map(\.code) == codes)
  #expect(facts.reasons.allSatisfy { !$0.text.isEmpty })
  #expect(facts.isUnknown == (codes == ["unknown"]))
}

@Test func `a reason names the transactions and the property, and nothing else of the object`() {
  let texts = facts(.record, pending: [7, 9], problem: problem).reasons.map(\.text)
  #expect(texts[0] == "The latest export left it out: Post.title: is too long")
  #expect(texts[1] == "2 saved transactions with changes of it, from number 7 on, not exported")
  #expect(facts(.record, pending: [7]).reasons[0].text.hasPrefix("1 saved transaction with"))
}

@Test(arguments: [
  (StoreFacts(pendingCount: 0), StoreFacts.Activity.nothingPending),
  (StoreFacts(pendingCount: 0, quarantinedCount: 2), .quarantined),
  (StoreFacts(pendingCount: 1), .exporting), (StoreFacts(pendingCount: 1, isExporting: true), .exporting),
  (StoreFacts(pendingCount: 1, isFailing: true), .failing),
  (StoreFacts(pendingCount: 1, isFailing: true, throttledUntil: 5), .throttled),
  (StoreFacts(pendingCount: 1, isFailing: true, isModelKnown: false, throttledUntil: 5), .modelUnknown),
  (StoreFacts(pendingCount: 0, isExporting: true, isModelKnown: false), .nothingPending),
])
func `a store says what it does or waits for`(_ facts: StoreFacts, _ activity: StoreFacts.Activity) {
  #expect(facts.activity == activity)
}
