// The build-tool plugin: each `.xcdatamodeld` among a target's sources becomes Swift types before the target compiles.

import Foundation
import PackagePlugin

@main struct AquiferModelTypes: BuildToolPlugin {
  func createBuildCommands(context: PluginContext, target: any Target) throws -> [Command] {
    guard let target = target as? SwiftSourceModuleTarget else { return [] }
    let tool = try context.tool(named: "aquifer-model-types").url
    return Self.models(of: target).map { model in
      let name = model.deletingPathExtension().lastPathComponent
      let output = context.pluginWorkDirectoryURL.appending(path: "\(name)+Types.swift")
      return .buildCommand(
        displayName: "Types of \(model.lastPathComponent)", executable: tool, arguments: [model.path, output.path],
        inputFiles: Self.inputs(of: model),
        outputFiles: [output])
    }
  }

  /// Where SwiftPM does not look into a bundle, it lists the bundle as a file; Xcode lists what is in it.
  private static func models(of target: SwiftSourceModuleTarget) -> [URL] {
    var models: Set<URL> = []
    for file in target.sourceFiles {
      let parts = file.url.pathComponents
      guard let place = parts.firstIndex(where: { $0.hasSuffix(".xcdatamodeld") }) else { continue }
      models.insert(URL(filePath: "/" + parts[1...place].joined(separator: "/")))
    }
    return models.sorted { $0.path < $1.path }
  }

  /// The bundle, so that SwiftPM knows that it is used, and each file in it, so that an edit builds again.
  private static func inputs(of model: URL) -> [URL] {
    let files =
      FileManager.default.enumerator(at: model, includingPropertiesForKeys: [.isRegularFileKey])?.allObjects as? [URL]
      ?? []
    return [model]
      + files.filter { $0.lastPathComponent == "contents" || $0.lastPathComponent == ".xccurrentversion" }.sorted {
        $0.path < $1.path
      }
  }
}
