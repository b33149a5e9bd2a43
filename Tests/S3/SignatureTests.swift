import Crypto
import Testing

@testable import S3

/// The examples of Amazon's documentation, which state every signature.
struct SignatureTests {
  /// 24 May 2013.
  private static let time: Int64 = 1_369_353_600
  private let signer: S3Signer

  /// The documentation's host is of the time before regions were part of it.
  private static func place(_ key: String) -> S3Location.Place {
    let host = "examplebucket.s3.amazonaws.com"
    return S3Location.Place(origin: "https://\(host)", host: host, path: "/\(key)")
  }

  init() throws {
    signer = S3Signer(
      location: try S3Location("s3://examplebucket"),
      credentials: S3Credentials(
        keyID: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
  }

  private func signature(_ request: S3Request) -> String {
    let signed = signer.signed(request, to: Self.place(S3Text.encoded(request.key)), at: Self.time)
    let authorization = signed.headers.first { $0.name == "authorization" }?.value ?? ""
    return String(authorization.suffix(64))
  }

  @Test func `a download of a range is signed as documented`() {
    #expect(
      signature(S3Request("GET", "test.txt", headers: ["range": "bytes=0-9"]))
        == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
  }

  @Test func `an upload is signed as documented`() {
    let request = S3Request(
      "PUT", "test$file.text",
      headers: ["date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"],
      body: Array("Welcome to Amazon S3.".utf8))
    #expect(signature(request) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
  }

  @Test func `a parameter without a value is signed as documented`() {
    #expect(
      signature(S3Request("GET", "", query: ["lifecycle": ""]))
        == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
  }

  @Test func `a list is signed as documented`() {
    #expect(
      signature(S3Request("GET", "", query: ["prefix": "J", "max-keys": "2"]))
        == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
  }

  @Test func `a URL is signed as documented`() {
    let url = signer.presigned(S3Request("GET", "test.txt"), to: Self.place("test.txt"), at: Self.time, for: 86_400).url
    #expect(
      url
        == "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
        + "AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires="
        + "86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
        + "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")
  }

  @Test func `a removal that expires is signed as botocore signs it`() {
    let headers = ["x-amz-checksum-sha256": "abc=", "x-amz-sdk-checksum-algorithm": "SHA256"]
    let request = S3Request("POST", "", query: ["delete": ""], headers: headers, body: [1])
    let signed = signer.presigned(request, to: Self.place(""), at: Self.time, for: S3Request.lifetime)
    #expect(Dictionary(uniqueKeysWithValues: signed.headers.map { ($0.name, $0.value) }) == headers)
    #expect(signed.url.contains("&X-Amz-Expires=30&"))
    #expect(signed.url.hasSuffix("=dd479d93adf2d246554cde44745e0212537484dcee4e8c568c6c9d8891665453"))
  }

  @Test func `temporary credentials name their session, and no text shows a secret`() throws {
    let credentials = S3Credentials(keyID: "id", secret: "the secret", sessionToken: "the session")
    let signed = S3Signer(location: try S3Location("s3://bucket"), credentials: credentials)
      .signed(S3Request("GET", "a"), at: Self.time)
    #expect(signed.headers.contains { $0 == (name: "x-amz-security-token", value: "the session") })
    #expect(signed.headers.last { $0.name == "authorization" }?.value.contains("x-amz-security-token") == true)
    #expect(!"\(credentials)".contains("the s") && !"\(signed)".contains("the secret"))
  }

  @Test func `times are spelled in UTC, leap days included`() {
    for (seconds, text) in [
      (0, "19700101T000000Z"), (951_782_399, "20000228T235959Z"), (951_782_400, "20000229T000000Z"),
      (1_709_251_199, "20240229T235959Z"), (4_102_444_799, "20991231T235959Z"),
    ] as [(Int64, String)] { #expect(S3Date.text(seconds) == text) }
    for (text, seconds) in [
      ("Fri, 24 May 2013 00:00:00 GMT", Self.time), ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
      ("Thu, 01 Jan 1970 00:00:59 GMT", 59), ("24 May 2013", nil), ("Fri, 99 May 2013 00:00:00 GMT", nil), ("", nil),
    ] as [(String, Int64?)] { #expect(S3Date.seconds(ofHTTP: text) == seconds) }
    for (text, seconds) in [
      ("2010-11-10T20:48:33.000Z", 1_289_422_113), ("1970-01-01T00:00:00Z", 0),
      ("2024-02-29T23:59:59.5Z", 1_709_251_199),
      ("2010-11-10T20:48:33", nil), ("2010-13-10T20:48:33Z", nil), ("2010-11-10 20:48:33Z", nil), ("", nil),
    ] as [(String, Int64?)] { #expect(S3Date.seconds(ofXML: text) == seconds) }
  }
}
