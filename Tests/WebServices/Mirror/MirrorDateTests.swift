// Dates of the mirror API.

import Foundation
import Testing
import WebServices

@Test(
  arguments: [
    (0, "1970-01-01T00:00:00.000Z"), (1_795_160_004_123, "2026-11-20T07:33:24.123Z"), (-1, "1969-12-31T23:59:59.999Z"),
    (951_782_400_000, "2000-02-29T00:00:00.000Z"), (-62_135_769_600_000, "0000-12-30T00:00:00.000Z"),
    (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"), (-62_167_219_200_001, "-000001-12-31T23:59:59.999Z"),
  ] as [(Int64, String)]) func `a date is written in UTC with milliseconds and read back`(
    _ milliseconds: Int64, _ text: String
  )
{
  #expect(MirrorDate.text(milliseconds) == text)
  #expect(MirrorDate.milliseconds(text) == milliseconds)
}

@Test(
  arguments: [
    ("2026-11-20T07:33:24Z", 1_795_160_004_000), ("2026-11-20t07:33:24.1z", 1_795_160_004_100),
    ("2026-11-20T08:33:24.123+01:00", 1_795_160_004_123),
    ("2026-11-20T02:03:24.123-05:30", 1_795_160_004_123), ("2026-11-20T07:33:24.1234Z", 1_795_160_004_123),
    ("2026-11-20T07:33:24.1235Z", 1_795_160_004_124),
    ("2026-11-20T07:33:23.9999Z", 1_795_160_004_000), ("2026-11-20 07:33:24Z", 1_795_160_004_000),
  ] as [(String, Int64)]) func `dates with offsets and other decimals are read, rounded to the millisecond`(
    _ text: String, _ milliseconds: Int64
  )
{
  #expect(MirrorDate.milliseconds(text) == milliseconds)
}

@Test(arguments: [
  "", "2026-11-20", "2026-11-20T07:33:24", "2026-11-20T07:33Z", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z",
  "2026-04-31T00:00:00Z", "2026-11-20T24:00:00Z",
  "2026-11-20T07:60:00Z", "2026-11-20T07:33:60Z", "2026-11-20T07:33:24.Z", "2026-11-20T07:33:24Z ",
  "26-11-20T07:33:24Z", "2026-11-20T07:33:24+0100", "now",
  "1900-02-29T00:00:00Z", "2026-00-10T00:00:00Z", "2026-01-00T00:00:00Z", "+2026-01-01T00:00:00Z",
]) func `text that is no date is refused`(_ text: String) {
  #expect(MirrorDate.milliseconds(text) == nil)
}

@Test func `the calendar agrees with Foundation's over a thousand years and more`() {
  let formatter = ISO8601DateFormatter()
  formatter.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
  // About every 100 days from 1600 to 2700, at odd times of day.
  var milliseconds: Int64 = -11_676_096_000_000
  while milliseconds < 23_000_000_000_000 {
    let text = formatter.string(from: Date(timeIntervalSince1970: Double(milliseconds) / 1000))
    #expect(MirrorDate.text(milliseconds) == text)
    milliseconds += 8_640_000_000 + 3_723_000
  }
}

@Test func `the largest and smallest timestamps a record can hold are written and read`() {
  for milliseconds in [Int64.max, Int64.min, Int64.max / 2] {
    let text = MirrorDate.text(milliseconds)
    #expect(text.hasSuffix("Z"))
  }
}
