// Which shard holds a database. Shards can be divided, so that an installation has more of them than it was created
// with.

/// The databases of one shard: those whose `placeHash` leaves the remainder when it is divided by the modulus.
public struct ShardPart: Hashable, Sendable {
  /// Greater than the remainder.
  public let modulus: Int64
  /// At least 0.
  public let remainder: Int64

  /// nil unless `remainder` can remain.
  public init?(modulus: Int64, remainder: Int64) {
    guard remainder >= 0, remainder < modulus else { return nil }
    self.modulus = modulus
    self.remainder = remainder
  }

  public func contains(_ database: DatabaseID) -> Bool { contains(hash: database.placeHash) }

  public func contains(hash: UInt64) -> Bool { hash % UInt64(modulus) == UInt64(remainder) }

  /// The two parts of a division; nil when the part can't be divided any more.
  public var halves: (staying: ShardPart, leaving: ShardPart)? {
    let (twice, isOver) = modulus.multipliedReportingOverflow(by: 2)
    guard !isOver, let staying = ShardPart(modulus: twice, remainder: remainder),
      let leaving = ShardPart(modulus: twice, remainder: remainder + modulus)
    else { return nil }
    return (staying, leaving)
  }
}

extension ShardPart: Codable {
  private enum CodingKeys: CodingKey { case modulus, remainder }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let (modulus, remainder) = (
      try container.decode(Int64.self, forKey: .modulus), try container.decode(Int64.self, forKey: .remainder)
    )
    guard let part = ShardPart(modulus: modulus, remainder: remainder) else {
      throw DecodingError.dataCorruptedError(
        forKey: .remainder, in: container, debugDescription: "\(remainder) can't remain of \(modulus)")
    }
    self = part
  }
}

/// The shards of an installation: those that it was created with, and those that came by splits.
///
/// A split divides the databases of one shard. Half of them stay, the others are in a new shard, whose number is the
/// next one. All other databases stay where they are.
public struct ShardLayout: Hashable, Sendable {
  /// The most shards that an installation has.
  public static let countLimit = 4096

  /// The number of shards that the installation was created with.
  public let createdCount: Int
  /// The divided shard of each split, in the order of the splits. The new shard of split i is `createdCount + i`.
  public let splits: [Int]

  /// nil unless each split divides a shard that there was.
  public init?(createdCount: Int, splits: [Int] = []) {
    guard createdCount > 0, splits.count <= Self.countLimit,
      splits.enumerated().allSatisfy({ (0..<createdCount + $0.offset).contains($0.element) })
    else { return nil }
    self.createdCount = createdCount
    self.splits = splits
  }

  /// The number of shards.
  public var count: Int { createdCount + splits.count }

  /// The shard that holds a database: the same in every process and release.
  public func shard(of database: DatabaseID) -> Int { shard(ofHash: database.placeHash) }

  /// - Parameter hash: a database's `placeHash`.
  public func shard(ofHash hash: UInt64) -> Int {
    var (choices, rest) = hash.quotientAndRemainder(dividingBy: UInt64(createdCount))
    if splits.isEmpty { return Int(rest) }
    var shard = Int(rest)
    for (number, divided) in splits.enumerated() where divided == shard {
      (choices, rest) = choices.quotientAndRemainder(dividingBy: 2)
      if rest == 1 { shard = createdCount + number }
    }
    return shard
  }

  /// The databases of a shard; nil when there is no such shard, or it was divided too often.
  public func part(of shard: Int) -> ShardPart? {
    (0..<count).contains(shard) ? part(of: shard, after: splits.count) : nil
  }

  /// The databases of a shard; nil for one that was never divided, or of which there is none.
  public func dividedPart(of shard: Int) -> ShardPart? {
    part(of: shard).flatMap { $0.modulus == Int64(createdCount) ? nil : $0 }
  }

  /// The databases of a shard after the first splits.
  private func part(of shard: Int, after splitCount: Int) -> ShardPart? {
    var (part, start) = (ShardPart(modulus: Int64(createdCount), remainder: Int64(shard)), 0)
    if shard >= createdCount {
      start = shard - createdCount
      part = self.part(of: splits[start], after: start)?.halves?.leaving
    }
    for divided in splits[start..<splitCount] where divided == shard { part = part?.halves?.staying }
    return part
  }

  /// The shards that have what a shard had at some time: the shard itself, and what was split off it; ascending.
  public func heirs(of shard: Int) -> [Int] {
    guard (0..<count).contains(shard) else { return [] }
    var heirs = [shard]
    for (number, divided) in splits.enumerated() where heirs.contains(divided) { heirs.append(createdCount + number) }
    return heirs
  }

  /// The layout after one more split; nil when there is no such shard, or no room for another one.
  public func splitting(_ shard: Int) -> ShardLayout? {
    guard count < Self.countLimit, let part = part(of: shard), part.halves != nil else { return nil }
    return ShardLayout(createdCount: createdCount, splits: splits + [shard])
  }
}
