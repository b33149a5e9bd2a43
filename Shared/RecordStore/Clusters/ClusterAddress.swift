// Reads the clusters of an installation from one setting.

/// A cluster of PostgreSQL with its name.
public struct ClusterAddress: Hashable, Sendable {
  /// The name of a cluster that is given without one.
  public static let main = "main"

  public let name: String
  /// libpq's connection string. Can hold a password.
  public let address: String

  /// - Parameter text: one address, which is the main cluster's, or addresses `NAME=postgresql://…` between spaces, of
  ///   which one may lack its name.
  /// - Returns: the clusters by their names; nil for any other text.
  public static func list(_ text: String) -> [ClusterAddress]? {
    let clusters = text.split(whereSeparator: \.isWhitespace).map { word in
      let start = schemes.compactMap { word.firstRange(of: $0)?.lowerBound }.min() ?? word.endIndex
      let hasName = start > word.startIndex && word[..<start].hasSuffix("=")
      return ClusterAddress(
        name: hasName ? String(word[..<start].dropLast()) : main, address: String(hasName ? word[start...] : word))
    }
    let isList = clusters.allSatisfy { cluster in
      isName(cluster.name) && schemes.contains { cluster.address.hasPrefix($0) }
        && PostgreSQLConfiguration.isAddress(cluster.address)
    }
    if !clusters.isEmpty, isList, Set(clusters.map(\.name)).count == clusters.count {
      return clusters.sorted { $0.name < $1.name }
    }
    guard clusters.count < 2 || !schemes.contains(where: text.contains), PostgreSQLConfiguration.isAddress(text) else {
      return nil
    }
    return [ClusterAddress(name: main, address: text)]
  }

  private static let schemes = ["postgresql://", "postgres://"]

  private static func isName(_ text: String) -> Bool {
    (1...32).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte {
        case true: true
        case false: byte == UInt8(ascii: "-")
        }
      }
  }
}
