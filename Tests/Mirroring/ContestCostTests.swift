// Objects with a long past: a contest looks for the author of a value only where that decides.

import ObjectModel
import Records
import Testing

@testable import Mirroring

@Test(arguments: [ConflictPolicy.arrival, .hlc, .max, .counter])
func `a value that nobody else has changed is settled without a look at the states in between`(_ policy: ConflictPolicy)
  throws
{
  let model = ModelIndex(
    ManagedObjectModel(entities: [Entity(name: "Photo", attributes: [Attribute(name: "views", type: .integer64)])]))
  let attribute = try #require(model.entity(named: "Photo")?.attribute(named: "views"))
  let stamp = Stamp(timestamp: 1, userRecordName: "_alice", deviceID: "A")
  func content(_ number: Int64) -> FieldContent {
    var record = Record(recordName: "P", recordType: "CD_Photo", fields: Fields(), created: stamp, modified: stamp)
    record.fields["CD_views"] = Field(.int64(number))
    return FieldContent(of: attribute, in: record)
  }
  var count = 0
  func outcome(over current: Int64) -> FieldContest.Outcome {
    FieldContest(
      policy: policy, range: .min ... .max, defaultNumber: 0, current: content(current), sent: content(5),
      version: nil, isSeen: false, ancestor: (content(1), nil),
      findSetter: {
        count += 1
        return stamp
      }, device: "B", time: 2
    ).verdict { _ in nil }.outcome
  }
  #expect(outcome(over: 1) == .sent)
  #expect(count == 0)
  // A value that somebody has changed has an author, who counts for two of the policies.
  _ = outcome(over: 3)
  #expect((count > 0) == [.arrival, .hlc].contains(policy))
}
