// The memory of one parsed document, shared by all values that point into it.

import CSimdJSON

/// Nodes and strings of a document; written before the first value exists and never again.
final class JSONDocument: Sendable {
  // Pointers are not Sendable, but nothing writes to this memory, and it is freed after the last reference is gone.
  nonisolated(unsafe) private let document: csj_document

  /// Takes the document over.
  init(_ document: csj_document) { self.document = document }

  deinit { csj_free(document) }

  /// - Precondition: `index` came from this document.
  @inline(__always)
  func node(_ index: UInt32) -> csj_node { document.nodes[Int(index)] }

  /// The bytes of a string node; valid while the document is.
  @inline(__always)
  func text(_ node: csj_node) -> UnsafeBufferPointer<UInt8> {
    UnsafeBufferPointer(start: document.strings + Int(node.bits & 0xffff_ffff), count: Int(node.bits >> 32))
  }
}
