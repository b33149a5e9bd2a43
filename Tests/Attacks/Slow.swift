// Held connections by the thousand, with heads, bodies and answers that never end.

import Installations

extension Attack {
  static let connections = [
    Attack(name: "connections", what: "one address opens 10 000 connections and keeps opening those that are closed") {
      scene in
      return {
        var held: [RawConnection] = []
        while !scene.isOver {
          for _ in 0..<(10_000 - held.count) where !scene.isOver {
            held.append(try RawConnection(to: scene.stage.gateway.port))
          }
          held.removeAll { connection in
            guard let answer = connection.answer() else { return false }
            scene.note(answer, documented: ["429", "503", "cut"])
            return true
          }
          try await scene.pause(.milliseconds(20))
        }
      }
    },
    Attack(name: "slow-heads", what: "2000 connections send a head each, a byte a second") { scene in
      return {
        try await drip(
          2000, "GET /database/1/\(Stage.container)/development/private/zones/list HTTP/1.1\r\nHost: h\r\nX-A: ", scene)
      }
    },
    Attack(
      name: "slow-bodies-nowhere",
      what: "400 connections send all but the end of 8 MB to a path that does not exist, then a byte a second"
    ) { scene in
      return { try await hold(400, path: "/nothing/here", scene) }
    },
    Attack(name: "slow-bodies-stranger", what: "the same to records/modify, without credentials") { scene in
      return { try await hold(400, path: "/database/1/\(Stage.container)/development/private/records/modify", scene) }
    },
    Attack(name: "slow-bodies-user", what: "the same, by one signed-in user") { scene in
      return { try await hold(400, path: scene.attacker.recordPath("records/modify"), scene) }
    },
    Attack(name: "slow-answers", what: "200 connections ask for pages of 2 MB, and read none of it") { scene in
      let text = String(repeating: "a", count: 90_000)
      for number in 0..<20 {
        try await scene.attacker.must(
          "records/modify",
          #"""
          {"zoneID":{"zoneName":"Zone"},"operations":[{"operationType":"create",\#
          "record":{"recordName":"long-\#(number)","recordType":"Long","fields":{"text":{"value":"\#(text)"}}}}]}
          """#
        )
      }
      return {
        let body = #"{"zones":[{"zoneID":{"zoneName":"Zone"}}]}"#
        let request =
          request("POST", scene.attacker.recordPath("changes/zone"), length: body.utf8.count) + Array(body.utf8)
        var held: [RawConnection] = []
        while !scene.isOver {
          for _ in held.count..<200 where !scene.isOver {
            let connection = try RawConnection(to: scene.stage.gateway.port, receiveByteCount: 4096)
            guard await connection.sendAll(request, until: { scene.isOver }) else { continue }
            held.append(connection)
          }
          // Reads a byte of each connection, so that it is not idle.
          held.removeAll { if case .closed = $0.read(1) { true } else { false } }
          try await scene.pause(.milliseconds(500))
        }
      }
    },
    Attack(name: "slow-streams", what: "a user opens 1000 streams of pings and reads none while they save") { scene in
      return {
        let head =
          """
          GET /mirror/1/\(Stage.container)/development/pings HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \
          \(scene.attacker.webAuthToken)\r\nAccept: text/event-stream\r\n\r\n
          """
        var held: [RawConnection] = []
        for _ in 0..<1000 where !scene.isOver {
          let connection = try RawConnection(to: scene.stage.notifier.port, receiveByteCount: 4096)
          guard await connection.sendAll(Array(head.utf8), until: { scene.isOver }) else { continue }
          held.append(connection)
        }
        try await scene.repeatedly(2) { number in
          let answer = try await scene.attacker.records(
            "records/modify",
            #"""
            {"zoneID":{"zoneName":"Zone"},"operations":[{"operationType":"forceUpdate",\#
            "record":{"recordName":"ping-\#(number)","recordType":"Note",\#
            "fields":{"text":{"value":"\#(monotonicNanoseconds())"}}}}]}
            """#
          )
          scene.note(answer.text, documented: ["200", "429"])
        }
        for connection in held {
          if let answer = connection.answer() { scene.note(answer, documented: ["200", "429", "cut"]) }
        }
      }
    },
  ]

  static func request(_ method: String, _ path: String, length: Int, headers: String = "") -> [UInt8] {
    Array(
      """
      \(method) \(path) HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: \
      \(length)\r\n\(headers)\r\n
      """
      .utf8)
  }

  /// Opens connections that send a head byte by byte; closed ones are opened again.
  private static func drip(_ count: Int, _ head: String, _ scene: Scene) async throws {
    var held: [RawConnection] = []
    while !scene.isOver {
      for _ in held.count..<count where !scene.isOver {
        let connection = try RawConnection(to: scene.stage.gateway.port)
        connection.send(Array(head.utf8))
        held.append(connection)
      }
      try await scene.pause(.seconds(1))
      held.removeAll { connection in
        connection.send([0x61])
        guard let answer = connection.answer() else { return false }
        scene.note(answer, documented: ["408", "429", "503", "cut"])
        return true
      }
    }
  }

  /// Opens connections that send nearly all of a body and go on byte by byte. Those that are answered or closed are
  /// opened again.
  private static func hold(_ count: Int, path: String, _ scene: Scene) async throws {
    let length = 8_000_000
    let head = request("POST", path, length: length)
    let piece = [UInt8](repeating: 0x20, count: 1_700_000)
    var held: [RawConnection] = []
    while !scene.isOver {
      for _ in held.count..<count where !scene.isOver {
        let connection = try RawConnection(to: scene.stage.gateway.port)
        guard await connection.sendAll(head, until: { scene.isOver || connection.isAnswered }) else { continue }
        _ = await connection.sendAll(piece, until: { scene.isOver || connection.isAnswered })
        held.append(connection)
      }
      try await scene.pause(.seconds(1))
      held.removeAll { connection in
        connection.send([0x20])
        guard let answer = connection.answer() else { return false }
        scene.note(answer, documented: ["400", "401", "404", "408", "413", "421", "429", "503", "cut"])
        return true
      }
    }
  }
}
