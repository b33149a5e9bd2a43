import Records
import Testing

@Suite struct PhoneNumberTests {
  @Test(arguments: [
    ("+44 20 7946-0000", "+442079460000"), ("(020) 7946.0000", "02079460000"), ("112", "112"),
    ("+1/555/0100", "+15550100"), ("0049\u{a0}30 1", "0049301"),
  ]) func `however it is written, a number is the same`(text: String, number: String) {
    #expect(PhoneNumber(text)?.description == number)
    #expect(PhoneNumber(number) == PhoneNumber(text))
  }

  @Test(arguments: [
    "", "+", "12", "1234567890123456", "12+34", "++123", "12a4", "١٢٣٤", "1234;ext=5",
    String(repeating: " ", count: 70) + "123",
  ])
  func `a text that is not a number is refused`(text: String) { #expect(PhoneNumber(text) == nil) }
}
