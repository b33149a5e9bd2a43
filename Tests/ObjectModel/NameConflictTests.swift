// Names of properties that would mean two things in the records of one environment (R19).

import ObjectModel
import Records
import Testing

/// Names of attributes with their renaming identifiers.
private typealias Names = KeyValuePairs<String, String?>

private func model(_ names: Names) -> ManagedObjectModel {
  let attributes = names.map { name, identifier in
    var attribute = Attribute(name: name, type: .string)
    attribute.renamingIdentifier = identifier
    return attribute
  }
  return ManagedObjectModel(entities: [Entity(name: "Note", attributes: attributes)])
}

/// The later model beside earlier ones, the last of which is the latest.
private struct History: Sendable, CustomTestStringConvertible {
  let testDescription: String
  let earlier: [ManagedObjectModel]
  let later: ManagedObjectModel
  /// The attributes with conflicts.
  let expected: [String]

  init(_ description: String, _ earlier: [Names], _ later: Names, _ expected: String...) {
    testDescription = description
    self.earlier = earlier.map(model)
    self.later = model(later)
    self.expected = expected
  }

  static let all = [
    History("a new name", [["a": nil]], ["b": "a"]),
    History("another attribute beside it", [["a": nil], ["b": "a"]], ["b": "a", "c": nil]),
    History("names that follow each other", [["a": nil], ["b": "a"]], ["c": "b", "d": nil]),
    History("one identifier for two names", [["a": nil], ["b": "a"]], ["c": "a"]),
    History("a model that is known", [["a": nil], ["b": "a"]], ["a": nil]),
    History("an earlier model after a later one", [["b": "a"]], ["a": nil]),
    History("an earlier model that grows", [["a": nil], ["b": "a"], ["a": nil]], ["b": "a", "c": nil]),
    History("the former name is used again", [["a": nil], ["b": "a"]], ["a": nil, "b": "a"], "a"),
    History("without the identifier", [["a": nil], ["b": "a"]], ["a": nil, "b": nil], "a"),
    History("and used at once", [["a": nil]], ["a": nil, "b": "a"], "a"),
    History("and used since", [["a": nil], ["a": nil, "b": "a"]], ["a": nil, "b": "a", "c": nil]),
    History("an older name is used again", [["a": nil], ["b": "a"]], ["a": nil, "c": "b"], "a"),
    History("two exchange names", [["a": nil, "b": nil]], ["a": "b", "b": "a"], "a", "b"),
    History("a name comes back", [["a": nil], ["b": "a"]], ["a": "b", "c": nil], "a"),
    History("with the old identifier", [["a": nil], ["b": "a"]], ["a": "a", "c": nil], "a"),
    History("of several with one identifier", [["a": nil], ["b": "a"], ["c": "a"]], ["b": "a", "d": nil], "b"),
    History("three names and one identifier", [["a": nil], ["b": "a"], ["c": "a"]], ["d": "a"], "d"),
    History("three names in a chain", [["a": nil], ["b": "a"], ["c": "a"]], ["d": "c"]),
  ]
}

struct NameConflictTests {
  @Test(arguments: History.all)
  private func `a name that records of an environment have for something else is told`(_ history: History) {
    let conflicts = ModelIndex(history.later).nameConflicts(beside: history.earlier, latest: history.earlier.last)
    #expect(conflicts.map(\.property) == history.expected)
    #expect(conflicts.allSatisfy { $0.entity == "Note" && $0.field?.field == "CD_" + $0.property })
  }

  @Test func `the remedy names the latest of several former names`() {
    let earlier = [model(["a": nil]), model(["b": "a"]), model(["c": "a"])]
    let conflict = ModelIndex(model(["d": "a"])).nameConflicts(beside: earlier, latest: earlier[2]).first
    #expect(conflict?.remedy == "Make c the renaming identifier.")
  }

  @Test func `equal models may differ in renaming identifiers, and one that is the name is none`() {
    let index = ModelIndex(model(["a": "a", "b": "x", "c": nil]))
    #expect(index.changedIdentifiers(since: model(["a": nil, "b": "y", "c": "z"])) == ["Note.b", "Note.c"])
    #expect(index.changedIdentifiers(since: model(["a": nil, "b": "x", "c": nil])).isEmpty)
  }
}
