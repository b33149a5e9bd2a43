// swift-tools-version: 6.2
// Services holds the processes, Shared the layers that they use. A layer imports only layers listed before it in
// `layers`.
import PackageDescription

let settings: [SwiftSetting] = [
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Debian's -dev packages: a module map and a small importing header for each.
let systemLibraries: [Target] =
  [
    "CCJOSE", "CCurl", "CDeflate", "CLinux", "CMessagePack", "CMicroHTTPD", "COpenSSL", "CSQLite", "CSodium", "CZeroMQ",
  ]
  .map { .systemLibrary(name: $0, path: "Shared/\($0)") }
  // Their headers lie in folders of their own.
  + [
    .systemLibrary(name: "CLibXML", path: "Shared/CLibXML", pkgConfig: "libxml-2.0"),
    .systemLibrary(name: "CPostgreSQL", path: "Shared/CPostgreSQL", pkgConfig: "libpq"),
  ]

/// Settings of C targets. SwiftPM refuses unsafe flags in packages that others depend on by version.
let cSettings: [CSetting] = [.enableWarning("all"), .enableWarning("extra"), .treatAllWarnings(as: .error)]

func shared(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
  .target(name: name, dependencies: dependencies, path: "Shared/\(name)", swiftSettings: settings)
}

func service(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, path: "Services/\(name)", swiftSettings: settings)
}

/// A module of the sync worker; it imports only modules of the worker listed before it in `services`.
func worker(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, path: "Services/SyncWorker/\(name)", swiftSettings: settings)
}

/// A module of the client. What a client's app links reaches FoundationEssentials, SQLite and libcurl alone.
func client(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, path: "Clients/Swift/\(name)", swiftSettings: settings)
}

func command(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .executableTarget(name: name, dependencies: dependencies, path: "Services/Commands/\(name)", swiftSettings: settings)
}

func support(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, path: "Tests/Support/\(name)", swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
  .testTarget(
    name: "\(name)Tests", dependencies: dependencies, path: "Tests/\(name)", exclude: exclude, swiftSettings: settings)
}

/// The layers of Shared, from the bottom up.
let layers: [Target] = [
  shared("Crypto", ["COpenSSL", "CSodium"]),
  shared("Queues"),
  shared("OptionWords"),
  shared("JSON", ["CSimdJSON", "Crypto"]),
  shared("MessagePack", ["CMessagePack"]),
  shared("Records", ["MessagePack", "Crypto"]),
  shared("Indexing", ["Records", "Crypto"]),
  shared("Sharing", ["Records", "MessagePack"]),
  shared("ObjectModel", ["Records", "Crypto"]),
  shared("XML", ["CXML"]),
  shared("XCDataModel", ["XML", "ObjectModel", "Records"]),
  shared("History", ["Records", "MessagePack"]),
  shared("Mirroring", ["JSON", "MessagePack", "Records", "ObjectModel", "History"]),
  shared(
    "WebServices",
    ["JSON", "MessagePack", "Records", "Indexing", "Sharing", "ObjectModel", "History", "Mirroring", "Crypto"]),
  shared("SQLite", ["CSQLite", "CSQLiteLog"]),
  shared("HTTPClient", ["CCurl"]),
  shared("Mail", ["CCurl", "Crypto"]),
  shared("S3", ["XML", "Crypto"]),
  shared("PostgreSQL", ["CPostgreSQL"]),
  shared("Assets", ["CLinux", "Queues", "HTTPClient", "XML", "S3", "Records", "Crypto"]),
  shared(
    "RecordStore",
    [
      "SQLite", "PostgreSQL", "CSQLiteLog", "Queues", "JSON", "CDeflate", "CLinux", "Assets", "Records", "Indexing",
      "Sharing", "History", "MessagePack", "Crypto",
    ]),
  shared("ServiceBus", ["CZeroMQ", "CLinux", "Queues", "MessagePack", "Records", "ObjectModel"]),
  shared("HTTPServer", ["CMicroHTTPD", "CEventReads", "CLinux"]),
  shared("OpenID", ["CCJOSE", "HTTPClient", "JSON", "Crypto"]),
  shared(
    "ServiceKit",
    ["OptionWords", "HTTPServer", "ServiceBus", "Assets", "S3", "Records", "JSON", "CLinux", "Crypto"]),
  shared("Authentication", ["ServiceKit", "ServiceBus", "HTTPServer", "WebServices", "Records", "Crypto"]),
]

