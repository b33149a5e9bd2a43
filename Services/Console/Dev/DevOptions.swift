// The options of `aquifer dev`.

import WebServices

struct DevOptions: Hashable, Sendable {
  static let workerLimit = 64
  private static let logLevels = ["debug", "info", "warning", "error"]

  let dataDirectory: String
  /// 0: any free port.
  let httpPort: Int
  let pingPort: Int
  let workerCount: Int
  /// The workers' `--user-quota`.
  let userQuota: Int
  /// The notifier's `--user-devices`, and as many requests at the gateway; nil: the services' defaults.
  let userDevices: Int?
  let readyFile: String?
  /// nil: the key file in the data folder.
  let encryptionKey: String?
  let tls: TLSFiles?
  /// The processes' `--log-level`; nil: their default.
  let logLevel: String?
  let restartPolicy: RestartPolicy
  /// Options that services get unchanged; a flag has an empty value.
  let passed: [PassedOption: String]

  /// Paths as given; relative ones work because the services start in the same folder.
  struct TLSFiles: Hashable, Sendable {
    let certificate: String
    let key: String
  }

  init(_ invocation: Invocation) throws(UsageError) {
    guard let data = invocation.value("data"), !data.isEmpty else {
      throw UsageError("--data is missing", path: ["dev"])
    }
    dataDirectory = data
    httpPort = try Self.number(invocation, "http-port", 8080, in: 0...65535)
    pingPort = try Self.number(invocation, "ping-port", 8081, in: 0...65535)
    workerCount = try Self.number(invocation, "workers", 1, in: 1...Self.workerLimit)
    guard let quota = Units.byteCount(invocation.value("user-quota") ?? "0") else {
      throw UsageError("--user-quota is a number of bytes, such as 500MB or 10GB", path: ["dev"])
    }
    userQuota = Int(quota)
    userDevices =
      invocation.value("user-devices") == nil ? nil : try Self.number(invocation, "user-devices", 1, in: 1...1_000_000)
    readyFile = invocation.value("ready-file")
    passed = Dictionary(
      uniqueKeysWithValues: PassedOption.table.compactMap { option in invocation.value(option.name).map { (option, $0) }
      })
    encryptionKey = invocation.value("encryption-key")
    logLevel = invocation.value("log-level")
    if let logLevel, !Self.logLevels.contains(logLevel) {
      throw UsageError("--log-level is one of \(Self.logLevels.joined(separator: ", "))", path: ["dev"])
    }
    let standard = Int(RestartPolicy.standardPause / .milliseconds(1))
    restartPolicy = RestartPolicy(
      longestPause: .milliseconds(try Self.number(invocation, "restart-pause", standard, in: 1...3_600_000)))
    switch (invocation.value("tls-certificate"), invocation.value("tls-key")) {
    case (nil, nil): tls = nil
    case (.some(let certificate), .some(let key)): tls = TLSFiles(certificate: certificate, key: key)
    default: throw UsageError("--tls-certificate and --tls-key go together", path: ["dev"])
    }
  }

  private static func number(_ invocation: Invocation, _ name: String, _ standard: Int, in range: ClosedRange<Int>)
    throws(UsageError) -> Int
  {
    guard let text = invocation.value(name) else { return standard }
    guard let value = Int(text), range.contains(value) else {
      throw UsageError("--\(name) is a number from \(range.lowerBound) to \(range.upperBound)", path: ["dev"])
    }
    return value
  }
}
