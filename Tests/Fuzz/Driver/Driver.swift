// The functions that libFuzzer calls. AQUIFER_FUZZ_TARGET names the parser; a single program saves linking with
// sanitizers.

import Foundation

@_cdecl("LLVMFuzzerInitialize")
func initialize(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>
) -> CInt {
  if let folder = ProcessInfo.processInfo.environment["AQUIFER_FUZZ_SEEDS"] {
    do {
      try Seeds.write(below: folder)
      exit(0)
    } catch {
      end("the seeds can't be written: \(error)")
    }
  }
  _ = Chosen.target
  return 0
}

@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  do {
    try Chosen.target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
  } catch {
    end("\(Chosen.target.name) is broken: \(error)", aborts: true)
  }
  return 0
}

enum Chosen {
  static let target: FuzzTarget = {
    let name = ProcessInfo.processInfo.environment["AQUIFER_FUZZ_TARGET"] ?? ""
    if let target = FuzzTarget.all.first(where: { $0.name == name }) { return target }
    end("AQUIFER_FUZZ_TARGET must be one of \(FuzzTarget.all.map(\.name).joined(separator: ", "))")
  }()
}

/// - Parameter aborts: true: aborts, so that libFuzzer keeps the input.
func end(_ sentence: String, aborts: Bool = false) -> Never {
  FileHandle.standardError.write(Data("aquifer-fuzz: \(sentence)\n".utf8))
  if aborts { abort() }
  exit(64)
}
