// Writes Prometheus's text format.

struct MetricsText {
  private(set) var bytes: [UInt8] = []

  mutating func head(_ name: String, _ help: String, _ kind: Metrics.Kind) {
    add("# HELP \(name) \(Self.escaped(help, quotes: false))\n# TYPE \(name) \(kind.rawValue)\n")
  }

  mutating func line(_ name: String, _ labels: [(name: String, value: String)], _ value: Double) {
    add(name)
    if !labels.isEmpty {
      add("{" + labels.map { "\($0.name)=\"\(Self.escaped($0.value, quotes: true))\"" }.joined(separator: ",") + "}")
    }
    add(" \(Self.number(value))\n")
  }

  mutating func histogram(_ name: String, _ labels: [(name: String, value: String)], _ buckets: Metrics.Buckets) {
    var total: UInt64 = 0
    for (index, count) in buckets.counts.enumerated() {
      total += count
      let bound = index < buckets.bounds.count ? Self.number(buckets.bounds[index]) : "+Inf"
      line(name + "_bucket", labels + [("le", bound)], Double(total))
    }
    line(name + "_sum", labels, buckets.sum)
    line(name + "_count", labels, Double(total))
  }

  private mutating func add(_ text: String) { bytes.append(contentsOf: text.utf8) }

  static func number(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
    if value == value.rounded(), abs(value) < 1e15 { return String(Int64(value)) }
    return value.description
  }

  private static func escaped(_ text: String, quotes: Bool) -> String {
    var escaped = ""
    for character in text.unicodeScalars {
      switch character {
      case "\\": escaped += "\\\\"
      case "\n": escaped += "\\n"
      case "\"" where quotes: escaped += "\\\""
      default: escaped.unicodeScalars.append(character)
      }
    }
    return escaped
  }
}
