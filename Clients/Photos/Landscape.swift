// Pictures for the demonstration: landscapes that a number decides, as SVG, so that no photograph has to be shipped.

/// A landscape. Equal numbers give equal pictures.
struct Landscape {
  private struct Light {
    let sky: (String, String)
    let sun: String
    /// From far to near.
    let hills: [String]
  }

  /// Captions that fit, one for each light.
  static let captions = [
    "Dunes at dawn", "Harbour, low tide", "Above the clouds", "Evening walk", "First snow", "Blue hour",
  ]

  private static let lights = [
    Light(sky: ("#f9c58d", "#f492a5"), sun: "#fff3d6", hills: ["#d98c6a", "#b5654d", "#7c3f3a"]),
    Light(sky: ("#bfe3f2", "#f4f1e6"), sun: "#ffffff", hills: ["#7fb3c8", "#4c8aa5", "#24506b"]),
    Light(sky: ("#3c5a99", "#c9dcf2"), sun: "#ffe9b0", hills: ["#dfe9f5", "#b7cbe6", "#7f9cc7"]),
    Light(sky: ("#5b2a6b", "#f0715d"), sun: "#ffcf6e", hills: ["#8a3f6f", "#5a2a58", "#2c1838"]),
    Light(sky: ("#cfd9df", "#eef2f4"), sun: "#ffffff", hills: ["#b4c4cc", "#8fa5b0", "#f7fafb"]),
    Light(sky: ("#0f2347", "#3f6ea8"), sun: "#e8f0ff", hills: ["#27497d", "#173059", "#0a1730"]),
  ]

  static let width = 480
  static let height = 480

  let number: Int

  /// The picture's text.
  var svg: String {
    var random = Sequence(state: UInt64(truncatingIfNeeded: number) &* 0x9E37_79B9_7F4A_7C15 &+ 1)
    let light = Self.lights[number % Self.lights.count]
    let (x, y, radius) = (90 + random.next(300), 90 + random.next(110), 26 + random.next(22))
    var shapes = """
      <defs><linearGradient id="s" x2="0" y2="1"><stop stop-color="\(light.sky.0)"/><stop offset="1" \
      stop-color="\(light.sky.1)"/></linearGradient></defs>
      <rect width="\(Self.width)" height="\(Self.height)" fill="url(#s)"/>
      <circle cx="\(x)" cy="\(y)" r="\(radius * 2)" fill="\(light.sun)" opacity=".25"/>
      <circle cx="\(x)" cy="\(y)" r="\(radius)" fill="\(light.sun)"/>
      """
    for (place, colour) in light.hills.enumerated() {
      shapes += "\n<path d=\"\(hill(from: 230 + place * 75, &random))\" fill=\"\(colour)\"/>"
    }
    return """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Self.width) \(Self.height)">
      \(shapes)
      </svg>
      """
  }

  /// A range of hills that begins at a height, from the left side to the right and back along the bottom.
  private func hill(from top: Int, _ random: inout Sequence) -> String {
    var path = "M0 \(top + random.next(60))"
    for x in stride(from: 120, through: Self.width, by: 120) {
      path += " Q\(x - 60) \(top - 40 + random.next(110)) \(x) \(top + random.next(60))"
    }
    return path + " V\(Self.height) H0 Z"
  }

  /// Numbers that look random and are the same everywhere.
  private struct Sequence {
    var state: UInt64

    /// 0 up to, not including, `limit`.
    mutating func next(_ limit: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(limit))
    }
  }
}
