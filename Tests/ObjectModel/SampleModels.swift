// Models for tests: one that uses every feature, and real ones from the shared folder, if that is present.

import Foundation
import ObjectModel
import Testing
import XCDataModel

/// All features of a model file that mirroring accepts.
let everythingXML = """
  <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
  <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" lastSavedToolsVersion="22522" \
  usedWithCloudKit="YES" sourceLanguage="Swift">
      <composite name="Address">
          <attribute name="city" optional="YES" attributeType="String"/>
          <attribute name="number" optional="YES" attributeType="Integer 16" defaultValueString="1" \
  usesScalarValueType="YES"/>
      </composite>
      <entity name="Animal" representedClassName="Animal" isAbstract="YES" syncable="YES" codeGenerationType="class">
          <attribute name="name" optional="YES" attributeType="String"/>
          <attribute name="born" optional="YES" attributeType="Date" defaultDateTimeInterval="-978307200" \
  usesScalarValueType="NO"/>
          <relationship name="keepers" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Person" \
  inverseName="animals" inverseEntity="Person"/>
          <fetchIndex name="byName">
              <fetchIndexElement property="name" type="Binary" order="ascending"/>
          </fetchIndex>
      </entity>
      <entity name="Dog" representedClassName="Dog" parentEntity="Animal" syncable="YES" codeGenerationType="class">
          <attribute name="chip" optional="YES" attributeType="UUID" usesScalarValueType="NO" \
  preserveAfterDeletion="YES"/>
          <relationship name="puppies" optional="YES" toMany="YES" deletionRule="Cascade" destinationEntity="Puppy" \
  inverseName="mother" inverseEntity="Puppy"/>
      </entity>
      <entity name="Person" representedClassName="Person" syncable="YES" codeGenerationType="class">
          <attribute name="active" attributeType="Boolean" defaultValueString="YES" usesScalarValueType="YES"/>
          <attribute name="address" optional="YES" attributeType="Composite" compositeName="Address"/>
          <attribute name="balance" attributeType="Decimal" defaultValueString="0.5"/>
          <attribute name="big" optional="YES" attributeType="Integer 64" defaultValueString="-9000000000" \
  usesScalarValueType="YES"/>
          <attribute name="ckRecordID" optional="YES" attributeType="String"/>
          <attribute name="height" optional="YES" attributeType="Float" defaultValueString="1.75" \
  usesScalarValueType="YES"/>
          <attribute name="homepage" optional="YES" attributeType="URI" defaultValueString="https://example.org/"/>
          <attribute name="keeperCount" optional="YES" attributeType="Integer 64" derived="YES" \
  derivationExpression="animals.@count" usesScalarValueType="YES"/>
          <attribute name="local" optional="YES" attributeType="String">
              <userInfo>
                  <entry key="NSCloudKitMirroringDelegateIgnoredPropertyKey" value="YES"/>
              </userInfo>
          </attribute>
          <attribute name="mood" optional="YES" attributeType="Transformable" \
  valueTransformerName="NSSecureUnarchiveFromData"/>
          <attribute name="photo" optional="YES" attributeType="Binary" allowsExternalBinaryDataStorage="YES"/>
          <attribute name="rank" optional="YES" attributeType="Integer 32" defaultValueString="7" \
  usesScalarValueType="YES"/>
          <attribute name="scratch" transient="YES" attributeType="String"/>
          <attribute name="secret" optional="YES" attributeType="String" allowsCloudEncryption="YES"/>
          <attribute name="weight" optional="YES" attributeType="Double" usesScalarValueType="YES">
              <userInfo>
                  <entry key="NSPersistentCloudKitContainerEncryptedAttributeKey" value="1"/>
              </userInfo>
          </attribute>
          <relationship name="animals" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Animal" \
  inverseName="keepers" inverseEntity="Animal"/>
          <relationship name="children" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Person" \
  inverseName="parents" inverseEntity="Person"/>
          <relationship name="friends" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Person" \
  inverseName="friends" inverseEntity="Person"/>
          <relationship name="parents" optional="YES" toMany="YES" maxCount="2" deletionRule="Nullify" \
  destinationEntity="Person" inverseName="children" inverseEntity="Person"/>
          <relationship name="spouse" optional="YES" maxCount="1" deletionRule="No Action" destinationEntity="Person" \
  inverseName="spouse" inverseEntity="Person"/>
          <userInfo>
              <entry key="team" value="core &amp; cloud"/>
          </userInfo>
      </entity>
      <entity name="Puppy" representedClassName="Puppy" parentEntity="Dog" syncable="YES" codeGenerationType="class">
          <attribute name="weeks" optional="YES" attributeType="Integer 16" defaultValueString="0" \
  usesScalarValueType="YES"/>
          <relationship name="mother" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Dog" \
  inverseName="puppies" inverseEntity="Dog"/>
      </entity>
      <configuration name="Cloud" usedWithCloudKit="YES">
          <memberEntity name="Person"/>
          <memberEntity name="Animal"/>
          <memberEntity name="Dog"/>
          <memberEntity name="Puppy"/>
      </configuration>
      <elements>
          <element name="Person" positionX="-63" positionY="-9" width="128" height="119"/>
      </elements>
  </model>
  """

func read(_ xml: String) throws(ModelReadingError) -> ManagedObjectModel { try ModelReader.read(Array(xml.utf8)) }

/// A model file with the given entities.
func modelXML(_ entities: String) -> String {
  "<model type=\"com.apple.IDECoreDataModeler.DataModel\">\(entities)</model>"
}

/// The real models outside of the repository, by name.
enum RealModel: String, CaseIterable {
  case share = "CoreDataCloudKitShare"
  case demo = "CoreDataCloudKitDemo"
  case tickmate = "Tickmate"

  private static let folder: URL =
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appendingPathComponent("../shared/models").standardizedFileURL

  /// nil, with a printed note, where the shared folder is absent.
  func load() throws -> ModelIndex? {
    let package = Self.folder.appendingPathComponent("\(rawValue).xcdatamodeld")
    guard let plist = FileManager.default.contents(atPath: package.appendingPathComponent(".xccurrentversion").path)
    else {
      print("Skipped: \(package.path) is not there.")
      return nil
    }
    let version = try ModelReader.currentVersion(fromPlist: Array(plist))
    let contents = try Data(contentsOf: package.appendingPathComponent(version).appendingPathComponent("contents"))
    return ModelIndex(try ModelReader.read(Array(contents)))
  }
}

/// A seeded generator (SplitMix64), so that a fuzz failure can be repeated.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }

  /// The bytes with a few places replaced, removed, doubled or cut off.
  mutating func mutate(_ bytes: [UInt8], with alphabet: [UInt8]) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 1...6, using: &self) where !bytes.isEmpty {
      let place = Int.random(in: 0..<bytes.count, using: &self)
      switch Int.random(in: 0..<5, using: &self) {
      case 0: bytes[place] = alphabet.randomElement(using: &self) ?? 0
      case 1: bytes.remove(at: place)
      case 2: bytes.insert(UInt8.random(in: 0...255, using: &self), at: place)
      case 3: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...40, using: &self)))
      default:
        bytes.insert(
          contentsOf: bytes[place..<min(bytes.count, place + Int.random(in: 1...40, using: &self))], at: place)
      }
    }
    return bytes
  }
}
