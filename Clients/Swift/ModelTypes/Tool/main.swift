// aquifer-model-types: writes the Swift types of a model. The build-tool plugin runs it; it runs on the host alone.

import FoundationEssentials
import ModelTypes

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

let arguments = CommandLine.arguments.dropFirst()
guard let model = arguments.first, let output = arguments.last, arguments.count == 2 else {
  fail("usage: aquifer-model-types MODEL.xcdatamodeld OUTPUT.swift", 64)
}
do throws(Refusals) {
  let source = try ModelTypes.source(of: model)
  for warning in try ModelTypes.warnings(of: model) { tell(warning.description) }
  do {
    try Data(source.utf8).write(to: URL(filePath: output), options: .atomic)
  } catch {
    fail("\(output): error: The file can't be written (\(error)).", 73)
  }
} catch {
  fail(error.list.map(\.description).joined(separator: "\n"), 1)
}

func tell(_ message: String) {
  let bytes = Array((message + "\n").utf8)
  // The result is unused because there is nowhere left to say that standard error is closed.
  _ = write(STDERR_FILENO, bytes, bytes.count)
}

func fail(_ message: String, _ code: Int32) -> Never {
  tell(message)
  exit(code)
}
