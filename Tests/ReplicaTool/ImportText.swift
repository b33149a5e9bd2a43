// Pages of an import as a server's JSON.

/// 100 000 objects of two entities and 10 000 links in pages of 1000.
enum ImportText {
  static func page(_ number: Int) -> [UInt8] {
    var changes: [String] = []
    for place in 0..<1000 {
      if number < 100 {
        let entity = place < 900 ? "Photo" : "Tag"
        let name = name(number * 1000 + place)
        let attributes =
          place < 900
          ? #"{"displayName":"Dunes \#(place)","uniqueName":"U\#(number)-\#(place)","size":\#(place)}"#
          : #"{"name":"tag \#(place)"}"#
        changes.append(
          #"""
          {"changeType":"save","entity":"\#(entity)","objectID":"\#(name)",\#
          "zoneID":{"zoneName":"com.apple.coredata.cloudkit.zone","ownerRecordName":"_me"},\#
          "attributes":\#(attributes),"relationships":{},"recordChangeTag":"1g","modified":{"timestamp":1700000000000,\#
          "userRecordName":"_me","deviceID":"d"}}
          """#
        )
      } else {
        let photo = name((number - 100) * 1000 + place / 900 * 1000 + place % 900)
        changes.append(
          #"""
          {"changeType":"link","relationship":"tags","entity":"Photo","objectID":"\#(photo)","target":{"entity":"Tag",\#
          "objectID":"\#(name((number - 100) * 1000 + 900 + place % 100))"}}
          """#
        )
      }
    }
    return Array(
      #"""
      {"changes":[\#(changes.joined(separator: ","))],"importToken":"t\#(number)","moreComing":true,"caughtUp":false}
      """#
      .utf8)
  }

  private static func name(_ number: Int) -> String {
    let digits = String(number, radix: 16, uppercase: true)
    return "0B0B0B0B-1C1C-4D4D-8E8E-" + String(repeating: "0", count: 12 - digits.count) + digits
  }
}
