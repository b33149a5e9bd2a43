// An operator who creates users, and a user who uploads: acknowledged work besides saves.

import Installations
import JSON

/// Creates users until the ledger says that the run is over. Each user's token must be valid at the end.
actor OperatorClient {
  private let calls: Calls
  private let ledger: Ledger
  private var tokens: [String: String] = [:]
  private var number = 0

  init(_ calls: Calls, ledger: Ledger) {
    self.calls = calls
    self.ledger = ledger
  }

  func run() async {
    do {
      while !ledger.isOver {
        number += 1
        // A new name each time, since the fate of an attempt without an answer is unknown.
        let user = "made-\(number)"
        let answer = try await calls.send(
          "POST", "/admin/1/users", bearer: Installation.operatorToken, body: object { $0.member("name", user) })
        guard answer.status == 200, let token = answer.json["webAuthToken"]?.string else {
          if answer.attemptCount == 1 {
            ledger.refused("\(user) can't be made: \(answer.status) \(answer.json["reason"]?.string ?? "")")
          }
          continue
        }
        tokens[user] = token
        try await Task.sleep(for: .milliseconds(5))
      }
    } catch {
      ledger.refused("\(error)")
    }
  }

  /// - Returns: the number of users; missing ones are noted as refusals.
  func check(_ population: Population) async throws -> Int {
    for (user, token) in tokens.sorted(by: { $0.key < $1.key }) {
      let path = "/database/1/\(Population.container)/development/public/users/caller"
      let query = "?ckAPIToken=\(percentEncoded(population.apiToken))&ckWebAuthToken=\(percentEncoded(token))"
      let answer = try await calls.send("GET", path + query)
      if answer.status != 200 { ledger.refused("\(user) was acknowledged and is not known: \(answer.status)") }
    }
    return tokens.count
  }
}

/// Uploads content and saves it in records. At the end each must be there, byte for byte.
actor UploadClient {
  private let population: Population
  private let database: Database
  private let ledger: Ledger
  private var saved: [String: [UInt8]] = [:]
  private var number = 0
  private var random: SeededRandom

  init(_ population: Population, _ database: Database, seed: UInt64, ledger: Ledger) {
    self.population = population
    self.database = database
    self.ledger = ledger
    random = SeededRandom(seed: seed, stream: -2)
  }

  func run() async {
    do {
      while !ledger.isOver { try await step() }
    } catch {
      ledger.refused("\(error)")
    }
  }

  private func step() async throws {
    number += 1
    let content = (0..<Int.random(in: 1...60_000, using: &random)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    let request = #"{"tokens":[{"recordType":"Photo","fieldName":"blob"}]}"#
    let tokens = try await population.calls.get(
      "POST", population.recordPath("assets/upload", of: database), body: Array(request.utf8))
    guard let url = tokens["tokens"]?.elements.first?["url"]?.string, let path = Self.path(of: url) else {
      throw RunError("assets/upload names no URL")
    }
    let uploaded = try await population.calls.send("POST", path, body: content)
    guard uploaded.status == 200, let file = uploaded.json["singleFile"] else {
      // Dropped because a used address, or one whose gateway ended, only means that another is needed; nothing was
      // acknowledged.
      return
    }
    let body = object {
      $0.key("operations")
      $0.beginArray()
      $0.beginObject()
      $0.member("operationType", "forceUpdate")
      $0.key("record")
      $0.beginObject()
      $0.member("recordName", "photo-\(number)")
      $0.member("recordType", "Photo")
      $0.key("fields")
      $0.beginObject()
      $0.key("blob")
      $0.beginObject()
      $0.key("value")
      $0.value(file)
      $0.endObject()
      $0.endObject()
      $0.endObject()
      $0.endObject()
      $0.endArray()
    }
    let answer = try await population.calls.send(
      "POST", population.recordPath("records/modify", of: database), requestID: "photo-\(number)", body: body,
      isLater: { $0["records"]?.elements.first?["serverErrorCode"]?.string == "TRY_AGAIN_LATER" })
    let record = answer.json["records"]?.elements.first
    guard answer.status == 200, record?["serverErrorCode"] == nil else {
      ledger.refused(
        """
        photo-\(number), whose upload was acknowledged, was refused: \(answer.status) \(record?["reason"]?.string ?? "")
        """
      )
      return
    }
    saved["photo-\(number)"] = content
  }

  /// - Returns: the number of uploads; missing or different ones are noted as refusals.
  func check() async throws -> Int {
    for (name, content) in saved.sorted(by: { $0.key < $1.key }) {
      let body = Array(#"{"records":[{"recordName":"\#(name)"}]}"#.utf8)
      let answer = try await population.calls.get(
        "POST", population.recordPath("records/lookup", of: database), body: body)
      let url = answer["records"]?.elements.first?["fields"]?["blob"]?["value"]?["downloadURL"]?.string
      guard let url, let path = Self.path(of: url), try await population.calls.bytes(path) == content else {
        ledger.refused("\(name) was acknowledged and does not have its content")
        continue
      }
    }
    return saved.count
  }

  private static func path(of url: String) -> String? {
    guard let start = url.firstRange(of: "://")?.upperBound, let slash = url[start...].firstIndex(of: "/") else {
      return nil
    }
    return String(url[slash...])
  }
}
