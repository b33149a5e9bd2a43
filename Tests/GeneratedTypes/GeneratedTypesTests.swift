// Types that the plugin made of Zoo.xcdatamodeld before this file compiled: their values live in stores, and their
// columns find what a filter over arrays finds.

import AquiferClient
import Foundation
import Testing

struct GeneratedTypesTests {
  /// A store in memory for each configuration.
  private func container() async throws -> PersistentContainer {
    let stores = ["Cloud", "Local"].map { StoreDescription(path: nil, configuration: $0) }
    return try await PersistentContainer(.zoo, stores: stores)
  }

  @Test func `an object comes back as it was saved, with every type of attribute`() async throws {
    let container = try await container()
    let home = Pride.Home(
      street: "Savannah", in: 3, since: Date(timeIntervalSince1970: 1_700_000_000.25),
      rent: Decimal(string: "1234567890123456789.01"), fee: 0,
      spot: Pride.Home.Spot(latitude: -2.5, longitude: 34.75))
    // A Decimal of a composite is a text, as the server takes it.
    let text =
      #"{"fee":"0","in":3,"rent":"1234567890123456789.01","since":"2023-11-14T22:13:20.250Z","#
      + #""spot":{"latitude":-2.5,"longitude":34.75},"street":"Savannah"}"#
    #expect(home.literal == .text(text))
    let pride = Pride(class: "large", idValue: UUID(), home: home, total: Decimal(string: "1234567890123456789.01"))
    var made = Lion(
      name: "Léa", weight: 120.5, born: Date(timeIntervalSince1970: 86_400), chip: UUID(), isTame: false,
      mane: ExternalData(Data("a long mane".utf8)), roar: 0.5, pride: pride.id)
    made.portrait = Data("of this copy alone".utf8)
    let lion = made
    let keeper = Keeper(page: URL(string: "https://example.org/keeper"), secret: "key", draft: "not sent")
    try await container.save { save in
      try save.insert(pride)
      try save.insert(lion)
      try save.insert(keeper)
      try save.add(.of(lion.id), to: \.animals, of: keeper.id)
    }
    try await container.save { save in _ = try save.insert(Note()) }
    #expect(try await container.fetch(Pride.all) == [pride])
    #expect(try await container.fetch(Keeper.all) == [keeper])
    #expect(try await container.fetch(Note.all).map(\.text) == ["a \"quoted\" \\ word"])
    let found = try #require(try await container.fetch(Lion.all).first)
    #expect(found.keeperCount == 1 && found.portrait == nil)
    #expect(try await container.fetch(Pride.filter { $0.idValue == pride.idValue }) == [pride])
    #expect(try await found.mane?.data() == Data("a long mane".utf8))
    #expect(found.name == lion.name && found.weight == lion.weight && found.born == lion.born)
    #expect(found.chip == lion.chip && found.isTame == lion.isTame && found.roar == lion.roar)
    #expect(found.pride == pride.id)
    await container.close()
  }

  @Test func `properties may be called as the parameters of generated functions are`() async throws {
    let container = try await container()
    let seat = Seat(row: 7, wiring: Seat.Wiring(container: 2, decoder: "right", encoder: "both"))
    try await container.save { save in _ = try save.insert(seat) }
    #expect(try await container.fetch(Seat.filter { $0.row == 7 }) == [seat])
    await container.close()
  }

  /// A condition over columns, and the same over values.
  struct Question: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let condition: @Sendable (Lion.Columns) -> Condition
    let filter: @Sendable (Lion, [ObjectID<Pride>: Pride]) -> Bool

    init(
      _ description: String, _ condition: @escaping @Sendable (Lion.Columns) -> Condition,
      _ filter: @escaping @Sendable (Lion, [ObjectID<Pride>: Pride]) -> Bool
    ) { (testDescription, self.condition, self.filter) = (description, condition, filter) }

    static let all = [
      Question("an inherited text", { $0.name == "lion 3" }, { lion, _ in lion.name == "lion 3" }),
      Question("no value", { $0.name == nil }, { lion, _ in lion.name == nil }),
      Question("a number", { $0.weight > 4.5 && $0.weight <= 9 }, { lion, _ in lion.weight > 4.5 && lion.weight <= 9 }),
      Question("a flag", { $0.isTame == false }, { lion, _ in !lion.isTame }),
      Question("a date", { $0.born < Self.date(5) }, { lion, _ in lion.born.map { $0 < Self.date(5) } ?? false }),
      Question(
        "a UUID", { $0.chip == Self.uuid(4) }, { lion, _ in lion.chip == Self.uuid(4) }),
      Question("one of several", { $0.roar.isIn([0.5, 2.5]) }, { lion, _ in lion.roar == 0.5 || lion.roar == 2.5 }),
      Question(
        "a reserved word over a relationship", { $0.pride[\.`class`] == "large" },
        { lion, prides in lion.pride.flatMap { prides[$0]?.`class` } == "large" }),
      Question("not", { !($0.pride == nil) }, { lion, _ in lion.pride != nil }),
    ]

    static func date(_ day: Int) -> Date { Date(timeIntervalSince1970: Double(day) * 86_400) }
    static func uuid(_ number: UInt8) -> UUID { UUID(uuid: (number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)) }
  }

  /// A lion whose properties follow from a number, each missing now and then.
  private static func lion(_ number: Int, _ prides: [Pride]) -> Lion {
    var lion = Lion(chip: Question.uuid(UInt8(number)), isTame: number % 2 == 0)
    lion.weight = Double(number) / 2
    if number % 5 != 4 { lion.name = "lion \(number)" }
    lion.born = number % 3 == 0 ? nil : Question.date(number)
    if number % 4 != 0 { lion.roar = Float(number) / 2 }
    if number % 4 != 3 { lion.pride = prides[number % 4].id }
    return lion
  }

  @Test(arguments: Question.all) func `a condition finds what a filter over values finds`(question: Question)
    async throws
  {
    let container = try await container()
    let prides = [Pride(class: "large"), Pride(class: "small"), Pride()]
    let lions = (0..<20).map { Self.lion($0, prides) }
    try await container.save { save in
      try save.insertAll(prides)
      try save.insertAll(lions)
    }
    let known = Dictionary(uniqueKeysWithValues: prides.map { ($0.id, $0) })
    let expected = lions.filter { question.filter($0, known) }.map(\.id)
    let found = try await container.fetch(Lion.filter(question.condition).sorted(\.weight.ascending)).map(\.id)
    #expect(found == expected)
    #expect(!expected.isEmpty && expected.count < lions.count, "the question tells nothing")
    await container.close()
  }

  @Test func `a superentity's request finds objects of its subentities, and the cast names them`() async throws {
    let container = try await container()
    let lion = Lion(name: "Nala")
    try await container.save { save in _ = try save.insert(lion) }
    let animals = try await container.fetch(Animal.filter { $0.name == "Nala" })
    #expect(animals.map(\.id) == [.of(lion.id)])
    await container.close()
  }
}
