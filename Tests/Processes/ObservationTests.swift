// An operator's view of real processes: a request in the logs, faults in `status`, and every documented metric.

import Foundation
import HTTPClient
import Testing

@Suite(.serialized) struct ObservationTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  /// The lines of a process's log about a request, by event.
  private func lines(of request: String, in service: String, _ installation: Installation) throws -> [Value] {
    let log = installation.folder.appending(path: "data/log/\(service).log")
    return try String(contentsOf: log, encoding: .utf8).split(separator: "\n").filter {
      $0.contains("\"request\":\"\(request)\"")
    }
    .map { try Value(json: Array($0.utf8)) }
  }

  @Test(.timeLimit(.minutes(1))) func `a save can be followed by its name through gateway, worker and notifier`()
    async throws
  {
    try await Installation.run(options: ["--log-level", "debug"]) { installation in
      let user = try await App(installation, model: model).user("alice")
      let (phone, laptop) = (try await user.device("phone"), try await user.device("laptop"))
      let url = "\(installation.ready.notifier)/mirror/1/\(user.app.container)/development/pings?device=\(laptop.store)"
      var pings = EventLines(
        try await installation.client.stream(url, headers: [HTTPClient.Header("Authorization", "Bearer \(user.token)")])
      )
      let name = "follow-\(UUID().uuidString)"
      let body = Device.transactions([MainJob.insert("Tag", UUID().uuidString, ["name": "one"])], id: UUID().uuidString)
      let saved = try await installation.send(
        "POST", phone.url + "/transactions", bearer: user.token,
        headers: [("X-Request-ID", name), ("Content-Type", "application/json")], bytes: try body.json)
      #expect(saved.status == 200 && saved.header("X-Apple-Request-UUID") == name, "\(saved.text)")
      _ = try await pings.next()

      // A line is written before its step is reported, so it can be read soon.
      var seen: [String: [String]] = [:]
      let expected = ["gateway": ["request"], "worker-1": ["exported", "request"], "notifier": ["ping"]]
      for _ in 0..<1000 where seen != expected {
        for service in expected.keys {
          seen[service] = try lines(of: name, in: service, installation).compactMap { $0["event"].string }.sorted()
        }
        if seen != expected { try await Task.sleep(for: .milliseconds(10)) }
      }
      #expect(seen == expected)
      let commit = try #require(try lines(of: name, in: "worker-1", installation).first { $0["event"] == "request" })
      #expect(
        commit["code"] == "OK" && commit["route"] == "stores/*/transactions" && commit["plane"] == "object", "\(commit)"
      )
      #expect(try lines(of: name, in: "gateway", installation).first?["status"] == 200)

      // An error without a request identifier of the client gets one from the server.
      let refused = try await installation.send(
        "POST", phone.url + "/transactions", bearer: user.token, bytes: Array("{".utf8))
      let uuid = try #require(try refused.json["uuid"].string)
      #expect(refused.status == 400 && refused.header("X-Apple-Request-UUID") == uuid)
      #expect(try lines(of: uuid, in: "worker-1", installation).first?["code"] == "BAD_REQUEST")
    }
  }

  /// Repeats `aquifer status` for half a minute until it contains the text.
  private func status(of installation: Installation, untilItSays text: String) async throws -> String {
    for _ in 0..<150 {
      let answer = try await installation.aquifer("status")
      if (answer.output + answer.problem).contains(text) { return answer.output + answer.problem }
      try await Task.sleep(for: .milliseconds(200))
    }
    return try await installation.aquifer("status").output
  }

  @Test(.timeLimit(.minutes(2)))
  func `status says what is wrong and what to do: of a worker that hangs, and of a share service that does`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let healthy = try await status(of: installation, untilItSays: "All is well: 5 processes, ")
      #expect(healthy.hasPrefix("All is well: 5 processes, "), "\(healthy)")

      let worker = try #require(installation.ready.pids["worker"]?.last)
      kill(worker, SIGSTOP)
      let sentence = "is held by another worker: process \(worker). If that worker no longer answers, end it (kill -9)"
      let hanging = try await status(of: installation, untilItSays: sentence)
      #expect(hanging.hasPrefix("NOT WELL: ") && hanging.contains(sentence), "\(hanging)")
      kill(worker, SIGKILL)
      let healed = try await status(of: installation, untilItSays: "All is well: 5 processes, ")
      #expect(healed.hasPrefix("All is well: 5 processes, "), "\(healed)")

      let share = try #require(installation.ready.pids["share"]?.first)
      kill(share, SIGSTOP)
      let silent = try await installation.aquifer("status")
      kill(share, SIGCONT)
      #expect(silent.code == 1 && silent.problem.contains("The share service does not answer"), "\(silent)")
      let again = try await status(of: installation, untilItSays: "All is well: ")
      #expect(again.hasPrefix("All is well: "), "\(again)")
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `every metric that alerts, dashboard and OPERATING md name is exported by a running installation`() async throws
  {
    try await Installation.run(tls: true) { installation in
      var kinds: [String: String] = [:]
      for (name, admin) in installation.ready.admin {
        // Admin addresses are local and use plain HTTP.
        let text = try await installation.send("GET", admin + "/metrics").text
        for match in text.matches(of: /# TYPE (\S+) (\w+)/) { kinds[String(match.output.1)] = String(match.output.2) }
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
          #expect(
            !line.contains(installation.ready.operatorToken) && Double(line.split(separator: " ").last ?? "") != nil,
            "\(name): \(line)")
        }
      }
      for file in try Monitoring.files() {
        let named = Monitoring.metrics(in: file.text)
        #expect(named.count >= 20, "\(file.name)")
        for metric in named {
          // A histogram is queried by its parts.
          let base = metric.replacing(/_(bucket|sum|count)$/, with: "")
          #expect(
            kinds[metric] != nil || kinds[base] == "histogram", "\(file.name) names \(metric), which nobody exports")
        }
      }
    }
  }
}
