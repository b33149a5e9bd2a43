// Figures of other systems on the same work, for comparison.

/// One figure of another system. They were measured once on a similar machine (two cores, the generator beside the
/// server, loopback, medians of three runs), not together with the printed run. Ratios to them only show orders of
/// magnitude.
struct Peer: Equatable {
  enum Kind {
    /// A complete service: records, changes and devices, over HTTP.
    case service
    /// A store on which such a service could be built: no HTTP, no users, no semantics. Each acknowledges durable
    /// writes.
    case store
  }

  let system: String
  let kind: Kind
  /// `w1a:16`, for latencies with the part.
  let workload: String
  let figure: Double

  /// The best peer of a kind for a workload.
  static func best(_ kind: Kind, for workload: String, smallerIsBetter: Bool = false) -> Peer? {
    let peers = all.filter { $0.kind == kind && $0.workload == workload }
    return smallerIsBetter ? peers.min { $0.figure < $1.figure } : peers.max { $0.figure < $1.figure }
  }

  /// Records/s for w1 and w2, milliseconds for w3 and w4. NATS JetStream is left out, because it does not sync each
  /// message. PostgreSQL's pulls are those after ANALYZE (29 177 and 42 271 before). Services with polls only count
  /// with their clients' pause of five seconds.
  static let all: [Peer] =
    rows("CouchDB", .service, [492, 1_163, 21_096, 19_952, 25_503, 179, 179, 4.0])
    + rows("Kinto on PostgreSQL", .service, [170, 324, 400, 61_487, 95_871, 5_000, 5_000, nil])
    + rows("Etebase on PostgreSQL", .service, [33, 51, 327, 858, 1_453, 1_613, 1_613, 40])
    + rows("Matrix Synapse on PostgreSQL", .service, [44, 81, nil, 13_858, 18_447, 26_000, 26_000, nil])
    + rows("Cyrus JMAP", .service, [nil, 470, 1_055, 7_700, nil, 5_000, 5_000, nil])
    + rows("Radicale", .service, [106, 196, nil, 6_253, 3_728, 5_000, 5_000, 5.2])
    + rows("PostgreSQL", .store, [3_655, 11_932, 74_685, 625_000, 954_000, 648, 731, 0.45])
    + rows("etcd", .store, [2_493, 8_882, 30_112, 44_743, 70_062, 33, 33, 0.86])
    + rows("Redis Streams", .store, [6_175, 27_415, 202_027, 613_046, 647_632, 18, 18, nil])

  private static let workloads = [
    "w1a:1", "w1a:16", "w1b:16", "w2:1", "w2:8", "w3:1000 last ping", "w3:1000 last pull", "w4:2 refusal",
  ]

  private static func rows(_ system: String, _ kind: Kind, _ figures: [Double?]) -> [Peer] {
    zip(workloads, figures).compactMap { workload, figure in
      figure.map { Peer(system: system, kind: kind, workload: workload, figure: $0) }
    }
  }
}
