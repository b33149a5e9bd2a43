import Foundation
import Records
import Testing

@testable import Indexing

@Suite struct `Places` {
  /// The distance by the angle between two unit vectors, a different formula than the tested one.
  static func distance(_ a: Location, _ b: Location) -> Double {
    func vector(_ place: Location) -> [Double] {
      let (latitude, longitude) = (place.latitude * .pi / 180, place.longitude * .pi / 180)
      return [cos(latitude) * cos(longitude), cos(latitude) * sin(longitude), sin(latitude)]
    }
    let (u, v) = (vector(a), vector(b))
    let cross = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    let length = cross.reduce(0) { $0 + $1 * $1 }.squareRoot()
    return 6_371_008.8 * atan2(length, u[0] * v[0] + u[1] * v[1] + u[2] * v[2])
  }

  static func place(_ latitude: Double, _ longitude: Double) -> Location {
    Location(latitude: latitude, longitude: longitude)
  }

  @Test func `distances are those of another formula, also across the antimeridian and the poles`() {
    for (a, b) in [
      (Self.place(52.52, 13.405), Self.place(48.8566, 2.3522)), (Self.place(0, 179.9), Self.place(0, -179.9)),
      (Self.place(89.9, 0), Self.place(89.9, 180)),
      (Self.place(-90, 0), Self.place(90, 0)), (Self.place(10, 20), Self.place(10, 20)),
      (Self.place(0, 0), Self.place(0, 180)),
      (Self.place(1, 1), Self.place(1.000001, 1)),
    ] {
      #expect(abs(Earth.distance(a, b) - Self.distance(a, b)) < 0.1, "\(a) \(b)")
    }
  }

  @Test(arguments: 0..<400) func `every place within a distance is in the ranges, which are few`(_ seed: Int) {
    var generator = Seeded(state: UInt64(seed))
    let corners = [(90.0, 0.0), (-90, 12), (0, 180), (0, -180), (89.99, 179.99), (-89, -179), (0, 0), (52.5, 13.4)]
    let corner = corners[seed % corners.count]
    let center =
      seed % 3 == 0
      ? Self.place(corner.0, corner.1)
      : Self.place(.random(in: -90...90, using: &generator), .random(in: -180...180, using: &generator))
    let distance = pow(10, Double.random(in: 0...7.4, using: &generator))
    let ranges = PlaceKey.ranges(near: center, within: distance)
    #expect(ranges.count <= 16)
    var insideCount = 0
    for _ in 0..<300 {
      // Around the center, so that many points lie near the rim.
      let reach = distance / 111_195 * 1.5
      let latitude = min(90, max(-90, center.latitude + .random(in: -reach...reach, using: &generator)))
      let shrunk = max(cos(latitude * .pi / 180), 1e-6)
      var longitude =
        center.longitude + .random(in: -min(reach / shrunk, 360)...min(reach / shrunk, 360), using: &generator)
      while longitude > 180 { longitude -= 360 }
      while longitude < -180 { longitude += 360 }
      let place = Self.place(latitude, longitude)
      guard Earth.distance(center, place) <= distance else { continue }
      insideCount += 1
      #expect(ranges.contains { $0.contains(PlaceKey.key(of: place)) }, "\(center) \(distance) \(place)")
    }
    #expect(insideCount > 10)
    for longitude in [180.0, -180] where Earth.distance(center, Self.place(center.latitude, longitude)) <= distance {
      #expect(ranges.contains { $0.contains(PlaceKey.key(of: Self.place(center.latitude, longitude))) })
    }
  }

  @Test func `a small circle leaves most of the map out`() {
    let ranges = PlaceKey.ranges(near: Self.place(52.5, 13.4), within: 1000)
    #expect(!ranges.contains { $0.contains(PlaceKey.key(of: Self.place(53.5, 13.4))) })
    #expect(!ranges.contains { $0.contains(PlaceKey.key(of: Self.place(52.5, 15))) })
  }

  struct Seeded: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
      state &+= 0x9e37_79b9_7f4a_7c15
      var z = state
      z = (z ^ z >> 30) &* 0xbf58_476d_1ce4_e5b9
      z = (z ^ z >> 27) &* 0x94d0_49bb_1331_11eb
      return z ^ z >> 31
    }
  }
}
