// Small requests that cause much work: comparisons of long lists, wide sort orders, and the consequences of one save.

import Installations

extension Attack {
  /// Values that differ from all operands, so that every pair is compared.
  private static func longList(_ count: Int) -> String {
    #""numbers":{"type":"INT64_LIST","value":\#(Words.list(1000..<(1000 + count)))}"#
  }

  static let expensive = [
    Attack(
      name: "subscribed-lists",
      what: "12 subscriptions with NOT_LIST_CONTAINS_ANY over 500 values, and saves of lists of 100 000"
    ) { scene in
      // A subscription may have 8000 bytes.
      for number in 0..<12 {
        let operands = (0..<500).map { -(number * 500 + $0) }
        let query = Words.query("Listed", filters: [Words.filter("numbers", "NOT_LIST_CONTAINS_ANY", operands)])
        try await scene.attacker.must(
          "subscriptions/modify",
          #"""
          {"operations":[{"operationType":"create","subscription":{"subscriptionType":"query",\#
          "zoneID":{"zoneName":"Zone"},"query":\#(query),"firesOn":["create","update"]}}]}
          """#
        )
      }
      let body = Array(
        Words.modify([Words.save("listed", type: "Listed", longList(scene.isLong ? 110_000 : 100_000))]).utf8)
      return {
        try await scene.repeatedly(2) { _ in
          scene.note(
            try await scene.attacker.records("records/modify", body).text,
            documented: ["200", "429", "200 TRY_AGAIN_LATER", "503"])
        }
      }
    },
    Attack(name: "operands", what: "queries of 100 filters with 500 values each, on one record of 800 kB") { scene in
      try await scene.attacker.must(
        "records/modify", Words.modify([Words.save("listed", type: "Listed", longList(100_000))]))
      let filter = Words.filter("numbers", "NOT_LIST_CONTAINS_ANY", 0..<500)
      let body = Array(
        #"""
        {"zoneID":{"zoneName":"Zone"},"query":\#(Words.query("Listed", filters: Array(repeating: filter, count: 100)))}
        """#
        .utf8)
      return {
        try await scene.repeatedly(4) { _ in
          scene.note(
            try await scene.attacker.records("records/query", body).text,
            documented: ["200", "400 BAD_REQUEST", "429", "503"])
        }
      }
    },
    Attack(name: "wide-orders", what: "queries sorted by ten fields of 5 kB over 400 records") { scene in
      let text = Words.repeated("same ", 1000)
      for batch in 0..<20 {
        let operations = (0..<20).map { number in
          Words.save(
            "wide-\(batch)-\(number)", type: "Wide",
            (0..<10).map { #""f\#($0)":{"value":"\#(text)\#(number)"}"# }.joined(separator: ","))
        }
        try await scene.attacker.must("records/modify", Words.modify(operations))
      }
      let body = Array(
        #"""
        {"zoneID":{"zoneName":"Zone"},"resultsLimit":200,\#
        "query":\#(Words.query("Wide", orders: (0..<10).map { "f\($0)" }))}
        """#
        .utf8)
      return {
        try await scene.repeatedly(8) { _ in
          scene.note(
            try await scene.attacker.records("records/query", body).text,
            documented: ["200", "400 BAD_REQUEST", "429", "503"])
        }
      }
    },
    Attack(name: "subscriptions-records", what: "500 subscriptions, and batches of 200 records that fire all of them") {
      scene in
      for start in stride(from: 0, to: 500, by: 50) {
        let operations = (start..<(start + 50)).map { number in
          let filter = #"{"fieldName":"number","comparator":"NOT_EQUALS","fieldValue":{"value":\#(number)}}"#
          let query = #"{"recordType":"Fired","filterBy":[\#(filter)]}"#
          return
            #"""
            {"operationType":"create","subscription":{"subscriptionType":"query","zoneID":{"zoneName":"Zone"},\#
            "query":\#(query),"firesOn":["create","update"]}}
            """#
        }
        try await scene.attacker.must(
          "subscriptions/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#)
      }
      let body = Array(
        Words.modify((0..<200).map { Words.save("fired-\($0)", type: "Fired", #""number":{"value":-1}"#) }).utf8)
      return {
        try await scene.repeatedly(2) { _ in
          scene.note(
            try await scene.attacker.records("records/modify", body).text,
            documented: ["200", "429", "200 TRY_AGAIN_LATER", "503"])
        }
      }
    },
    Attack(
      name: "property-lists",
      what: "composites whose dictionary's 60 000 keys are one string of 200 kB, and lists of lists of lists, imported"
    ) { scene in
      let store = "6F0C2E61-4B7D-4C5E-8E1B-6F0C2E614B7D"
      let zone = "com.apple.coredata.cloudkit.zone"
      let made = try await scene.attacker.mirror(
        "PUT", "stores/\(store)", #"{"modelHash":"\#(scene.stage.modelHash)","device":{"name":"attacker"}}"#)
      guard made.status == 200 else { throw RunError("the answer for the store is \(made.text)") }
      for (name, list) in [("keys", BinaryPropertyList.sameKeys), ("bomb", BinaryPropertyList.bomb)] {
        let fields =
          #""CD_entityName":{"value":"Item"},"CD_place":{"type":"BYTES","value":"\#(BinaryPropertyList.base64(list))"}"#
        for number in 0..<(scene.isLong ? 20 : 4) {
          try await scene.attacker.must(
            "records/modify", Words.modify([Words.save("\(name)-\(number)", type: "CD_Item", fields)], zone: zone))
        }
      }
      return {
        try await scene.repeatedly(4) { _ in
          scene.note(
            try await scene.attacker.mirror("GET", "stores/\(store)/changes").text, documented: ["200", "429", "503"])
        }
      }
    },
    Attack(name: "stores", what: "a user makes store after store") { scene in
      return {
        try await scene.repeatedly(8) { _ in
          let body = #"{"modelHash":"\#(scene.stage.modelHash)","device":{"name":"attacker"}}"#
          scene.note(
            try await scene.attacker.mirror("PUT", "stores/\(identifier())", body).text,
            documented: ["200", "429", "413", "403"])
        }
        // The number of a user's stores is limited.
        let count = scene.answers["200"] ?? 0
        if count > 500 { scene.complain("a user made \(count) stores") }
      }
    },
  ]

  static func identifier() -> String {
    let digits = String(UInt64.random(in: 0...0xFFFF_FFFF_FFFF), radix: 16, uppercase: true)
    return "6F0C2E61-4B7D-4C5E-8E1B-" + String(repeating: "0", count: 12 - digits.count) + digits
  }
}
