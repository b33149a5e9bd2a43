import Foundation
import Testing

@testable import Records

/// The text of docs/operating/ERRORS.md, generated from the table.
private enum ErrorsPage {
  static let path = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
    .appending(path: "docs/operating/ERRORS.md")

  static var text: String {
    """
    # Errors

    Made from the table in [Shared/Records/ErrorTable.swift](../../Shared/Records/ErrorTable.swift) by the test that
    compares the two (`REWRITE=1 deploy/test ErrorTableTests`). [OPERATING.md](OPERATING.md) says what an
    operator does about them.

    An answer that fails as a whole has one of these as `serverErrorCode`, with `reason` (which names the place, and
    never a value) and `uuid`, the request's identifier in the logs. Items of a batch have theirs in a 200. The object
    plane adds `ckErrorCode`, and `cocoaErrorCode` where Core Data has a number of its own. "Retry" says whether the
    same request may succeed later without a change; `retryAfter` says when.

    | serverErrorCode | HTTP | ckErrorCode | retry | meaning | what the client should do | what the operator should \
    look at |
    |---|---|---|---|---|---|---|
    \(ServerErrorCode.allCases.map { code in
      let (row, status) = (code.row, "\(code.row.httpStatus)")
      return line([code.rawValue, status, "\(row.ckErrorCode)", row.isRetryable ? "yes" : "no"], row.advice)
    }.joined(separator: "\n"))

    A method that an endpoint does not have is BAD_REQUEST with 405; a token of history or imports that is too old is \
    BAD_REQUEST with 410.

    ## cocoaErrorCode

    | cocoaErrorCode | name | meaning | what the client should do | what the operator should look at |
    |---|---|---|---|---|
    \(CocoaErrorCode.allCases.map { line(["\($0.rawValue)", "\($0)"], $0.advice) }.joined(separator: "\n"))

    ## Other values of ckErrorCode

    | ckErrorCode | name | meaning | what the client should do | what the operator should look at |
    |---|---|---|---|---|
    \(SpecialCKErrorCode.allCases.map { line(["\($0.rawValue)", "\($0)"], $0.advice) }.joined(separator: "\n"))
    | 2 | partialFailure | Some records of an export or import were left out; the event lists each with its own code. \
    | See each record's code. | `aquifer events`, `aquifer quarantine list`. |

    """
  }

  private static func line(_ cells: [String], _ advice: ErrorAdvice) -> String {
    "| " + (cells + [advice.meaning, advice.client, advice.operators]).joined(separator: " | ") + " |"
  }
}

struct ErrorTableTests {
  @Test func `ERRORS md says what the table says, no less and no more`() throws {
    if ProcessInfo.processInfo.environment["REWRITE"] == "1" {
      try ErrorsPage.text.write(to: ErrorsPage.path, atomically: true, encoding: .utf8)
    }
    let page = try String(contentsOf: ErrorsPage.path, encoding: .utf8)
    for (found, expected) in zip(page.split(separator: "\n"), ErrorsPage.text.split(separator: "\n")) {
      #expect(found == expected)
    }
    #expect(page == ErrorsPage.text)
  }

  @Test func `errors that may be tried again are on the server's side or last for a time`() {
    for code in ServerErrorCode.allCases {
      #expect(code.row.isRetryable == (code.row.httpStatus >= 500 || code.row.httpStatus == 429), "\(code)")
    }
  }

  @Test func `no advice breaks a line of the table`() {
    let all =
      ServerErrorCode.allCases.map(\.row.advice) + CocoaErrorCode.allCases.map(\.advice)
      + SpecialCKErrorCode.allCases.map(\.advice)
    for advice in all {
      for text in [advice.meaning, advice.client, advice.operators] {
        #expect(!text.contains("|") && !text.contains("\n") && text.hasSuffix("."), "\(text)")
      }
    }
  }
}
