// Owns the memory of one parsed document, which all values that point into it share.

import CSimdJSON

/// Nodes and strings of a document. Nothing writes to them after the first value exists.
final class JSONDocument: Sendable {
  // Pointers are not Sendable, but this memory is constant and lives until the last reference is gone.
  nonisolated(unsafe) private let document: csj_document

  /// Takes ownership of the document.
  init(_ document: csj_document) { self.document = document }

  deinit { csj_free(document) }

  /// - Precondition: `index` came from this document.
  @inline(__always)
  func node(_ index: UInt32) -> csj_node { document.nodes[Int(index)] }

  /// The bytes of a string node. They are valid as long as the document lives.
  @inline(__always)
  func text(_ node: csj_node) -> UnsafeBufferPointer<UInt8> {
    UnsafeBufferPointer(start: document.strings + Int(node.bits & 0xffff_ffff), count: Int(node.bits >> 32))
  }
}
