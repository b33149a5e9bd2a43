// Unmodified clients of Apple's service, and those of Clients, against an installation. Scripts are in Tests/Clients.

import BucketServer
import Foundation
import Testing

struct ClientTests {
  private static let container = "iCloud.org.example.client"

  @Test func `pyicloud with its strict models does all that it can`() async throws {
    try await Installation.run { installation in try await run("pyicloud_client.py", against: installation) }
  }

  @Test func `pyicloud does the same over TLS`() async throws {
    try await Installation.run(tls: true) { installation in try await run("pyicloud_client.py", against: installation) }
  }

  @Test(.timeLimit(.minutes(3)))
  func `a page in Chromium from another origin signs in, saves, queries, uploads and is pinged`() async throws {
    // Tokens rotate with every answer, so that the page sees a rotation.
    try await Installation.run(environment: ["AQUIFER_TOKEN_ROTATION": "0"]) { installation in
      try await run("browser_client.py", against: installation)
    }
  }

  @Test(.timeLimit(.minutes(3))) func `people sign in with another provider of identities in Chromium`() async throws {
    // Browsers make passkeys for a host's name, at which the script's browser finds the gateway.
    try await Installation.run(environment: ["AQUIFER_PUBLIC_URL": "http://localhost:18931"]) { installation in
      try await run("identity_client.py", against: installation)
    }
  }

  @Test(.timeLimit(.minutes(3))) func `Apple's and a browser's push service wake devices over HTTP/2`() async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    // The script plays the vendors with these certificates.
    let certificates = try CommandLineTool.certificates(in: folder)
    let options = [
      "AQUIFER_PUSH_INTERVAL": "1", "AQUIFER_PUSH_PRIVATE_ADDRESSES": "true",
      "AQUIFER_PUSH_AUTHORITIES": certificates.appending(path: "ca.pem").path,
    ]
    try await Installation.run(environment: options) { installation in
      try await run(
        "push_client.py", against: installation, environment: ["PUSH_CERTIFICATES": certificates.path])
    }
  }

  @Test(.timeLimit(.minutes(2))) func `people are invited by a mail server that speaks TLS`() async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    // The script plays the mail server with these certificates.
    let certificates = try CommandLineTool.certificates(in: folder)
    let options = ["AQUIFER_MAIL_AUTHORITIES": certificates.appending(path: "ca.pem").path]
    try await Installation.run(environment: options) { installation in
      try await run("mail_client.py", against: installation, environment: ["MAIL_CERTIFICATES": certificates.path])
    }
  }

  @Test func `fuzzing by the description finds no 5xx, no hang and nothing of another user's`() async throws {
    try await Installation.run { installation in try await run("fuzz.py", against: installation) }
  }

  @Test func `a client that is made of the description stores and finds records`() async throws {
    try await Installation.run { installation in try await run("openapi_client.py", against: installation) }
  }

  @Test func `every example of the description is answered as the description says`() async throws {
    try await Installation.run { installation in try await run("openapi_examples.py", against: installation) }
  }

  @Test func `aquifer.py repeats, imports, is pinged, uploads and shares`() async throws {
    try await Installation.run { installation in try await run("thin_client.py", against: installation) }
  }

  @Test func `aquifer.py does the same over TLS`() async throws {
    try await Installation.run(tls: true) { installation in try await run("thin_client.py", against: installation) }
  }

  @Test(.timeLimit(.minutes(3))) func `aquifer.js has the types that it says, and does the same in Chromium`()
    async throws
  {
    try await Installation.run { installation in try await run("web_client.py", against: installation) }
  }

  @Test(.timeLimit(.minutes(3))) func `load.py measures saves, and finds a loss that is planted`() async throws {
    try await Installation.run { installation in try await run("load_client.py", against: installation) }
  }

  @Test(
    .timeLimit(.minutes(3)), arguments: ["pyicloud_client.py", "thin_client.py", "web_client.py", "browser_client.py"])
  func `clients fetch contents from a bucket that they reach as they do from a gateway`(script: String) async throws {
    let bucket = try BucketServer()
    let place = "s3://bucket/one?endpoint=\(bucket.endpoint)&public=\(bucket.soundEndpoint)"
    let key = ["AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AQUIFER_TOKEN_ROTATION": "0"]
    try await Installation.run(options: ["--assets", place], environment: key) { installation in
      try await run(script, against: installation)
    }
  }

  /// Runs a script of Tests/Clients with a container, an API token and two users of its own, and prints its steps.
  private func run(_ script: String, against installation: Installation, environment more: [String: String] = [:])
    async throws
  {
    try await installation.admin("POST", "/admin/1/containers", ["container": .string(Self.container)])
    let token = try await installation.admin(
      "POST", "/admin/1/tokens", ["container": .string(Self.container), "environment": "development"])
    var environment = try [
      "CLIENT_GATEWAY": installation.ready.gateway, "CLIENT_NOTIFIER": installation.ready.notifier,
      "CLIENT_CONTAINER": Self.container,
      "CLIENT_API_TOKEN": #require(token["apiToken"].string), "CLIENT_OPERATOR": installation.ready.operatorToken,
    ]
    for user in ["alice", "bob"] {
      let made = try await installation.admin("POST", "/admin/1/users", ["name": .string(user)])
      environment["CLIENT_\(user.uppercased())"] = made["webAuthToken"].string
    }
    environment["CLIENT_AUTHORITY"] = installation.authority
    // Overrides the machine's own settings, which would win over the script's; no request may use a proxy.
    if let authority = installation.authority { environment["REQUESTS_CA_BUNDLE"] = authority }
    environment["NO_PROXY"] = "127.0.0.1"
    environment["no_proxy"] = "127.0.0.1"
    let scripts = Checkout.root.appending(path: "Tests/Clients")
    let python = try CommandLineTool.run([], executable: scripts.appending(path: "environment"))
    guard python.code == 0 else { throw Unexpected("Tests/Clients/environment: \(python.problem)") }
    let interpreter = URL(filePath: python.output.trimmingCharacters(in: .whitespacesAndNewlines))
    let ended = try CommandLineTool.run(
      ["-B", scripts.appending(path: script).path], executable: interpreter,
      environment: environment.merging(more) { $1 })
    print(ended.output, terminator: "")
    // The step that failed is printed last, and deploy/test shows a screen of each failure.
    let ends = [ended.problem, ended.output].flatMap { $0.split(separator: "\n").suffix(35) }
    #expect(ended.code == 0, "\(script) failed:\n\(ends.joined(separator: "\n"))")
  }
}
