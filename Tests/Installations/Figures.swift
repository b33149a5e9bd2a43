// Helpers for reports.

package import JSON
import Glibc

/// Durations of calls. Unit: milliseconds.
package struct Times: Sendable {
  private let sorted: [Double]

  package init(_ values: [Double]) { sorted = values.sorted() }

  package var count: Int { sorted.count }
  package var max: Double { sorted.last ?? 0 }
  package func percentile(_ percent: Double) -> Double {
    sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * percent / 100))]
  }
}

/// A number with one decimal digit.
package func tenths(_ value: Double) -> String {
  let tenths = Int((value * 10).rounded())
  return "\(tenths / 10).\(tenths % 10)"
}

package func monotonicNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Makes a JSON object.
package func object(_ build: (inout JSONWriter) -> Void) -> [UInt8] {
  var writer = JSONWriter()
  writer.beginObject()
  build(&writer)
  writer.endObject()
  return writer.bytes
}

/// Encodes a text for use as a query value.
package func percentEncoded(_ text: String) -> String {
  text.utf8.reduce(into: "") { result, byte in
    let isPlain =
      byte < 0x80
      && (Character(Unicode.Scalar(byte)).isLetter || Character(Unicode.Scalar(byte)).isNumber
        || "-._~".utf8.contains(byte))
    let digits = String(byte, radix: 16, uppercase: true)
    if isPlain {
      result.unicodeScalars.append(Unicode.Scalar(byte))
    } else {
      result += "%" + (digits.count == 1 ? "0" : "") + digits
    }
  }
}