let services: [Target] = [
  service(
    "Gateway",
    [
      "OpenID", "HTTPClient",
      "CDeflate", "COpenAPI", "Authentication", "ServiceKit", "ServiceBus", "HTTPServer", "WebServices", "Assets",
      "Queues", "JSON", "Records", "Crypto",
    ]),
  worker(
    "ZoneCommit",
    [
      "ServiceKit", "ServiceBus", "RecordStore", "Queues", "Assets", "WebServices", "Mirroring", "History",
      "ObjectModel", "Sharing", "Indexing", "Records", "JSON",
      "MessagePack", "Crypto",
    ]),
  worker(
    "RecordPlane",
    [
      "ZoneCommit", "ServiceKit", "ServiceBus", "RecordStore", "Assets", "WebServices", "ObjectModel", "Sharing",
      "Indexing", "Records", "JSON",
    ]),
  worker(
    "ObjectPlane",
    [
      "ZoneCommit", "ServiceKit", "ServiceBus", "RecordStore", "Assets", "WebServices", "Mirroring", "History",
      "ObjectModel", "Sharing", "Records", "JSON",
      "MessagePack",
    ]),
  worker(
    "ZoneActions",
    [
      "ObjectPlane", "ZoneCommit", "ServiceKit", "ServiceBus", "RecordStore", "Assets", "WebServices", "Mirroring",
      "History", "ObjectModel", "Sharing", "Indexing",
      "Records", "JSON",
    ]),
  worker(
    "SharedStores",
    [
      "ZoneActions", "ObjectPlane", "ZoneCommit", "ServiceKit", "ServiceBus", "RecordStore", "Assets", "WebServices",
      "Mirroring", "History", "ObjectModel", "Sharing",
      "Records", "JSON", "MessagePack", "Crypto",
    ]),
  worker(
    "WorkerHost",
    [
      "SharedStores", "ZoneActions", "ObjectPlane", "RecordPlane", "ZoneCommit", "ServiceKit", "ServiceBus",
      "RecordStore", "Assets", "WebServices", "Mirroring",
      "ObjectModel", "Sharing", "Records", "JSON", "MessagePack", "Crypto", "CLinux",
    ]),
  service(
    "ShareService",
    [
      "ServiceKit", "ServiceBus", "SQLite", "PostgreSQL", "Assets", "RecordStore", "ObjectModel", "XCDataModel",
      "WebServices", "Mail", "MessagePack", "Records", "XML", "JSON", "Crypto", "CLinux",
    ]),
  service(
    "Console",
    [
      "OptionWords", "HTTPClient", "ServiceBus", "RecordStore", "Assets", "S3", "ObjectModel", "XCDataModel",
      "WebServices", "Records", "JSON", "Crypto", "CLinux",
    ]),
  service(
    "Notifier",
    [
      "Authentication", "ServiceKit", "ServiceBus", "HTTPServer", "HTTPClient", "WebServices", "Records", "Queues",
      "JSON", "Crypto",
    ]),
]

let commands: [Target] = [
  command("aquifer-gateway", ["Gateway", "ServiceBus", "ServiceKit"]),
  command("aquifer-worker", ["WorkerHost", "ServiceKit", "ServiceBus"]),
  command("aquifer-share", ["ShareService", "ServiceKit", "ServiceBus"]),
  command("aquifer-notifier", ["Notifier", "ServiceKit", "ServiceBus"]),
  command("aquifer", ["Console"]),
]

