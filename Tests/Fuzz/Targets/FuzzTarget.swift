// A fuzzed parser with the properties that must hold for every accepted input.

/// One parser, or several that read the same kind of bytes.
struct FuzzTarget: Sendable {
  /// Also the name of its folder in the corpus.
  let name: String
  /// Inputs that are hard to write by hand, made by the product's own encoders.
  var seeds: @Sendable () throws -> [[UInt8]] = { [] }
  /// - Throws: `Broken` when a property does not hold; nothing for an input that is refused.
  let run: @Sendable ([UInt8]) throws -> Void

  static let all: [FuzzTarget] = [
    .json, .messagePack, .http, .recordPlane, .objectPlane, .zoneLines, .tokens, .values, .model, .schema, .bus,
    .storedRows, .composites, .operatorFiles,
  ]
}

/// A property of a parser does not hold for this input.
struct Broken: Error, CustomStringConvertible {
  let description: String
}

/// Throws `Broken` unless the condition is true.
func hold(_ condition: Bool, _ sentence: @autoclosure () -> String) throws {
  if !condition { throw Broken(description: sentence()) }
}

/// Throws `Broken` unless the values are equal.
func holdEqual<Value: Equatable>(_ left: Value, _ right: Value, _ sentence: @autoclosure () -> String) throws {
  if left != right { throw Broken(description: "\(sentence()): \(left) is not \(right)") }
}

/// The parser's result; nil when it refused the input.
/// - Parameter check: checks the refusal.
func taken<Value>(_ read: () throws -> Value, orRefused check: (any Error) throws -> Void = { _ in }) throws -> Value? {
  do {
    return try read()
  } catch let broken as Broken {
    throw broken
  } catch {
    try check(error)
    return nil
  }
}
