import Testing
import WebServices

@Test(arguments: ["+999999999-01-01T00:00:00Z", "-999999999-01-01T00:00:00Z", "+292278994-08-17T07:12:55.808Z"])
func `a date that 64 bits of milliseconds can't hold is refused`(_ text: String) {
  #expect(MirrorDate.milliseconds(text) == nil)
}

@Test(arguments: [Int64.max, -9_000_000_000_000_000_000, -1, 0, 1_795_159_969_123])
func `a date reads back as it was written`(_ milliseconds: Int64) {
  #expect(MirrorDate.milliseconds(MirrorDate.text(milliseconds)) == milliseconds)
}
