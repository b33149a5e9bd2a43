// Why a model file could not be read at all; a model that was read but can't be mirrored is `ModelValidator`'s.

/// A file that is no model, or says something no model can.
public struct ModelReadingError: Error, Hashable, Sendable, CustomStringConvertible {
  /// One sentence.
  public let reason: String
  /// The first line is 1; nil when it concerns the whole file.
  public let line: Int?
  public let entity: String?
  public let property: String?

  public init(_ reason: String, line: Int? = nil, entity: String? = nil, property: String? = nil) {
    self.reason = reason
    self.line = line
    self.entity = entity
    self.property = property
  }

  public var description: String { line.map { "Line \($0): \(reason)" } ?? reason }
}
