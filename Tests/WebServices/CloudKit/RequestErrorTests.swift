import Records
import Testing

@testable import WebServices

struct RequestErrorTests {
  @Test func `an error that is given its place in a request stays the same error`() {
    let error = RecordError(
      .badRequest, "is shared already", retryAfter: 3, cocoaErrorCode: .mirroring, httpStatus: 410,
      specialCKErrorCode: 30)
    let placed = error.within("operations[2]")
    #expect(placed.reason == "operations[2]: is shared already")
    #expect(
      placed.ckErrorCode == 30 && placed.cocoaErrorCode == .mirroring && placed.retryAfter == 3
        && placed.httpStatus == 410)
  }
}
