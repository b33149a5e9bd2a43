// TLS and proxies as operators set them up.

import Foundation
import HTTPClient
import Testing

@Suite(.serialized) struct TLSTests {
  @Test func `files that can't serve end the process with one sentence`() throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let certificates = try CommandLineTool.certificates(in: folder)
    let (chain, key) = (certificates.appending(path: "chain.pem").path, certificates.appending(path: "key.pem").path)
    let mistakes = [
      (["--tls-certificate", chain], "--tls-certificate needs --tls-key."),
      (["--tls-key", key], "--tls-key needs --tls-certificate."),
      (["--tls-certificate", "/none.pem", "--tls-key", key], "/none.pem can't be read"),
      (["--tls-certificate", chain, "--tls-key", chain], "holds no private key"),
      (["--trusted-proxies", "everybody"], "--trusted-proxies"),
    ]
    for service in ["aquifer-gateway", "aquifer-notifier"] {
      for (options, sentence) in mistakes {
        let ended = try CommandLineTool.run(
          ["--http", "127.0.0.1:0", "--bus", "ipc://\(folder.path)/a.sock", "--share", "ipc://\(folder.path)/b.sock"]
            + options,
          executable: Checkout.products.appending(path: service))
        #expect(ended.code != 0 && ended.problem.contains(sentence), "\(service) \(options): \(ended.problem)")
        #expect(!ended.problem.contains("Fatal error"))
      }
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `addresses in answers begin with https, and a stranger's certificate is not trusted`() async throws {
    try await Installation.run(tls: true) { installation in
      #expect(
        installation.ready.gateway.hasPrefix("https://127.0.0.1:")
          && installation.ready.notifier.hasPrefix("https://127.0.0.1:"))
      try await installation.admin("POST", "/admin/1/containers", ["container": "iCloud.org.example.tls"])
      let token = try await installation.admin(
        "POST", "/admin/1/tokens", ["container": "iCloud.org.example.tls", "environment": "development"])
      let url =
        """
        \(installation.ready.gateway)/database/1/iCloud.org.example.tls/development/public/users/caller?\
        ckAPIToken=\(token["apiToken"].string ?? "")
        """
      let unknown = try await installation.send("GET", url)
      #expect(unknown.status == 421)
      #expect(try unknown.json["redirectURL"].string?.hasPrefix(installation.ready.gateway + "/signin") == true)
      #expect(try await installation.aquifer("status").code == 0)
      for service in ["gateway", "notifier"] {
        let metrics = try await installation.send("GET", (installation.ready.admin[service] ?? "") + "/metrics").text
        let expiry = metrics.firstMatch(of: /tls_certificate_expiry_timestamp_seconds ([0-9]\S*)/).flatMap {
          Double($0.output.1)
        }
        #expect((expiry ?? 0) > Date.now.timeIntervalSince1970, "\(service)")
      }
      await #expect(throws: HTTPClientError.self) { try await HTTPClient().send("GET", url) }
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a trusted proxy's scheme and host are in addresses, another's are not`()
    async throws
  {
    for (trusted, origin) in [("127.0.0.0/8", "https://sync.example.org"), ("10.0.0.0/8", nil)] {
      try await Installation.run(environment: ["AQUIFER_TRUSTED_PROXIES": trusted]) { installation in
        try await installation.admin("POST", "/admin/1/containers", ["container": "iCloud.org.example.proxy"])
        let token = try await installation.admin(
          "POST", "/admin/1/tokens", ["container": "iCloud.org.example.proxy", "environment": "development"])
        let url =
          """
          \(installation.ready.gateway)/database/1/iCloud.org.example.proxy/development/public/users/caller?\
          ckAPIToken=\(token["apiToken"].string ?? "")
          """
        let answer = try await installation.send(
          "GET", url, headers: [("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "sync.example.org")])
        let expected = (origin ?? installation.ready.gateway) + "/signin"
        #expect(try answer.json["redirectURL"].string?.hasPrefix(expected) == true)
      }
    }
  }
}
