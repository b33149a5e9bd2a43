// The options of the worker's process, with their help.

public import ServiceKit

extension Worker {
  /// The clusters that a worker with these options reaches; nil: the main one.
  public static let clusters: @Sendable (Options) -> [String]? = { RecordPlace.clusterNames($0) }

  public static let options =
    [
      Option(
        "data", .path, default: "data",
        help: """
          The folder with this installation's shards and assets, on a local file system. Created if it is missing. \
          With --records it is the machine's own.
          """),
      Option(
        "user-quota", .integer(0...Int.max), default: "0",
        help: "Bytes that each private database may hold, unless the user has their own quota; 0: no limit."),
      Option(
        "user-stores", .integer(0...1_000_000), default: "500",
        help: """
          The limit of a user's mirrored stores of one database, one for each installation of an app; 0: no limit.
          """),
      Option(
        "asset-grace", .seconds(0...31_536_000), default: "86400",
        help: "The time that the worker keeps assets that no record uses."),
      Option(
        "history-retention", .seconds(0...3_153_600_000), default: "7776000",
        help: "The time that the worker keeps a store's history after all consumers have read it; 0: for ever."),
      Option(
        "record-retention", .seconds(0...3_153_600_000), default: "604800",
        help:
          """
          The time that the worker keeps earlier states of records, for audits and restores of zones. 0: it keeps none.
          """),
      Option(
        "conflict-retention", .seconds(0...3_153_600_000), default: "7776000",
        help: "The time that the worker keeps the losses of conflicts, to list and restore them. 0: it keeps none."),
      Option(
        "asset-threshold", .integer(0...10_000_000), default: "0",
        help:
          """
          Attribute values of at least this many bytes become assets, even in small records (ckAssetThresholdBytes: \
          100 or more); 0: only values that do not fit into their record.
          """
      ),
      Option(
        "verify", .flag,
        help:
          """
          Check all pages and checksums of a shard before the worker serves it, and refuse a shard with a damaged \
          structure. This reads the whole file.
          """
      ),
      EncryptionKeys.option,
    ]
    + RecordPlace.options
    + AssetPlace.options(
      help: "The place of assets, the same for workers and gateways: a folder, or a bucket. Without it, <data>/assets.")
}
