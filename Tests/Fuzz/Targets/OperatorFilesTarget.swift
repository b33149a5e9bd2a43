// Files and settings of operators: keys, peers, backups' manifests, options.

import Crypto
import HTTPServer
@testable import RecordStore
@testable import ServiceBus
@testable import ServiceKit

extension FuzzTarget {
  static let operatorFiles = FuzzTarget(
    name: "operator-files", seeds: { try seeds() }
  ) { bytes in
    let text = String(decoding: bytes, as: UTF8.self)
    try readPeers(text)
    if let pair = try taken({ try BusKeyPair(parsing: text) }, orRefused: { try checkFileRefusal($0, neverSays: text) })
    {
      try holdEqual(try BusKeyPair(parsing: pair.fileText), pair, "a key is read as another")
      try hold(
        !"\(pair) \(String(reflecting: pair))".contains(pair.secretKey) || pair.publicKey == pair.secretKey,
        "a key's description shows its secret half")
    }
    if let ring = try taken(
      { try KeyRing(parsing: text) },
      orRefused: { error in
        guard let error = error as? KeyFileError else { throw Broken(description: "refused with \(error)") }
        try hold(!error.reason.isEmpty, "a refusal says nothing")
      })
    {
      let sealed = ring.seal([1, 2, 3], for: .share)
      try holdEqual(
        try sealed.withUnsafeBytes { try ring.open($0, for: .share) }, [1, 2, 3],
        "what was sealed opens as something else")
    }
    if let manifest = BackupManifest(decoding: bytes) {
      try holdEqual(BackupManifest(decoding: manifest.encoded()), manifest, "a manifest is read as another")
      _ = (manifest.recordCount, manifest.byteCount, manifest.problems)
    }
    try readOptions(text)
    try readAddresses(text)
  }

  private static func readPeers(_ text: String) throws {
    guard let peers = try taken({ try KnownPeers(parsing: text) }, orRefused: { try checkFileRefusal($0) }) else {
      return
    }
    let written = peers.all.map(\.description).joined(separator: "\n")
    try holdEqual(try KnownPeers(parsing: written), peers, "the list of peers is read as another")
    for peer in peers.all { try holdEqual(peers[peer.publicKey], peer, "a peer is not found by its key") }
  }

  /// - Parameter secret: text that a refusal must not quote.
  private static func checkFileRefusal(_ error: any Error, neverSays secret: String? = nil) throws {
    guard let error = error as? BusError else { throw Broken(description: "refused with \(error)") }
    try hold(error.code == .refused && !error.reason.isEmpty, "refused with \(error)")
    if let secret, secret.utf8.count >= 40 { try hold(!error.reason.contains(secret), "a refusal quotes a key file") }
  }

  // MARK: Options

  private static let options: [Option] = [
    Option("text", .text, help: ""), Option("flag", .flag, help: ""),
    Option("integer", .integer(-3...1000), default: "7", help: ""),
    Option("seconds", .seconds(0.1...3600), help: ""), Option("choice", .choice(["one", "two"]), help: ""),
    Option("path", .path, help: ""),
    Option("address", .address, help: ""), Option("url", .url, help: ""), Option("networks", .networks, help: ""),
    Option("endpoint", .endpoint, help: ""),
    Option("secret", .secret, help: ""),
  ]

  /// The input's lines are arguments.
  private static func readOptions(_ text: String) throws {
    let arguments = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    let read = try taken({ try Options(options, arguments: arguments) { _ in nil } }) { error in
      if error is Options.Request { return }
      guard let error = error as? ExitError else { throw Broken(description: "refused with \(error)") }
      try hold(!error.description.isEmpty, "a refusal says nothing")
    }
    guard let read else { return }
    try hold((-3...1000).contains(read.integer("integer") ?? 0), "an integer out of its range")
    if let span = read.duration("seconds") {
      try hold((.milliseconds(100)...(.seconds(3600))).contains(span), "\(span) is out of its range")
    }
    if read.text("address") != nil { try hold(read.address("address") != nil, "an address was taken that is none") }
    _ = (read.flag("flag"), read.url("url"))
  }

  private static func readAddresses(_ text: String) throws {
    for hasKeys in [false, true] {
      for isBound in [false, true] {
        guard let refusal = Endpoint.refusal(text, hasKeys: hasKeys, isBound: isBound) else { continue }
        try hold(!refusal.isEmpty, "a refusal says nothing")
      }
    }
    if let address = SocketAddress(text) {
      try hold(
        !address.host.isEmpty && !SocketAddress.url(address.host, address.port).isEmpty, "an address without a host")
    }
    if let networks = NetworkList(text) {
      try hold(networks.isEmpty || !networks.contains("no address"), "a network holds what is no address")
    }
  }

  private static func seeds() throws -> [[UInt8]] {
    let pairs = [
      try BusKeyPair(parsing: String(repeating: "a", count: 40)),
      try BusKeyPair(parsing: String(repeating: "b", count: 40)),
    ]
    let peers = zip([Role.gateway, .worker], pairs).map {
      KnownPeer(role: $0, name: "\($0)-1", publicKey: $1.publicKey).description
    }
    let copy = ShardCopy(
      shard: 0, epoch: 3, databaseCount: 1, recordCount: 2, fileCount: 1, byteCount: 4096,
      listDigest: String(repeating: "0f", count: 32),
      neededKeys: ["0123456789abcdef"],
      problems: ["one"])
    let manifest = BackupManifest(
      installation: "0123456789abcdef", startedAt: Fixture.now - 1000, createdAt: Fixture.now, shardCount: 2,
      directoryByteCount: 8192,
      directoryDigest: String(repeating: "f0", count: 32), shards: [copy],
      missing: [BackupManifest.Missing(shard: 1, reason: "nobody holds it")])
    let divided = BackupManifest(
      installation: "0123456789abcdef", startedAt: Fixture.now - 1000, createdAt: Fixture.now, shardCount: 2,
      splits: [0], directoryByteCount: 8192, directoryDigest: String(repeating: "f0", count: 32), shards: [copy],
      missing: [BackupManifest.Missing(shard: 1, reason: "nobody holds it")])
    return [
      Array(("# peers\n" + peers.joined(separator: "\n") + "\n").utf8), Array(pairs[0].fileText.utf8),
      Array(("# keys\n" + String(repeating: "0f", count: 32) + "\n").utf8),
      manifest.encoded(), divided.encoded(),
      Array(
        """
        --text=a\n--flag\n--seconds\n1.5\n--address=[::1]:80\n--endpoint\nipc:///run/a\n--networks=10.0.0.0/8,\
        ::1\n--url=http://a/
        """
        .utf8),
      Array("tcp://127.0.0.1:5550".utf8), Array("10.0.0.0/8,fd00::/8,192.0.2.1".utf8),
    ]
  }
}
