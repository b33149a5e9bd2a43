// Distances on earth, and index keys that find the places near a place.

import Glibc
public import Records

/// Distances on a sphere of the earth's mean radius, at most 0.6 % off those on the ellipsoid.
public enum Earth {
  static let radius = 6_371_008.8

  /// Metres along the great circle.
  public static func distance(_ a: Location, _ b: Location) -> Double {
    let (latitudeA, latitudeB) = (radians(a.latitude), radians(b.latitude))
    let latitudeSine = sin((latitudeB - latitudeA) / 2)
    let longitudeSine = sin(radians(b.longitude - a.longitude) / 2)
    // Rounding can push the square slightly out of 0…1 for points on opposite sides of the earth.
    let square = latitudeSine * latitudeSine + cos(latitudeA) * cos(latitudeB) * longitudeSine * longitudeSine
    return 2 * radius * asin(min(1, max(0, square).squareRoot()))
  }

  static func radians(_ degrees: Double) -> Double { degrees * .pi / 180 }
  static func degrees(_ radians: Double) -> Double { radians * 180 / .pi }
}

/// Keys of places: latitude and longitude as 32 bits each, interleaved, so that a square of the map is one key range.
public enum PlaceKey {
  private static let mark = FieldType.location.rawValue

  static func key(of place: Location) -> [UInt8] {
    IndexKey.number64(spread(cell(place.latitude, span: 180)) << 1 | spread(cell(place.longitude, span: 360)), mark)
  }

  /// The key range of places in the same cell as `place`.
  public static func range(of place: Location) -> IndexRange { IndexRange(key: key(of: place)) }

  /// Key ranges that hold every place within `distance` metres of `center`, and few others.
  public static func ranges(near center: Location, within distance: Double) -> [IndexRange] {
    let angle = max(distance, 0) / Earth.radius
    // Slightly more than exact, so that rounding loses no place at the rim.
    let reach = Earth.degrees(angle) * (1 + 1e-9) + 1e-9
    let (south, north) = (max(center.latitude - reach, -90), min(center.latitude + reach, 90))
    let rows = (cell(south, span: 180), cell(north, span: 180))
    var columns: [(UInt32, UInt32)] = [(0, .max)]
    // A circle around a pole covers every longitude.
    if center.latitude - reach > -90, center.latitude + reach < 90 {
      let width = Earth.degrees(asin(min(1, sin(angle) / cos(Earth.radians(center.latitude))))) * (1 + 1e-9) + 1e-9
      columns = spans(center.longitude - width, center.longitude + width)
    }
    return columns.flatMap { cover(rows: rows, columns: $0) }
  }

  /// The columns from `west` to `east`, in two parts when they cross the antimeridian.
  private static func spans(_ west: Double, _ east: Double) -> [(UInt32, UInt32)] {
    if east - west >= 360 { return [(0, .max)] }
    // ±180 is one meridian under two names.
    if west <= -180 { return [(0, cell(east, span: 360)), (cell(west + 360, span: 360), .max)] }
    if east >= 180 { return [(cell(west, span: 360), .max), (0, cell(east - 360, span: 360))] }
    return [(cell(west, span: 360), cell(east, span: 360))]
  }

  private static func cell(_ degrees: Double, span: Double) -> UInt32 {
    let scaled = (degrees / span + 0.5) * 0x1p32
    return scaled <= 0 ? 0 : scaled >= 0x1p32 ? .max : UInt32(scaled)
  }

  /// Puts a zero bit in front of each bit.
  private static func spread(_ number: UInt32) -> UInt64 {
    var bits = UInt64(number)
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333
    return (bits | bits << 1) & 0x5555_5555_5555_5555
  }

  /// A square of the map: the cells that share the first `level` bits of both coordinates.
  private struct Square {
    var row: UInt32
    var column: UInt32
    var level: Int

    var size: UInt64 { 1 << UInt64(32 - level) }

    func meets(_ rows: (UInt32, UInt32), _ columns: (UInt32, UInt32)) -> Bool {
      row <= rows.1 && UInt64(row) + size > UInt64(rows.0) && column <= columns.1
        && UInt64(column) + size > UInt64(columns.0)
    }

    var quarters: [Square] {
      let half = UInt32(size / 2)
      return [(0, 0), (0, half), (half, 0), (half, half)].map {
        Square(row: row + $0.0, column: column + $0.1, level: level + 1)
      }
    }

    var range: IndexRange {
      let first = spread(row) << 1 | spread(column)
      let (next, overflow) = first.addingReportingOverflow(size &* size)
      // Level 0 is the whole map, whose size overflows as well.
      return IndexRange(
        lower: IndexKey.number64(first, mark),
        upper: overflow || level == 0 ? [mark + 1] : IndexKey.number64(next, mark))
    }
  }

  private static let squareLimit = 8

  /// Covers the rectangle with at most `squareLimit` squares of one size, and joins adjoining ones to one range.
  private static func cover(rows: (UInt32, UInt32), columns: (UInt32, UInt32)) -> [IndexRange] {
    var squares = [Square(row: 0, column: 0, level: 0)]
    while let level = squares.first?.level, level < 32 {
      let finer = squares.flatMap(\.quarters).filter { $0.meets(rows, columns) }
      if finer.count > squareLimit { break }
      squares = finer
    }
    let ranges = squares.map(\.range).sorted { $0.lower.lexicographicallyPrecedes($1.lower) }
    return ranges.reduce(into: []) { joined, range in
      if let last = joined.last, last.upper == range.lower {
        joined[joined.count - 1].upper = range.upper
      } else {
        joined.append(range)
      }
    }
  }
}
