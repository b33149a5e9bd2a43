// Ordinary requests in excess: one user sends as many as possible.

import Installations
import JSON

extension Attack {
  static let flooding = [
    Attack(name: "saves", what: "a user saves batches of 200 records, 200 requests at once") { scene in
      let text = Words.repeated("text ", 20)
      let body = Array(Words.modify((0..<200).map { Words.save("flood-\($0)", #""text":{"value":"\#(text)"}"#) }).utf8)
      return {
        try await scene.repeatedly(200) { _ in
          let answer = try await scene.attacker.records("records/modify", body)
          scene.note(answer.text, documented: ["200", "429 THROTTLED", "200 TRY_AGAIN_LATER", "503"])
          if answer.status != 200 { try await scene.pause(.milliseconds(100)) }
        }
      }
    },
    Attack(name: "reads", what: "a user reads a zone of 2000 records from its beginning, 200 requests at once") {
      scene in
      let text = Words.repeated("text ", 100)
      for batch in 0..<10 {
        try await scene.attacker.must(
          "records/modify",
          Words.modify((0..<200).map { Words.save("read-\(batch)-\($0)", #""text":{"value":"\#(text)"}"#) }))
      }
      return {
        try await scene.repeatedly(200) { _ in
          let answer = try await scene.attacker.records("changes/zone", #"{"zones":[{"zoneID":{"zoneName":"Zone"}}]}"#)
          scene.note(answer.text, documented: ["200", "429 THROTTLED", "503"])
          if answer.status != 200 { try await scene.pause(.milliseconds(100)) }
        }
      }
    },
    Attack(name: "waits", what: "a user waits for changes, 1300 times at once") { scene in
      let store = identifier()
      let made = try await scene.attacker.mirror(
        "PUT", "stores/\(store)", #"{"modelHash":"\#(scene.stage.modelHash)","device":{"name":"attacker"}}"#)
      guard made.status == 200 else { throw RunError("the answer for the store is \(made.text)") }
      let page = try await scene.attacker.mirror("GET", "stores/\(store)/changes")
      guard let first = page.json?["importToken"]?.string else {
        throw RunError("the answer for its changes is \(page.text)")
      }
      return {
        try await scene.repeatedly(1300) { _ in
          let answer = try await scene.attacker.mirror(
            "GET", "stores/\(store)/changes?since=\(percentEncoded(first))&wait=2")
          scene.note(answer.text, documented: ["200", "400", "429 THROTTLED", "503"])
          if answer.status != 200 { try await scene.pause(.milliseconds(500)) }
        }
      }
    },
    Attack(name: "uploads", what: "a user begins 200 uploads of 40 MB and sends a byte a second") { scene in
      return {
        let tokens = (0..<16).map { _ in #"{"recordType":"Photo","fieldName":"blob"}"# }.joined(separator: ",")
        var held: [RawConnection] = []
        while held.count < 200, !scene.isOver {
          let answer = try await scene.attacker.records(
            "assets/upload", #"{"zoneID":{"zoneName":"Zone"},"tokens":[\#(tokens)]}"#)
          scene.note(answer.text, documented: ["200", "429 THROTTLED", "503"])
          let urls = answer.json?["tokens"]?.elements.compactMap { $0["url"]?.string } ?? []
          for url in urls where !scene.isOver {
            guard let path = path(of: url) else { continue }
            let connection = try RawConnection(to: scene.stage.gateway.port)
            connection.send(request("POST", path, length: 40_000_000))
            held.append(connection)
          }
          if urls.isEmpty { try await scene.pause(.milliseconds(200)) }
        }
        while !scene.isOver {
          for connection in held { connection.send([0x20]) }
          try await scene.pause(.seconds(1))
        }
        for connection in held {
          if let answer = connection.answer() { scene.note(answer, documented: ["200", "400", "429", "503", "cut"]) }
        }
      }
    },
    Attack(name: "zones", what: "a user makes zones, 200 a request, until there are too many") { scene in
      return {
        let names = Counter()
        try await scene.repeatedly(2) { _ in
          let start = await names.next() * 200
          let operations = (start..<(start + 200)).map {
            #"{"operationType":"create","zone":{"zoneID":{"zoneName":"Z\#($0)"}}}"#
          }
          let answer = try await scene.attacker.records(
            "zones/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#)
          scene.note(
            answer.text,
            documented: [
              "200", "200 LIMIT_EXCEEDED", "200 ZONE_LIMIT", "200 QUOTA_EXCEEDED", "200 BAD_REQUEST", "429 THROTTLED",
              "503",
            ])
        }
      }
    },
    Attack(name: "strangers", what: "300 connections without credentials ask for every path") { scene in
      return {
        let paths = [
          "/", "/nothing", "/signin", "/share/0123456789",
          "/database/1/\(Stage.container)/development/public/records/query", "/assets/a/b",
        ]
        try await scene.repeatedly(300) { number in
          let answer = try await scene.attacker.send("GET", paths[number % paths.count])
          scene.note("\(answer.status)", documented: ["200", "400", "401", "403", "404", "405", "421", "429"])
        }
      }
    },
  ]

  private actor Counter {
    private var count = 0

    func next() -> Int {
      defer { count += 1 }
      return count
    }
  }
}
