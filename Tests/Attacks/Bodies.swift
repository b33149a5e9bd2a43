// Bodies and texts that are made to be expensive to read.

import HTTPClient

extension Attack {
  static let bodies = [
    Attack(name: "json", what: "bodies that are deep, wide or no text, repeat one key, or have numbers of a megabyte") {
      scene in
      let wide = Words.members(scene.isLong ? 600_000 : 300_000) { "m\($0)" }
      let bodies: [[UInt8]] = [
        Array(Words.repeated("[", 4_000_000).utf8), Array(Words.repeated(#"{"a":"#, 1_000_000).utf8),
        Array(#"{\#(wide),"operations":[]}"#.utf8),
        Array(#"{\#(Words.members(600_000) { _ in "same" }),"operations":[]}"#.utf8),
        Array(Words.modify([Words.save("wide", "\(Words.members(100_000) { "f\($0)" })")]).utf8),
        Array(Words.modify([Words.save("number", #""n":{"value":1\#(Words.repeated("0", 4_000_000))}"#)]).utf8),
        Array(
          Words.modify([
            Words.save(
              "escapes",
              #"""
              "n":{"value":"\#(Words.repeated(#"\ud83d\ude00"#, 300_000))"}
              """#)
          ]).utf8),
        [UInt8](repeating: 0xFF, count: 4_000_000), [UInt8](repeating: 0, count: 7_900_000),
      ]
      return {
        try await scene.repeatedly(3) { first in
          for number in bodies.indices where !scene.isOver {
            let answer = try await scene.attacker.records("records/modify", bodies[(number + first * 3) % bodies.count])
            scene.note(answer.text, documented: ["200", "400 BAD_REQUEST", "413", "429", "503"])
          }
        }
      }
    },
    Attack(name: "too-large", what: "bodies of 8 MB and ten times as much, and heads of 16 kB and ten times as much") {
      scene in
      return {
        let large = [UInt8](repeating: 0x20, count: 8_500_000)
        let huge = [UInt8](repeating: 0x20, count: 80_000_000)
        try await scene.repeatedly(2) { number in
          for body in [large, huge] where !scene.isOver {
            // Dropped because a connection cut during the body counts as an answer.
            let answer = (try? await scene.attacker.records("records/modify", body))?.text ?? "cut"
            scene.note(answer, documented: ["413", "503", "cut"])
          }
          for count in [17_000, 160_000] {
            let answer =
              (try? await scene.attacker.send("GET", "/database/1/\(Words.repeated("a", count))"))?.text ?? "cut"
            scene.note(answer, documented: ["414", "431", "404", "cut"])
          }
        }
      }
    },
    Attack(name: "compressed", what: "a gzip stream of 4 MB of zeros as an encoded body, which no call takes") {
      scene in
      // The stream's content does not matter, because nothing may inflate it.
      let body: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3] + [UInt8](repeating: 0, count: 4_000_000)
      return {
        try await scene.repeatedly(4) { _ in
          let headers = [
            HTTPClient.Header("Content-Type", "application/json"), HTTPClient.Header("Content-Encoding", "gzip"),
          ]
          let response = try await scene.attacker.http.send(
            "POST", scene.stage.url + scene.attacker.recordPath("records/modify"), headers: headers, body: body)
          scene.note("\(response.status)", documented: ["400", "413", "415", "429", "503"])
        }
      }
    },
    Attack(name: "forged-tokens", what: "forged tokens of every kind") { scene in
      return {
        let (database, mirror) = (
          "/database/1/\(Stage.container)/development/private", "/mirror/1/\(Stage.container)/development/private"
        )
        try await scene.repeatedly(16) { _ in
          let forged = Words.repeated("\(UInt64.random(in: 0...UInt64.max))", 4)
          let own = scene.attacker
          let answers = [
            try await own.send(
              "POST", "\(database)/zones/list?ckAPIToken=\(forged)&ckWebAuthToken=\(forged)", body: [0x7B, 0x7D]),
            try await own.send("GET", "\(mirror)/stores/\(identifier())/changes", bearer: forged),
            try await own.records(
              "changes/zone", #"{"zones":[{"zoneID":{"zoneName":"Zone"},"syncToken":"\#(forged)"}]}"#),
            try await own.send("GET", "/assets/\(forged)/\(forged)"),
            try await own.records(
              "records/accept", #"{"shortGUIDs":[{"value":"\#(forged.prefix(30))"}]}"#, in: "public"),
          ]
          for answer in answers {
            scene.note(answer.text, documented: ["200", "400", "401", "403", "404", "410", "421", "429"])
          }
        }
      }
    },
  ]
}
