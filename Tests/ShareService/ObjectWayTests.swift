import JSON
import Testing

@testable import ShareService

struct ObjectWayTests {
  private static func value(_ text: String) throws -> JSONValue { try JSONValue(parsing: Array(text.utf8)) }

  private static func way(_ rows: [String], _ pings: [String]) throws -> [String] {
    var list = PingList()
    list.pings = try pings.map { ("n1", try value($0)) }
    return ObjectWay(try rows.map(value), list).steps.map { step in
      [step.at.map { "\($0)" } ?? "-", step.name, step.device ?? step.store, step.recordChangeTag, step.reason]
        .compactMap(\.self).joined(separator: " ")
    }
  }

  /// The phone saves and exports a change of sequence 7; the tablet's import, if any, has this time.
  private static func rows(imported: Int64?) -> [String] {
    let export = #"{"step":"exported","at":20,"store":"P","sequence":7,"recordChangeTag":"7"}"#
    let arrival =
      imported.map { #"{"step":"imported","at":\#($0),"store":"T","sequence":7,"recordChangeTag":"7"}"# }
      ?? #"{"step":"awaited","store":"T","sequence":7,"recordChangeTag":"7"}"#
    return [
      #"{"store":"P","device":"phone","way":[{"step":"saved","at":10,"store":"P","transaction":1},\#(export)]}"#,
      #"{"store":"T","device":"tablet","way":[\#(export),\#(arrival)]}"#,
    ]
  }

  @Test func `a change is saved, exported, pinged and imported, in the order of time`() throws {
    let pings = [
      #"{"at":15,"sequence":6,"devices":["T"]}"#, #"{"at":22,"sequence":8,"devices":["T","X"]}"#,
      #"{"at":29,"sequence":9,"devices":["T"]}"#,
    ]
    #expect(
      try Self.way(Self.rows(imported: 30), pings) == [
        "10 saved phone", "20 exported phone 7", "22 pinged tablet 7", "30 imported tablet 7",
      ])
  }

  @Test func `a device that has not imported is awaited, with the reason as far as pings tell`() throws {
    func last(_ pings: String...) throws -> String? { try Self.way(Self.rows(imported: nil), pings).last }
    #expect(try last() == "- awaited tablet 7")
    #expect(
      try last(#"{"at":22,"sequence":7,"devices":[]}"#)
        == "- awaited tablet 7 the device did not listen when the change came")
    #expect(
      try last(#"{"at":22,"sequence":7,"devices":["T"]}"#)
        == "- awaited tablet 7 the device was pinged, and has not asked since")
    // A ping of a later hour told of something else.
    #expect(try last(#"{"at":9000000,"sequence":900,"devices":["T"]}"#) == "- awaited tablet 7")
  }
}
