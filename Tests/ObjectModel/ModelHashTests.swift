import Foundation
import ObjectModel
import Testing

@Suite struct ModelHashTests {
  private func hash(_ xml: String) throws -> String { ModelIndex(try read(xml)).modelHash }

  @Test func `the hash is 64 hex digits and does not change between runs`() throws {
    let index = ModelIndex(
      ManagedObjectModel(entities: [
        Entity(name: "Post", attributes: [Attribute(name: "title", type: .string, defaultValue: "")])
      ]))
    #expect(index.modelHash == "ba21d00e4610154338602853019c559bd9675b665aa17833caac7d88db86e592")
  }

  @Test func `a detail that mirroring does not see leaves the hash alone`() throws {
    let base = try hash(everythingXML)
    for (old, new) in [
      ("representedClassName=\"Person\"", "representedClassName=\"MOPerson\""), ("width=\"128\"", "width=\"64\""),
      ("deletionRule=\"Cascade\"", "deletionRule=\"Nullify\""), ("name=\"scratch\"", "name=\"scrap\""),
      ("name=\"byName\"", "name=\"byTitle\""),
    ] {
      #expect(try hash(everythingXML.replacingOccurrences(of: old, with: new)) == base, "\(new)")
    }
  }

  @Test func `a detail that mirroring sees changes the hash`() throws {
    var seen: Set<String> = [try hash(everythingXML)]
    for (old, new) in [
      ("name=\"rank\"", "name=\"order\""), ("attributeType=\"Integer 32\"", "attributeType=\"Integer 64\""),
      ("defaultValueString=\"7\"", "defaultValueString=\"8\""),
      ("allowsCloudEncryption=\"YES\"", "allowsCloudEncryption=\"NO\""),
      ("name=\"city\"", "name=\"town\""), ("parentEntity=\"Dog\"", "parentEntity=\"Animal\""),
      ("isAbstract=\"YES\"", "isAbstract=\"NO\""),
      ("<memberEntity name=\"Puppy\"/>", ""), ("transient=\"YES\"", "optional=\"YES\""),
      ("preserveAfterDeletion=\"YES\"", ""),
    ] {
      let changed = everythingXML.replacingOccurrences(of: old, with: new)
      #expect(changed != everythingXML)
      #expect(seen.insert(try hash(changed)).inserted, "\(new)")
    }
  }

  @Test func `the order of declarations does not matter`() throws {
    let attributes = [Attribute(name: "a", type: .string), Attribute(name: "b", type: .date)]
    let one = ModelIndex(ManagedObjectModel(entities: [Entity(name: "E", attributes: attributes), Entity(name: "F")]))
    let other = ModelIndex(
      ManagedObjectModel(entities: [Entity(name: "F"), Entity(name: "E", attributes: attributes.reversed())]))
    #expect(one.modelHash == other.modelHash)
  }
}