let testTargets: [Target] = [
  // The seams' implementations in memory.
  support("InMemoryRecordStore", ["RecordStore", "Records", "Indexing", "Sharing", "Crypto"]),
  support("BucketServer", []),
  support("DistantAssets", ["Assets", "Records", "Crypto"]),
  support("InMemoryServiceBus", ["ServiceBus", "Queues"]),
  support("FixedClocks", ["ServiceKit"]),
  support("Gates", []),
  // The sanitizer that tests run with, if any.
  .target(
    name: "Sanitizers", path: "Tests/Sanitizers", exclude: ["run", "runtime.c", "check.swift", "suppressions"],
    swiftSettings: settings),
  // Takes back what processes did not sync, as a power cut does.
  .target(name: "PowerLoss", path: "Tests/PowerLoss", exclude: ["powerloss.c"], swiftSettings: settings),
  tests("Queues", ["Queues"]),
  tests("OptionWords", ["OptionWords"]),
  tests("JSON", ["JSON"]),
  tests("MessagePack", ["MessagePack"]),
  tests("Crypto", ["Crypto", "SigningKeys"]),
  tests("Records", ["Records", "MessagePack", "Crypto"]),
  tests("Indexing", ["Indexing", "Records"]),
  tests("Sharing", ["Sharing", "Records", "MessagePack"]),
  tests("ObjectModel", ["ObjectModel", "XCDataModel", "Records"]),
  tests("History", ["History", "Records"]),
  .target(
    name: "MirroringWorld", dependencies: ["Mirroring", "Records", "ObjectModel", "History", "Crypto"],
    path: "Tests/MirroringWorld", swiftSettings: settings),
  .target(
    name: "Convergence", dependencies: ["MirroringWorld", "Mirroring", "Records", "ObjectModel", "History"],
    path: "Tests/Convergence", exclude: ["seeds.txt"],
    swiftSettings: settings),
  .executableTarget(
    name: "convergence-runs", dependencies: ["Convergence"], path: "Tests/ConvergenceRuns", swiftSettings: settings),
  // The real worker on a bus in memory, with simple clients.
  .target(
    name: "ServerWorld",
    dependencies: [
      "InMemoryServiceBus", "MirroringWorld", "WorkerHost", "ServiceKit", "ServiceBus", "RecordStore", "SQLite",
      "XCDataModel", "ObjectModel", "Records", "JSON",
    ],
    path: "Tests/ServerWorld", exclude: ["seeds.txt"], swiftSettings: settings),
  .executableTarget(
    name: "server-convergence-runs", dependencies: ["ServerWorld"], path: "Tests/ServerConvergenceRuns",
    swiftSettings: settings),
  tests("ServerConvergence", ["ServerWorld"]),
  tests("Scenarios", ["MirroringWorld", "Mirroring", "Records", "ObjectModel", "History"], exclude: ["Texts"]),
  tests(
    "Mirroring",
    ["Sanitizers", "Convergence", "MirroringWorld", "Mirroring", "Records", "ObjectModel", "History", "Crypto"]),
  tests(
    "WebServices", ["WebServices", "JSON", "Records", "Indexing", "Sharing", "ObjectModel", "History", "Mirroring"]),
  .executableTarget(
    name: "MirroringTool", dependencies: ["Mirroring", "Records", "ObjectModel", "History"],
    path: "Tests/MirroringTool", swiftSettings: settings),
  .executableTarget(
    name: "RecordStoreTool", dependencies: ["RecordStore", "Assets", "Records", "Indexing"],
    path: "Tests/RecordStoreTool", swiftSettings: settings),
  tests("S3", ["S3", "Crypto"]),
  tests("Assets", ["BucketServer", "Assets", "S3", "HTTPClient", "Records", "Crypto", "CLinux"]),
  support("PrivateCluster", ["CuttingProxy"]),
  tests("PostgreSQL", ["PostgreSQL", "PrivateCluster", "CuttingProxy"]),
  // SQLite's file system with injected faults.
  .target(
    name: "FaultyDisk", path: "Tests/FaultyDisk", cSettings: cSettings,
    linkerSettings: [.linkedLibrary("sqlite3")]),
  tests(
    "RecordStore",
    [
      "InMemoryRecordStore", "DistantAssets", "PrivateCluster", "CuttingProxy", "PostgreSQL", "Sanitizers",
      "RecordStore", "RecordStoreTool", "FaultyDisk", "Assets", "SQLite", "Records", "Indexing", "Sharing", "History",
      "Crypto",
      "CSQLite", "CLinux",
    ]),
  tests(
    "ServiceBus",
    ["InMemoryServiceBus", "ServiceBus", "ServiceBusPeer", "MessagePack", "Records", "CLinux", "CZeroMQ"],
    exclude: ["earlier-messages.json"]),
  .executableTarget(
    name: "ServiceBusPeer", dependencies: ["ServiceBus", "CLinux"], path: "Tests/ServiceBusPeer",
    swiftSettings: settings),
  tests("HTTPServer", ["Gates", "HTTPServer", "HTTPClient", "CLinux"]),
  tests("HTTPClient", ["HTTPClient", "HTTPServer"]),
  tests("Mail", ["Mail"]),
  support("ForgedProvider", ["CCJOSE", "HTTPServer", "JSON", "Crypto"]),
  tests("OpenID", ["OpenID", "ForgedProvider", "HTTPClient", "HTTPServer", "JSON", "Crypto"]),
  tests(
    "ServiceKit", ["InMemoryServiceBus", "ServiceKit", "ServiceBus", "HTTPClient", "HTTPServer", "Records", "JSON"]),
  .target(name: "SigningKeys", dependencies: ["COpenSSL"], path: "Tests/SigningKeys", swiftSettings: settings),
  tests(
    "Authentication",
    [
      "InMemoryServiceBus", "FixedClocks", "Authentication", "SigningKeys", "ServiceKit", "ServiceBus", "HTTPServer",
      "WebServices", "Records", "Crypto",
    ]),
  tests(
    "Gateway",
    [
      "ForgedProvider", "HTTPClient", "InMemoryServiceBus", "FixedClocks", "Gates", "Gateway", "Authentication",
      "SigningKeys", "ServiceKit", "ServiceBus", "HTTPServer", "WebServices", "Assets", "Queues", "JSON", "Records",
      "Crypto", "CDeflate",
    ]),
  tests(
    "SyncWorker",
    [
      "InMemoryRecordStore", "InMemoryServiceBus", "FixedClocks", "DistantAssets", "PrivateCluster", "Sanitizers",
      "WorkerHost", "SharedStores", "ZoneActions", "ObjectPlane", "RecordPlane", "ZoneCommit", "ServiceKit",
      "ServiceBus", "RecordStore", "Assets", "WebServices", "Mirroring", "History",
      "ObjectModel", "Sharing", "Indexing",
      "Records", "JSON", "SQLite", "PostgreSQL", "Crypto",
    ]),
  tests(
    "ShareService",
    [
      "InMemoryServiceBus", "CuttingProxy", "PrivateCluster", "ShareService", "SigningKeys", "FaultyDisk", "CSQLite",
      "SQLite", "PostgreSQL", "Assets", "RecordStore", "Mail", "WebServices",
      "ServiceKit", "ServiceBus", "ObjectModel", "Records",
      "JSON", "Crypto",
    ]),
  tests("Console", ["Console", "HTTPClient", "ObjectModel", "XCDataModel", "JSON", "Crypto"]),
  tests(
    "Notifier",
    [
      "InMemoryServiceBus", "FixedClocks", "Notifier", "ServiceKit", "ServiceBus", "HTTPServer", "HTTPClient",
      "WebServices", "JSON", "Records", "Crypto",
    ]),
  tests("Style", []),
  tests(
    "Processes",
    [
      "BucketServer", "PrivateCluster", "PowerLoss", "SigningKeys", "Crypto", "HTTPClient", "JSON", "Records",
      "ObjectModel", "CLinux",
    ],
    exclude: ["chaos", "earlier.tar.gz", "network.c"]),
]

