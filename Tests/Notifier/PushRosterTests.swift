// The registrations that a notifier knows, and the directory that it knows them of.

import ServiceBus
import Testing

@testable import Notifier

struct PushRosterTests {
  private func page(
    _ registrations: [PushRegistration], _ incarnation: String?, isFromStart: Bool = false
  ) -> FetchPushRegistrations.Reply {
    FetchPushRegistrations.Reply(
      registrations: registrations, ended: [], revision: registrations.last?.revision ?? 0, isFromStart: isFromStart,
      isLast: true, incarnation: incarnation)
  }

  @Test func `each question names the incarnation of the latest page`() throws {
    var roster = PushRoster(name: "a")
    #expect(roster.question.after == 0 && roster.question.incarnation == nil)
    let book = PushBook()
    let registration = try book.add("ann", "https://a.example/1")
    for incarnation in ["one", "two"] {
      _ = roster.apply(page([registration], incarnation))
      #expect(roster.question.after == registration.revision && roster.question.incarnation == incarnation)
    }
    // An earlier release names none.
    _ = roster.apply(page([], nil))
    #expect(roster.question.after == registration.revision && roster.question.incarnation == nil)
  }

  @Test func `a device that is gone ends its registration, and none that has its identifier by now`() throws {
    var roster = PushRoster(name: "a")
    // Two directories give out the same numbers.
    let lost = try PushBook().add("ann", "https://a.example/1")
    let present = try PushBook().add("bob", "https://a.example/2")
    #expect(lost.id == present.id && lost.revision == present.revision)
    _ = roster.apply(page([lost], "one"))
    #expect(roster.removeAll() == [lost.id])
    _ = roster.apply(page([present], "two", isFromStart: true))
    let late = roster.end(lost)
    #expect(late == nil && roster[present.id] == present)
    let message = roster.end(present)
    #expect(message?.registrations == [.init(id: present.id, revision: present.revision)])
    #expect(message?.incarnation == "two" && roster.count == 0)
  }
}
