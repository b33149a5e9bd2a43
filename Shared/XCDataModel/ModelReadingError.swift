// The error for a model file that cannot be read; `ModelValidator` reports models that can be read but not mirrored.

/// A file that is not a model, or that holds a value no model can have.
public struct ModelReadingError: Error, Hashable, Sendable, CustomStringConvertible {
  /// One sentence.
  public let reason: String
  /// Counted from 1; nil when the error concerns the whole file.
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