/// Damages installations under load and checks that no data are lost; attacks installations and checks that nobody else
/// is slowed.
let chaos: [Target] = [
  .target(
    name: "Installations", dependencies: ["HTTPClient", "JSON"], path: "Tests/Installations", swiftSettings: settings),
  .executableTarget(
    name: "aquifer-chaos", dependencies: ["Installations", "PowerLoss", "HTTPClient", "JSON", "CLinux"],
    path: "Tests/Chaos",
    swiftSettings: settings),
  .testTarget(
    name: "ChaosTests", dependencies: ["aquifer-chaos", "Installations", "PowerLoss"], path: "Tests/ChaosChecker",
    swiftSettings: settings),
]

let attacks: [Target] = [
  .executableTarget(
    name: "aquifer-attacks", dependencies: ["Installations", "HTTPClient", "JSON", "Records"], path: "Tests/Attacks",
    exclude: ["run"], swiftSettings: settings)
]

/// Tells whether this compiler handles values across an await correctly.
let compilerProbe: [Target] = [
  .executableTarget(name: "compiler-probe", path: "Tests/CompilerProbe", swiftSettings: settings)
]

/// The benchmark's load generator; no product, and no part of the services.
let loadGenerator: [Target] = [
  .executableTarget(
    name: "aquifer-load",
    dependencies: ["Queues", "HTTPClient", "HTTPServer", "SQLite", "RecordStore", "JSON", "Crypto", "CLinux"],
    path: "Tests/Load",
    exclude: ["engines.json", "engines.py", "floors", "peers.py", "postgres", "push", "push.json", "push.py"],
    swiftSettings: settings),
  .testTarget(
    name: "LoadTests", dependencies: ["aquifer-load", "HTTPServer", "RecordStore", "SQLite", "JSON"],
    path: "Tests/LoadGenerator", swiftSettings: settings),
]

