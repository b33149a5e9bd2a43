// What remains of an object's changes while they wait, and of which origin it is.

import History
import Mirroring
import MirroringWorld
import Records
import Testing

struct HeldPartsTests {
  private static func edit(_ base: Int64, _ changes: HistoryChange...) -> HistoryTransaction {
    ChangeOrigin(edit: HistoryTransaction.Edit(base: base, time: 10 * base)).part(changes)
  }

  private static func again(_ changes: HistoryChange...) -> HistoryTransaction {
    ChangeOrigin(isSentAgain: true, edit: HistoryTransaction.Edit(base: 0, time: 0)).part(changes)
  }

  private static func title(_ text: String) -> HistoryChange { update("Post", "p", ["title": .string(text)]) }

  @Test func `each change keeps what its transaction knew, without values that later ones overwrite`() {
    let content = update("Post", "p", ["content": .string("c")], ["tags": .toManyDelta(add: ["a"], remove: [])])
    let held = HeldChanges.compacted([
      Self.edit(1, Self.title("1"), content), Self.edit(1, Self.title("2")), Self.edit(3, Self.title("3")),
    ])
    #expect(held == [Self.edit(1, content), Self.edit(3, Self.title("3"))])
    let untagged = update("Post", "p", [:], ["tags": .toManyDelta(add: [], remove: ["a"])])
    #expect(
      HeldChanges.compacted(held + [Self.edit(4, untagged)]) == [
        Self.edit(1, update("Post", "p", ["content": .string("c")])), Self.edit(3, Self.title("3")),
        Self.edit(4, untagged),
      ])
  }

  @Test func `however often an object is edited while it waits, its properties and pairs bound what is kept`() {
    let edits = (0..<1000).map { number in
      Self.edit(
        Int64(number),
        number % 2 == 0
          ? Self.title("\(number)")
          : update("Post", "p", [:], ["tags": .toManyDelta(add: ["t\(number % 6)"], remove: [])]))
    }
    let held = edits.reduce(into: [HistoryTransaction]()) { held, edit in held = HeldChanges.compacted(held + [edit]) }
    #expect(held == HeldChanges.compacted(edits) && held.count == 4)
    #expect(held.last { $0.changes.contains(Self.title("998")) }?.edit?.base == 998)
  }

  @Test func `what is sent again overwrites no edit, an edit overwrites it, and a deletion ends both`() {
    let whole = insert("Post", "p", ["content": .string("c"), "title": .string("1")])
    #expect(
      HeldChanges.compacted([Self.edit(1, Self.title("1")), Self.again(whole)]) == [
        Self.edit(1, Self.title("1")), Self.again(whole),
      ])
    let parts = [Self.again(whole), Self.edit(1, Self.title("2"))]
    #expect(
      HeldChanges.compacted(parts) == [
        Self.again(insert("Post", "p", ["content": .string("c")])), Self.edit(1, Self.title("2")),
      ])
    #expect(HeldChanges.compacted(parts + [Self.edit(2, delete("Post", "p"))]) == [Self.edit(2, delete("Post", "p"))])
  }
}
