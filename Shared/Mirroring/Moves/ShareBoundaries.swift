// The relationships at which a model cuts graphs on purpose.

public import ObjectModel
import Records

/// The relationships of a model beyond which nothing is shared or moved along (user info `AquiferShareBoundary`).
public struct ShareBoundaries: Sendable {
  /// Names of to-one fields, by record type.
  private let fields: [String: Set<String>]
  private let hasLinks: Bool
  private let resolver: LinkResolver
  public let isEmpty: Bool

  public init(_ model: ModelIndex, _ links: LinkResolver) {
    var fields: [String: Set<String>] = [:]
    var hasLinks = false
    for entity in model.entities {
      for relationship in entity.relationships where relationship.isShareBoundary {
        switch relationship.storage {
        case .field(let name): fields[entity.recordType, default: []].insert(name)
        case .link: hasLinks = true
        case .inverseField, .none: break
        }
      }
    }
    self.fields = fields
    self.hasLinks = hasLinks
    resolver = links
    isEmpty = fields.isEmpty && !hasLinks
  }

  /// True if the field of a record type is a share boundary.
  func cuts(_ field: String, ofRecordType recordType: String) -> Bool { fields[recordType]?.contains(field) == true }

  /// True if a field of that name is a share boundary in any record type.
  func mayCut(_ field: String) -> Bool { fields.values.contains { $0.contains(field) } }

  func cuts(_ link: LinkRecord) -> Bool { hasLinks && resolver.resolve(link)?.relationship.isShareBoundary == true }
}