/// Code that reads bytes from outside. Tests/Fuzz/run builds the fuzzer (AQUIFER_FUZZ=1 leaves out everything else);
/// the tests replay its corpus.
let fuzzed: [Target.Dependency] = [
  "Gateway", "Authentication", "ServiceKit", "HTTPServer", "ServiceBus", "RecordStore", "WebServices", "Mirroring",
  "History", "XCDataModel", "ObjectModel", "Sharing",
  "Indexing", "Records", "MessagePack", "JSON", "Crypto",
]
let isFuzzing = Context.environment["AQUIFER_FUZZ"] == "1"
let fuzzing: Target =
  isFuzzing
  ? .executableTarget(
    name: "aquifer-fuzz", dependencies: fuzzed, path: "Tests/Fuzz",
    exclude: ["run", "Corpus", "Dictionaries", "Replay"], swiftSettings: settings)
  : tests("Fuzz", fuzzed, exclude: ["run", "Corpus", "Dictionaries", "Driver"])

/// Measures the cost of hot functions: Tests/HotPaths/check.
let hotPaths: [Target] = [
  .target(name: "HotPathsLoop", path: "Tests/HotPathsLoop", cSettings: cSettings),
  .executableTarget(
    name: "aquifer-hot",
    dependencies: [
      "HotPathsLoop", "Gateway", "Notifier", "Authentication", "HTTPServer", "ServiceBus", "WebServices", "Mirroring",
      "History", "ObjectModel", "Records", "JSON",
      "MessagePack",
    ], path: "Tests/HotPaths", exclude: ["check", "thresholds.json"], swiftSettings: settings),
]

let applePlatforms: [Platform] = [.macOS, .iOS, .tvOS, .watchOS, .visionOS]

/// The Swift client, from the bottom up.
let clients: [Target] = [
  client("MirrorWire", []),
  client("ReplicaStore", ["MirrorWire", "SQLite"]),
  client(
    "ReplicaSync", ["ReplicaStore", "MirrorWire", .target(name: "HTTPClient", condition: .when(platforms: [.linux]))]),
  // Apple's platforms have URLSession in place of libcurl; Linux compiles and tests it.
  client("URLSessionTransport", ["ReplicaSync"]),
  client(
    "AquiferClient",
    [
      "ReplicaSync", "ReplicaStore", "MirrorWire",
      .target(name: "URLSessionTransport", condition: .when(platforms: applePlatforms)),
    ]),
]

/// Types of models: the build-tool plugin, and the generator that it runs on the host.
let modelTypes: [Target] = [
  .target(
    name: "ModelTypes", dependencies: ["XCDataModel", "ObjectModel", "Records"],
    path: "Clients/Swift/ModelTypes/Generator", swiftSettings: settings),
  .executableTarget(
    name: "aquifer-model-types", dependencies: ["ModelTypes"], path: "Clients/Swift/ModelTypes/Tool",
    swiftSettings: settings),
  .plugin(
    name: "AquiferModelTypes", capability: .buildTool(), dependencies: ["aquifer-model-types"],
    path: "Clients/Swift/ModelTypes/Plugin"),
]

/// The demonstration; deploy/photos starts it.
let photos: Target = .executableTarget(
  name: "aquifer-photos", dependencies: ["AquiferClient", "HTTPServer"], path: "Clients/Photos",
  resources: ["index.html", "phone.html", "style.css", "phone.js", "stage.js"].map { .embedInCode("Web/\($0)") },
  swiftSettings: settings,
  plugins: ["AquiferModelTypes"])

/// What apps depend on by version.
let clientProducts: [Product] = [
  .library(name: "AquiferClient", targets: ["AquiferClient"]),
  .plugin(name: "AquiferModelTypes", targets: ["AquiferModelTypes"]),
  .executable(name: "aquifer-photos", targets: ["aquifer-photos"]),
]

