// Every model that does not become code: the message, and the line of the model's file.

import Foundation
import ModelTypes
import Testing

/// A model with a mistake, and what the build says.
struct Mistake: CustomTestStringConvertible {
  let testDescription: String
  /// Lines within `<model>`, which is line 1.
  let lines: [String]
  /// `line: beginning of the message`
  let refusals: [String]

  init(_ description: String, _ lines: [String], _ refusals: String...) {
    self.init(description, lines, expecting: refusals)
  }

  private init(_ description: String, _ lines: [String], expecting refusals: [String]) {
    testDescription = description
    self.lines = lines
    self.refusals = refusals
  }

  /// An entity A with one more property, on line 3.
  static func property(_ description: String, _ property: String, _ refusals: String..., more: [String] = []) -> Mistake
  {
    let lines = [
      "<entity name='A'>", property, "<attribute name='a' optional='YES' attributeType='String'/>", "</entity>",
    ]
    return Mistake(description, lines + more, expecting: refusals)
  }

  static let twin = [
    "<entity name='B'>",
    "<relationship name='back' optional='YES' maxCount='1' destinationEntity='A' inverseName='way' inverseEntity='A'/>",
    "</entity>",
  ]

  static let all: [Mistake] = [
    Mistake("no entity", [], "1: There is no entity to mirror."),
    Mistake(
      "an entity twice", ["<entity name='A'>", "</entity>", "<entity name='A'>", "</entity>"],
      "2: Two entities are named A."),
    Mistake(
      "a parent that is not there", ["<entity name='A' parentEntity='B'>", "</entity>"],
      "2: The parent B of A is not in the model."),
    Mistake(
      "parents in a circle",
      ["<entity name='A' parentEntity='B'>", "</entity>", "<entity name='B' parentEntity='A'>", "</entity>"],
      "2: A is its own ancestor.",
      "4: B is its own ancestor."),
    Mistake(
      "an entity's name", ["<entity name='Größe'>", "</entity>"],
      "2: The entity name 'Größe' can't be part of a record type."),
    .property(
      "a property's name", "<attribute name='größe' optional='YES' attributeType='String'/>",
      "3: The name of A.größe can't be part of a field's name."),
    .property(
      "a property twice", "<attribute name='a' optional='YES' attributeType='String'/>",
      "3: A has two properties named a."),
    .property(
      "a reserved name", "<attribute name='entityName' optional='YES' attributeType='String'/>",
      "3: A.entityName would be the field CD_entityName"),
    .property("no type", "<attribute name='b' optional='YES'/>", "3: A.b has no type."),
    .property(
      "an unknown type", "<attribute name='b' optional='YES' attributeType='Colour'/>",
      "3: A.b has the unknown attribute type 'Colour'."),
    .property(
      "an object ID", "<attribute name='b' optional='YES' attributeType='ObjectID'/>", "3: A.b is an object ID"),
    .property(
      "required without a default", "<attribute name='b' attributeType='String'/>",
      "3: A.b is neither optional nor has it a default value."),
    .property(
      "a default that is no number",
      "<attribute name='b' optional='YES' attributeType='Integer 16' defaultValueString='x'/>",
      "3: The default of A.b is not a value of type Integer 16."),
    .property(
      "an address that is none",
      "<attribute name='b' optional='YES' attributeType='URI' defaultValueString='http://['/>",
      "3: The default of A.b is not a value of type URI."),
    Mistake(
      "an empty address in a composite",
      [
        "<composite name='P'><attribute name='b' attributeType='URI' defaultValueString=''/></composite>",
        "<entity name='A'>", "<attribute name='a' optional='YES' attributeType='Composite' elementName='P'/>",
        "</entity>",
      ], "4: The default of A.a.b is not a value of type URI."),
    .property(
      "mergeable storage", "<attribute name='b' optional='YES' attributeType='String' usesMergeableStorage='YES'/>",
      "3: A.b uses mergeable storage."),
    .property(
      "ordered",
      """
      <relationship name='way' optional='YES' toMany='YES' ordered='YES' destinationEntity='B' inverseName='back' \
      inverseEntity='B'/>
      """,
      "3: A.way is ordered.", more: twin),
    .property(
      "a required relationship",
      "<relationship name='way' maxCount='1' destinationEntity='B' inverseName='back' inverseEntity='B'/>",
      "3: A.way is not optional.", more: twin),
    .property(
      "the rule Deny",
      """
      <relationship name='way' optional='YES' maxCount='1' deletionRule='Deny' destinationEntity='B' \
      inverseName='back' inverseEntity='B'/>
      """,
      "3: A.way has the delete rule Deny.", more: twin),
    .property(
      "an unknown delete rule",
      "<relationship name='way' optional='YES' maxCount='1' deletionRule='Maybe' destinationEntity='B'/>",
      "3: A.way has the unknown delete rule 'Maybe'."),
    .property(
      "no destination", "<relationship name='way' optional='YES' maxCount='1' inverseName='back'/>",
      "3: A.way has no destination."),
    .property(
      "no inverse", "<relationship name='way' optional='YES' maxCount='1' destinationEntity='A'/>",
      "3: A.way has no inverse."),
    .property(
      "an inverse of another",
      """
      <relationship name='other' optional='YES' maxCount='1' destinationEntity='B' inverseName='back' \
      inverseEntity='B'/>
      """,
      "3: A.other names B.back as its inverse", "7: The inverse A.way of B.back does not exist.", more: twin),
    Mistake(
      "a uniqueness constraint",
      [
        "<entity name='A'>", "<attribute name='a' optional='YES' attributeType='String'/>", "<uniquenessConstraints>",
        "<uniquenessConstraint>",
        "<constraint value='a'/>", "</uniquenessConstraint>", "</uniquenessConstraints>", "</entity>",
      ], "2: A has a uniqueness constraint on a. Remove the constraint and declare a rule instead"),
    .property(
      "a relationship across configurations",
      """
      <relationship name='way' optional='YES' maxCount='1' destinationEntity='B' inverseName='back' inverseEntity='B'/>
      """,
      "3: A.way leads to B, which is not in the configuration 'Cloud'.",
      "7: B.back leads to A, which is not in the configuration 'Local'.",
      more: twin + [
        "<configuration name='Cloud'><memberEntity name='A'/></configuration>",
        "<configuration name='Local'><memberEntity name='B'/></configuration>",
      ]),
    .property(
      "a relationship out of the only configuration",
      """
      <relationship name='way' optional='YES' maxCount='1' destinationEntity='B' inverseName='back' inverseEntity='B'/>
      """,
      "3: A.way leads to B, which is not in the configuration 'Cloud'.",
      more: twin + ["<configuration name='Cloud'><memberEntity name='A'/></configuration>"]),
    Mistake(
      "a member that is not there",
      [
        "<entity name='A'>", "</entity>",
        "<configuration name='Cloud'><memberEntity name='A'/><memberEntity name='B'/></configuration>",
      ],
      "1: The configuration 'Cloud' lists B, which the model does not have."),
    .property(
      "an attribute called id, and one that has its name in Swift",
      """
      <attribute name='id' optional='YES' attributeType='UUID'/><attribute name='idValue' optional='YES' \
      attributeType='UUID'/>
      """,
      "3: A.id is called idValue in Swift. Rename A.idValue."),
    .property(
      "names that differ in case", "<attribute name='A' optional='YES' attributeType='String'/>",
      "4: A has the properties A and a. Rename one of them."),
    .property(
      "derived from nothing", "<attribute name='b' optional='YES' derived='YES' attributeType='String'/>",
      "3: A.b is derived from nothing."),
    .property(
      "a derivation that is unknown",
      "<attribute name='b' optional='YES' derived='YES' derivationExpression='a.@max' attributeType='String'/>",
      "3: A.b is derived from a.@max, which no replica can compute."),
    .property(
      "a name that Swift keeps", "<attribute name='self' optional='YES' attributeType='String'/>",
      "3: A.self can't be the name of a property in Swift."),
    .property(
      "a derivation from what is not there",
      "<attribute name='b' optional='YES' derived='YES' derivationExpression='canonical:(z)' attributeType='String'/>",
      "3: A.b is derived from canonical:(z), which no replica can compute."),
    .property(
      "a sum of objects",
      """
      <relationship name='way' optional='YES' toMany='YES' destinationEntity='B' inverseName='back' inverseEntity='B'/>\
      <attribute name='b' optional='YES' derived='YES' derivationExpression='way.@sum' attributeType='Integer 64'/>
      """,
      "3: A.b is derived from way.@sum, which no replica can compute.", more: twin),
    Mistake(
      "an element's name that Swift keeps",
      [
        "<composite name='P'><attribute name='self' optional='YES' attributeType='String'/></composite>",
        "<entity name='A'>", "<attribute name='b' optional='YES' attributeType='Composite' elementName='P'/>",
        "</entity>",
      ], "4: A.b.self can't be the name of a property in Swift."),
    Mistake(
      "a type's name that the code needs", ["<entity name='Date'>", "</entity>"],
      "2: The type of Date can't be called Date"),
    Mistake(
      "two types of one name",
      [
        "<entity name='A' representedClassName='C'>", "</entity>", "<entity name='B' representedClassName='C'>",
        "</entity>",
      ],
      "4: The types of A and B are both called C."),
  ]
}

