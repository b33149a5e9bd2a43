// Functions of texts that statements can call.

import CSQLite

extension Connection {
  /// Lends statements of this connection a function from text to text. `NULL` stays `NULL`.
  /// - Parameter transform: always answers the same for the same text.
  public func define(_ name: String, _ transform: @escaping (String) -> String) throws(SQLiteError) {
    let box = Unmanaged.passRetained(TextFunction(transform))
    let flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC
    let connection: OpaquePointer
    do { connection = try open("define \(name)") } catch {
      box.release()
      throw error
    }
    // SQLite calls the last closure also when it refuses the function.
    let code = sqlite3_create_function_v2(
      connection, name, 1, flags, box.toOpaque(), TextFunction.call, nil, nil,
      { box in if let box { Unmanaged<TextFunction>.fromOpaque(box).release() } })
    guard code == SQLITE_OK else {
      throw SQLiteError(code: code, statement: "define \(name)", message: "the function is refused")
    }
  }
}

private final class TextFunction {
  let transform: (String) -> String

  init(_ transform: @escaping (String) -> String) { self.transform = transform }

  static let call: @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void = {
    context, _, arguments in
    guard let box = sqlite3_user_data(context), let argument = arguments?[0], let start = sqlite3_value_text(argument)
    else {
      sqlite3_result_null(context)
      return
    }
    let text = String(
      decoding: UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(argument))), as: UTF8.self)
    var result = Unmanaged<TextFunction>.fromOpaque(box).takeUnretainedValue().transform(text)
    result.withUTF8 { bytes in
      bytes.withMemoryRebound(to: CChar.self) { characters in
        // Points anywhere for an empty text, whose address is nil: SQLite reads that as NULL.
        if let start = characters.baseAddress {
          sqlite3_result_text(
            context, start, Int32(characters.count), unsafeBitCast(-1, to: sqlite3_destructor_type.self))
        } else {
          sqlite3_result_text(context, "", 0, nil)
        }
      }
    }
  }
}