let clientTests: [Target] = [
  tests("MirrorWire", ["MirrorWire"]),
  // Saves until it is killed, and measures a store.
  .executableTarget(
    name: "replica-tool", dependencies: ["AquiferClient", "ReplicaStore", "MirrorWire", "SQLite"],
    path: "Tests/ReplicaTool", exclude: ["bench", "floors.json"], swiftSettings: settings,
    plugins: ["AquiferModelTypes"]),
  tests(
    "ReplicaStore",
    ["replica-tool", "FaultyDisk", "PowerLoss", "Sanitizers", "ReplicaStore", "MirrorWire", "SQLite"],
    exclude: ["Files"]),
  // A client's process, which tests kill.
  .executableTarget(
    name: "client-peer",
    dependencies: ["ReplicaWorld", "ReplicaSync", "ReplicaStore", "MirrorWire", "HTTPClient"],
    path: "Tests/ReplicaPeer", swiftSettings: settings),
  // A network that fails.
  support("CuttingProxy", []),
  // Devices, naive and real, and the real server's processes.
  .target(
    name: "ReplicaWorld", dependencies: ["ReplicaSync", "ReplicaStore", "MirrorWire"], path: "Tests/ReplicaWorld",
    swiftSettings: settings),
  // The real services on a bus in memory, in one process with their clients.
  .target(
    name: "OneProcessServer",
    dependencies: [
      "ReplicaWorld", "ReplicaSync", "InMemoryServiceBus", "Gateway", "ShareService", "WorkerHost", "ServiceKit",
      "ServiceBus", "HTTPServer",
    ],
    path: "Tests/OneProcessServer", swiftSettings: settings),
  .executableTarget(
    name: "replica-convergence-runs", dependencies: ["OneProcessServer", "ReplicaWorld", "HTTPClient", "CLinux"],
    path: "Tests/ReplicaConvergenceRuns", swiftSettings: settings),
  tests(
    "ReplicaSync",
    [
      "CuttingProxy", "Gates", "OneProcessServer", "ReplicaWorld", "URLSessionTransport", "ReplicaSync",
      "ReplicaStore", "MirrorWire", "HTTPServer", "HTTPClient",
    ]),
  .testTarget(
    name: "AquiferClientTests",
    dependencies: ["ReplicaWorld", "AquiferClient", "ReplicaSync", "ReplicaStore", "MirrorWire"],
    path: "Tests/AquiferClient", swiftSettings: settings, plugins: ["AquiferModelTypes"]),
  tests("ModelTypes", ["ModelTypes", "XCDataModel", "ObjectModel"], exclude: ["Golden"]),
  .testTarget(
    name: "GeneratedTypesTests", dependencies: ["AquiferClient"], path: "Tests/GeneratedTypes", swiftSettings: settings,
    plugins: ["AquiferModelTypes"]),
  tests("ClientPackage", []),
]

/// AQUIFER_CLIENT=1 leaves out everything but the client, what it reaches, and its tests.
let isClientOnly = Context.environment["AQUIFER_CLIENT"] == "1"
let clientLayers: Set = [
  "SQLite", "HTTPClient", "HTTPServer", "XML", "XCDataModel", "ObjectModel", "Records", "MessagePack", "Crypto",
]

let targets: [Target] =
  if isClientOnly {
    layers.filter { clientLayers.contains($0.name) } + clients + modelTypes + [photos] + clientTests
      + testTargets.filter { ["FaultyDisk", "PowerLoss", "Sanitizers", "StyleTests"].contains($0.name) }
  } else if isFuzzing {
    layers + services.filter { $0.name == "Gateway" } + [fuzzing]
  } else {
    layers + services + commands + testTargets + chaos + attacks + compilerProbe + loadGenerator + hotPaths + clients
      + modelTypes + [photos] + clientTests
      + [fuzzing]
  }

let package = Package(
  name: "aquifer",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: isFuzzing
    ? []
    : clientProducts + (isClientOnly ? [] : commands.map { .executable(name: $0.name, targets: [$0.name]) }),
  targets: systemLibraries
    + [
      .target(
        name: "CSimdJSON", path: "Shared/CSimdJSON", cxxSettings: [.enableWarning("all"), .enableWarning("extra")],
        linkerSettings: [.linkedLibrary("simdjson")]),
      .target(
        name: "CXML", dependencies: ["CLibXML"], path: "Shared/CXML", cSettings: cSettings),
      .target(
        name: "CSQLiteLog", path: "Shared/CSQLiteLog", cSettings: cSettings,
        linkerSettings: [.linkedLibrary("sqlite3")]),
      .target(name: "CEventReads", path: "Shared/CEventReads", cSettings: cSettings),
      .target(
        name: "COpenAPI", path: "Shared/COpenAPI", cSettings: cSettings + [.disableWarning("c23-extensions")]),
    ]
    + targets,
  swiftLanguageModes: [.v6],
  cxxLanguageStandard: .cxx17
)
