// Expensive work that needs few rights: passwords, couriers, users.

import HTTPClient
import Installations
import JSON

extension Attack {
  static let accounts = [
    Attack(name: "sign-ins", what: "a stranger tries passwords on the page, 200 at once") { scene in
      let refused = try await scene.attacker.send(
        "GET",
        """
        /database/1/\(Stage.container)/development/private/users/current?\
        ckAPIToken=\(percentEncoded(scene.stage.apiToken))
        """
      )
      guard let page = refused.json?["redirectURL"]?.string, let path = path(of: page) else {
        throw RunError("the page can't be reached: \(refused.text)")
      }
      return {
        let headers = [HTTPClient.Header("Content-Type", "application/x-www-form-urlencoded")]
        try await scene.repeatedly(200) { number in
          let form = Array("name=user-\(number)&password=\(monotonicNanoseconds())".utf8)
          let response = try await scene.attacker.http.send(
            "POST", scene.stage.url + path, headers: headers, body: form, timeout: .seconds(60))
          scene.note("\(response.status)", documented: ["200", "401", "403", "429", "503"])
        }
      }
    },
    Attack(name: "couriers", what: "a user makes courier after courier, ten times as many as they may have") { scene in
      return {
        let path = "/device/1/\(Stage.container)/development/tokens/create"
        let query =
          """
          ?ckAPIToken=\(percentEncoded(scene.stage.apiToken))&\
          ckWebAuthToken=\(percentEncoded(scene.attacker.webAuthToken))
          """
        try await scene.repeatedly(8) { _ in
          let body = #"{"apnsEnvironment":"development","clientId":"\#(identifier())"}"#
          scene.note(
            try await scene.attacker.send("POST", path + query, body: Array(body.utf8)).text,
            documented: ["200", "429 THROTTLED"])
        }
        let count = scene.answers["200"] ?? 0
        if count > 256 { scene.complain("a user has \(count) couriers") }
      }
    },
    Attack(name: "people", what: "a user looks people up, 200 a request") { scene in
      let lookups = (0..<200).map { #"{"emailAddress":"user\#($0)@example.org"}"# }.joined(separator: ",")
      return {
        try await scene.repeatedly(32) { _ in
          let answer = try await scene.attacker.records(
            "users/discover", #"{"lookupInfos":[\#(lookups)]}"#, in: "public")
          scene.note(answer.text, documented: ["200", "400 BAD_REQUEST", "429", "503"])
        }
      }
    },
  ]
}
