// The main job with the project's own model: every type of attribute, every kind of relationship, inheritance three
// deep (T-M04, T-M13…T-M19).

extension MainJob {
  static let everything: MainJob = {
    let name = { (kind: String) in "\(kind)0000000-0000-4000-8000-0000000000EE" }
    let (dog, puppy, mark, passport, toy) = (name("D"), name("B"), name("A"), name("C"), name("E"))
    var graph = Graph()
    let digits = "1234567890123456789012345678901234.5678"
    let attributes: [String: Value] = [
      "small": -32768, "middle": 2_147_483_647, "large": .integer(.min), "flag": false, "ratio": 0.5, "number": -0.125,
      "price": "12.5", "total": .string(digits),
      "moment": "2026-11-20T07:33:24.123Z", "identity": "0B1C2D3E-4F50-4678-9ABC-DEF012345678",
      "text": "Grüße \u{1F3DC}", "link": "https://example.org/a?b=c#d",
      "data": blob(2_000, seed: 1), "list": blob(300, seed: 2),
      "home": [
        "city": "Ulm", "number": 7, "since": "2001-01-01T00:00:00.500Z", "rent": "1234567890123456789.01",
        "spot": ["latitude": 48.5, "longitude": 9.25],
      ],
      "secret": "nobody knows", "secretData": blob(900_000, seed: 3), "secretNumber": 61.25,
      "secretTotal": "-0.00000000000000000000000000000000000001", "legs": 3,
      "breed": "pug",
    ]
    graph.objects[dog] = Graph.Object(
      entity: "Dog", attributes: attributes, toOnes: ["partner": puppy, "parent": puppy, "passport": passport])
    graph.objects[puppy] = Graph.Object(
      entity: "Animal", attributes: ["large": 42, "flag": true, "legs": 4, "secret": "x"], toOnes: ["partner": dog])
    graph.objects[mark] = Graph.Object(entity: "Mark", attributes: ["name": "wet"])
    graph.objects[passport] = Graph.Object(entity: "Passport", attributes: ["number": "X1"], toOnes: ["animal": dog])
    graph.objects[toy] = Graph.Object(entity: "Toy", attributes: ["name": "ball"], toOnes: ["dog": dog])
    let loner = name("F")
    graph.objects[loner] = Graph.Object(entity: "Dog", attributes: ["large": 42, "flag": true, "legs": 4])
    for pair in [(dog, mark), (dog, loner), (puppy, loner)] { graph.pairs.insert(Graph.Pair(pair.0, pair.1)) }
    let saves = [
      [
        insert("Dog", loner, ["large": 42, "flag": true, "legs": 4]), insert("Mark", mark, ["name": "wet"]),
        insert("Animal", puppy, ["large": 42, "flag": true, "legs": 4, "secret": "x"]),
        insert("Passport", passport, ["number": "X1"]),
        insert("Toy", toy, ["name": "ball"]),
      ],
      [
        insert(
          "Dog", dog, attributes,
          [
            "partner": .string(puppy), "passport": .string(passport), "tags": [.string(mark)], "toys": [.string(toy)],
            "friends": [.string(loner)],
          ]),
        // The other sides of the same relationships: one-to-many from the parent, and a symmetric link set twice.
        update("Animal", puppy, [:], ["children": [.string(dog)], "follows": [.string(loner)]]),
        update("Dog", loner, [:], ["friends": [.string(dog)]]),
      ],
    ]
    let root = { (kinds: [String: FieldKind]) in
      Dictionary(uniqueKeysWithValues: kinds.map { ("Thing." + $0.key, $0.value) })
    }
    return MainJob(
      model: "Tests/Models/Everything.xcdatamodeld", saves: saves, graph: graph,
      kinds: root([
        "small": .integer, "middle": .integer, "large": .integer, "flag": .flag, "ratio": .number, "number": .number,
        "price": .decimal, "total": .decimal,
        "moment": .date, "identity": .string, "text": .string, "link": .string, "data": .bytes, "list": .bytes,
        "home": .opaque, "secret": .string,
        "secretData": .bytes, "secretNumber": .number, "secretTotal": .decimal, "legs": .integer, "breed": .string,
      ]).merging(["Mark.name": .string, "Passport.number": .string, "Toy.name": .string]) { $1 },
      assets: [dog + ".secretData"], roots: ["Dog": "Thing", "Animal": "Thing"],
      encrypted: ["Thing.secret", "Thing.secretData", "Thing.secretNumber", "Thing.secretTotal"],
      exact: ["Thing.total", "Thing.secretTotal"],
      links: [
        ["Animal:Mark", "tags:animals", "\(dog):\(mark)"],
        ["Thing:Thing", "friends:friends", [dog, loner].sorted().joined(separator: ":")],
        ["Thing:Thing", "followers:follows", "\(loner):\(puppy)"],
      ])
  }()
}
