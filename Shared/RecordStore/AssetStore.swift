// Content-addressed files for values too large for a record.

public import Records

/// A folder of files named by the SHA-256 of their content: `ab/cdef…`. Only names of ours ever become paths.
public struct AssetStore: Sendable {
  public let directory: String

  public init(directory: String) { self.directory = directory }

  /// Writes `content` durably (file and folder synced) unless it is there already.
  public func put(_ content: [UInt8]) throws(StoreError) -> Asset { preconditionFailure("to be written") }

  /// The content, verified against its hash.
  /// - Throws: `StoreError.io` when it is missing, `.corrupt` when it is not what was written.
  public func read(_ asset: Asset) throws(StoreError) -> [UInt8] { preconditionFailure("to be written") }

  /// Where the file is (or would be).
  public func path(of asset: Asset) -> String { preconditionFailure("to be written") }
}
