// What is fuzzed: a parser with what must hold of whatever it takes.

/// One parser, or several that read the same kind of bytes.
struct FuzzTarget: Sendable {
  /// Names its folder of the corpus, too.
  let name: String
  /// Inputs that no person would write into a file, made by the product's own encoders.
  var seeds: @Sendable () throws -> [[UInt8]] = { [] }
  /// - Throws: `Broken` when something does not hold; nothing for input that is refused.
  let run: @Sendable ([UInt8]) throws -> Void

  static let all: [FuzzTarget] = [
    .json, .messagePack, .http, .recordPlane, .objectPlane, .zoneLines, .tokens, .values, .model, .schema, .bus, .storedRows, .composites, .operatorFiles,
  ]
}

/// What must hold of a parser does not, for this input.
struct Broken: Error, CustomStringConvertible {
  let description: String
}

/// Throws unless something holds.
func hold(_ condition: Bool, _ sentence: @autoclosure () -> String) throws {
  if !condition { throw Broken(description: sentence()) }
}

/// Throws unless two ways lead to the same.
func holdEqual<Value: Equatable>(_ left: Value, _ right: Value, _ sentence: @autoclosure () -> String) throws {
  if left != right { throw Broken(description: "\(sentence()): \(left) is not \(right)") }
}

/// What a parser made of the input; nil when it refused it.
/// - Parameter check: looks at what the refusal says.
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
