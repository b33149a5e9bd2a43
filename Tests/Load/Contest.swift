// w4: two devices change one record at the same moment from the same version: exactly one must win.

import Glibc
import JSON

/// One record, two devices, many rounds.
struct Contest: Sendable {
  let target: Target
  let zoneName: String
  let recordName: String
  /// The paths of `records/modify` and `records/lookup`, with credentials.
  let modifyPath: String
  let lookupPath: String
  let roundCount: Int

  struct Outcome: Sendable {
    var win = Measurement()
    var refusal = Measurement()
    /// From the refusal on: the loser fetches the record and saves again on top of it.
    var retry = Measurement()
  }

  /// The outcome of an update.
  enum Verdict: Equatable {
    /// Carries the record's new change tag.
    case won(changeTag: String)
    case refused
  }

  static func verdict(_ body: [UInt8]) throws(LoadError) -> Verdict {
    let item = (try? JSONValue(parsing: body))?["records"]?.elements.first
    if item?["serverErrorCode"]?.string == "CONFLICT" { return .refused }
    if let tag = item?["recordChangeTag"]?.string, item?["serverErrorCode"] == nil { return .won(changeTag: tag) }
    throw LoadError(
      description:
        """
        an update was answered with neither the record nor CONFLICT: \
        \(String(decoding: body.prefix(500), as: UTF8.self))
        """
    )
  }

  /// - Returns: the winning device.
  /// - Throws: when no device has won, or both have.
  static func winner(_ verdicts: [Verdict]) throws(LoadError) -> (device: Int, changeTag: String) {
    let winners: [(device: Int, changeTag: String)] = verdicts.enumerated().compactMap { device, verdict in
      if case .won(let changeTag) = verdict { (device, changeTag) } else { nil }
    }
    guard winners.count == 1 else {
      throw LoadError(
        description: winners.isEmpty
          ? "both devices were refused" : "both devices were told that their change was saved")
    }
    return winners[0]
  }

  /// Runs all rounds; blocks.
  /// - Parameter changeTag: the record's present tag.
  func run(changeTag: String) throws(LoadError) -> Outcome {
    var outcome = Outcome()
    var connections = Connections()
    let devices = [connections.add(target), connections.add(target)]
    var changeTag = changeTag
    let start = Connections.now()
    for round in 0..<roundCount {
      do throws(LoadError) {
        // The devices take turns in sending first.
        for device in round % 2 == 0 ? devices : devices.reversed() {
          connections.send(device, update("round \(round) device \(device)", changeTag))
        }
        var verdicts = [Verdict](repeating: .refused, count: 2)
        for _ in devices {
          let (device, body) = try answer(&connections)
          verdicts[device] = try Self.verdict(body)
          if verdicts[device] == .refused {
            outcome.refusal.add(since: connections.started(device))
          } else {
            outcome.win.add(since: connections.started(device))
          }
        }
        let winner = try Self.winner(verdicts)
        changeTag = try retry(&connections, loser: 1 - winner.device, after: winner, round: round, &outcome)
      } catch {
        throw LoadError(description: "round \(round + 1) of \(roundCount): \(error.description)")
      }
    }
    for part in [\Outcome.win, \.refusal, \.retry] {
      outcome[keyPath: part].seconds = Double(Connections.now() - start) / 1e9
    }
    return outcome
  }

  /// - Returns: the record's change tag afterwards.
  private func retry(
    _ connections: inout Connections, loser: Int, after winner: (device: Int, changeTag: String), round: Int,
    _ outcome: inout Outcome
  ) throws(LoadError) -> String {
    let lookup = #"{"zoneID":{"zoneName":"\#(zoneName)"},"records":[{"recordName":"\#(recordName)"}]}"#
    connections.send(loser, httpRequest("POST", lookupPath, host: target.host, body: Array(lookup.utf8)))
    let start = connections.started(loser)
    let body = try answer(&connections).body
    let record = (try? JSONValue(parsing: body))?["records"]?.elements.first
    guard record?["recordChangeTag"]?.string == winner.changeTag,
      record?["fields"]?["CD_title"]?["value"]?.string == "round \(round) device \(winner.device)"
    else {
      throw LoadError(
        description: "the record differs from the winner's update: \(String(decoding: body.prefix(500), as: UTF8.self))"
      )
    }
    connections.send(loser, update("round \(round) again", winner.changeTag))
    guard case .won(let changeTag) = try Self.verdict(try answer(&connections).body) else {
      throw LoadError(description: "the loser was refused again, though nobody else saved")
    }
    outcome.retry.add(since: start)
    return changeTag
  }

  private func update(_ title: String, _ changeTag: String) -> [UInt8] {
    let body =
      #"""
      {"zoneID":{"zoneName":"\#(zoneName)"},"operations":[{"operationType":"update",\#
      "record":{"recordName":"\#(recordName)","recordType":"CD_Note","recordChangeTag":"\#(changeTag)",\#
      "fields":{"CD_title":{"value":"\#(title)"}}}}]}
      """#
    return httpRequest("POST", modifyPath, host: target.host, body: Array(body.utf8))
  }

  private func answer(_ connections: inout Connections) throws(LoadError) -> (device: Int, body: [UInt8]) {
    let deadline = Connections.now() + answerLimit
    while Connections.now() < deadline {
      guard let (index, event) = connections.nextEvent(until: deadline) else { continue }
      switch event {
      case .received: continue
      case .failed(let reason): throw LoadError(description: reason)
      case .answered: return (index, connections.reader(of: index).body)
      }
    }
    throw LoadError(description: "an update was not answered within 30 s")
  }
}