struct RefusalTests {
  @Test(arguments: Mistake.all) func `a model with a mistake is refused in its line`(mistake: Mistake) throws {
    let contents = (["<model>"] + mistake.lines + ["</model>"]).joined(separator: "\n")
    let bundle = try TemporaryBundle(["Test": contents])
    let refusals = refusals(of: bundle)
    let file = bundle.url.appending(path: "Test.xcdatamodel/contents").path
    #expect(refusals.count == mistake.refusals.count, "\(refusals)")
    for (refusal, expected) in zip(refusals, mistake.refusals) {
      #expect(refusal.file == file)
      #expect("\(refusal.line): \(refusal.message)".hasPrefix(expected), "\(refusal)")
      #expect(refusal.description.hasPrefix("\(file):\(refusal.line): error: "))
    }
  }

  @Test func `a bundle without a version, or with several and no current one, is refused`() throws {
    let model = "<model><entity name='A'/></model>"
    #expect(
      try refusal(of: TemporaryBundle([:])) == "Test.xcdatamodeld:1: The model has no version.")
    #expect(
      try refusal(of: TemporaryBundle(["Test": model, "Test 2": model]))
        == "Test.xcdatamodeld:1: The model has 2 versions and no .xccurrentversion. "
        + "Choose the current version in Xcode, or write that file")
    #expect(
      try refusal(of: TemporaryBundle(["Test": model], current: "Other"))
        == ".xccurrentversion:1: The current version is Other.xcdatamodel, which the model does not have.")
  }

  @Test func `several versions and no current one are refused with the file to write, which then is accepted`() throws {
    let model = "<model><entity name='A'/></model>"
    let refusal = try #require(refusals(of: TemporaryBundle(["Test": model, "Test 2": model])).first)
    let plist = try #require(refusal.message.firstMatch(of: /<plist>.*<\/plist>/)).output
    let bundle = try TemporaryBundle(["Test": model, "Test 2": model])
    try Data(plist.utf8).write(to: bundle.url.appending(path: ".xccurrentversion"))
    #expect(try ModelTypes.source(of: bundle.url.path).contains("earlierVersions: [testVersion1]"))
  }

  @Test func `a type that hides one of Swift's is warned of, in the entity's line`() throws {
    let lines = [
      "<model>", "<entity name='Job' representedClassName='Task'/>",
      "<entity name='Task' representedClassName='Chore'/>", "<entity name='Label'/>", "</model>",
    ]
    let bundle = try TemporaryBundle(["Test": lines.joined(separator: "\n")])
    let warnings = try ModelTypes.warnings(of: bundle.url.path)
    #expect(warnings.map(\.line) == [2, 4])
    let file = bundle.url.appending(path: "Test.xcdatamodel/contents").path
    #expect(warnings.first?.description.hasPrefix("\(file):2: warning: In this module, Task means") == true)
    #expect(try ModelTypes.warnings(of: ModelFiles.everything.path).isEmpty)
  }

  @Test func `a file that is missing, or that is no model, is refused`() throws {
    #expect(try refusal(of: TemporaryBundle(["Test": nil])) == "contents:1: The file can't be read.")
    #expect(
      try refusal(of: TemporaryBundle(["Test": "<model>\n<entity name='A'>\n</model>"])).hasPrefix(
        "contents:3: The file is not well-formed XML"))
    #expect(
      try refusal(of: TemporaryBundle(["Test": "<plist/>"]))
        == "contents:1: The root element is 'plist'; a model's is 'model'.")
  }

  @Test func `an earlier version that can't be read is refused, one that mirroring would refuse is not`() throws {
    let model = "<model><entity name='A'/></model>"
    #expect(
      try refusal(of: TemporaryBundle(["Test": "", "Test 2": model], current: "Test 2"))
        == "contents:1: The file is empty.")
    let odd = "<model><entity name='A'><attribute name='a' attributeType='String'/></entity></model>"
    let bundle = try TemporaryBundle(["Test": odd, "Test 2": model], current: "Test 2")
    #expect(try ModelTypes.source(of: bundle.url.path).contains("earlierVersions: [testVersion1]"))
  }

  @Test func `a to-one relationship that an earlier version calls otherwise is refused, and no other rename is`() throws
  {
    /// - Parameter identifiers: renaming identifiers of the attribute and the relationships by their names.
    func model(_ name: String, _ way: String, _ back: String, _ identifiers: [String: String] = [:]) -> String {
      func named(_ name: String) -> String {
        "name='\(name)' optional='YES'" + (identifiers[name].map { " elementID='\($0)'" } ?? "")
      }
      return """
        <model><entity name='A'><attribute \(named(name)) attributeType='String'/>
        <relationship \(named(way)) maxCount='1' destinationEntity='B' inverseName='\(back)' inverseEntity='B'/>
        </entity><entity name='B'>
        <relationship \(named(back)) toMany='YES' destinationEntity='A' inverseName='\(way)' inverseEntity='A'/>
        </entity></model>
        """
    }
    let first = model("a", "way", "back")
    let allowed = model("title", "way", "backs", ["title": "a", "backs": "back"])
    let refused = model("a", "path", "back", ["path": "way"])
    #expect(try refusals(of: TemporaryBundle(["Test": first, "Test 2": allowed], current: "Test 2")).isEmpty)
    let found = try refusals(of: TemporaryBundle(["Test": first, "Test 2": refused], current: "Test 2"))
    #expect(found.map(\.line) == [2] && found.first?.message.hasPrefix("A.path was called way.") == true)
    // The identifier stays in the model, and the name has not changed since.
    #expect(try refusals(of: TemporaryBundle(["Test": refused, "Test 2": refused], current: "Test 2")).isEmpty)
  }

  @Test func `an attribute whose name another one had in an earlier version is refused`() throws {
    func model(_ attributes: String...) -> String {
      let lines = attributes.map { "<attribute optional='YES' attributeType='String' \($0)/>" }
      return (["<model><entity name='A'>"] + lines + ["</entity></model>"]).joined(separator: "\n")
    }
    let renamed = model("name='headline' elementID='title'")
    let reused = model("name='headline' elementID='title'", "name='title'")
    let found = try refusals(
      of: TemporaryBundle(["Test": model("name='title'"), "Test 2": renamed, "Test 3": reused], current: "Test 3"))
    #expect(
      found.map(\.line) == [3]
        && found.first?.message.hasPrefix("A.headline was called title, and title is now another property.") == true)
  }

  private func refusals(of bundle: TemporaryBundle) -> [Refusal] {
    do throws(Refusals) {
      _ = try ModelTypes.source(of: bundle.url.path)
      return []
    } catch {
      return error.list
    }
  }

  /// `file:line: message up to a colon`
  private func refusal(of bundle: TemporaryBundle) throws -> String {
    let refusal = try #require(refusals(of: bundle).first)
    let file = refusal.file.split(separator: "/").last ?? ""
    return "\(file):\(refusal.line): \(refusal.message.split(separator: ": ")[0])"
  }
}
