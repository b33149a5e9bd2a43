// Queries that can't be answered, and the places that the refusals name.

import Crypto
import Indexing
import JSON
import ObjectModel
import Records
import Testing
@testable import WebServices

extension `Queries` {
  @Test(arguments: [
    (#"{}"#, "query is missing"),
    (#"{"query":{}}"#, "query: recordType is missing"),
    (#"{"query":{"recordType":"Note","filterBy":[{}]}}"#, "query: filterBy[0]: comparator is missing"),
    (
      #"{"query":{"recordType":"Note","filterBy":[{"comparator":"LIKE"}]}}"#,
      "query: filterBy[0]: unknown comparator 'LIKE'"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"NEAR","fieldName":"location",\#
      "fieldValue":{"value":{"latitude":1,"longitude":2}}}]}}
      """#,
      "query: filterBy[0]: location: distance is missing"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"NEAR","fieldName":"location","distance":-1,\#
      "fieldValue":{"value":{"latitude":1,"longitude":2}}}]}}
      """#,
      "query: filterBy[0]: location: distance must be a number of metres"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"NEAR","fieldName":"location","distance":5,\#
      "fieldValue":{"value":{"latitude":91,"longitude":2}}}]}}
      """#,
      "query: filterBy[0]: location: latitude or longitude is out of range"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"NEAR","fieldName":"string","distance":5,\#
      "fieldValue":{"value":{"latitude":1,"longitude":2}}}]}}
      """#,
      "query: filterBy[0]: string: NEAR does not apply to a field of type STRING"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"CONTAINS_ALL_TOKENS","fieldName":"int64",\#
      "fieldValue":{"value":"x"}}]}}
      """#,
      "query: filterBy[0]: int64: CONTAINS_ALL_TOKENS does not apply to a field of type INT64"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"asset",\#
      "fieldValue":{"value":"x"}}]}}
      """#,
      "query: filterBy[0]: Field 'asset' is not marked queryable"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"LIST_CONTAINS","fieldName":"bytesList",\#
      "fieldValue":{"value":"AA=="}}]}}
      """#,
      "query: filterBy[0]: Field 'bytesList' is not marked queryable"
    ),
    (
      #"{"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldValue":{"value":1}}]}}"#,
      "query: filterBy[0]: fieldName is missing"
    ),
    (
      #"{"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"___nope"}]}}"#,
      "query: filterBy[0]: unknown system field '___nope'"
    ),
    (
      #"{"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","systemFieldName":"nope"}]}}"#,
      "query: filterBy[0]: unknown systemFieldName 'nope'"
    ),
    (
      #"{"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"int64"}]}}"#,
      "query: filterBy[0]: fieldValue is missing"
    ),
    (
      #"{"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"int64","fieldValue":{}}]}}"#,
      "query: filterBy[0]: fieldValue.value is missing"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"int64",\#
      "fieldValue":{"value":"x"}}]}}
      """#,
      "query: filterBy[0]: int64: INT64 must be an integer of 64 bits"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"int64","fieldValue":{"value":"x",\#
      "type":"STRING"}}]}}
      """#,
      "query: filterBy[0]: int64: the filter's value is STRING, it must be INT64"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"BEGINS_WITH","fieldName":"int64",\#
      "fieldValue":{"value":"x"}}]}}
      """#,
      "query: filterBy[0]: int64: BEGINS_WITH does not apply to a field of type INT64"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"LIST_CONTAINS","fieldName":"string",\#
      "fieldValue":{"value":"x"}}]}}
      """#,
      "query: filterBy[0]: string: LIST_CONTAINS does not apply to a field of type STRING"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"secret",\#
      "fieldValue":{"value":"x"}}]}}
      """#,
      "query: filterBy[0]: Field 'secret' is not marked queryable"
    ),
    (
      #"""
      {"query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"___recordId",\#
      "fieldValue":{"value":7}}]}}
      """#,
      "query: filterBy[0]: recordName: the filter's value must name a record"
    ),
    (
      #"{"query":{"recordType":"Note","sortBy":[{"fieldName":"stringList"}]}}"#,
      "query: sortBy[0]: Field 'stringList' is not marked sortable"
    ),
    (
      #"{"query":{"recordType":"Note","sortBy":[{"fieldName":"location"}]}}"#,
      "query: sortBy[0]: Field 'location' is not marked sortable"
    ),
    (
      #"""
      {"query":{"recordType":"Note","sortBy":[{"fieldName":"string","relativeLocation":{"latitude":1,"longitude":2}}]}}
      """#,
      "query: sortBy[0]: Field 'string' is not marked sortable"
    ),
    (
      #"{"query":{"recordType":"Note","sortBy":[{"fieldName":"location","relativeLocation":{}}]}}"#,
      "query: sortBy[0]: relativeLocation: LOCATION must be an object with latitude and longitude"
    ),
    (#"{"query":{"recordType":"Note"},"resultsLimit":-1}"#, "resultsLimit must be positive"),
    (#"{"query":{"recordType":"Note"},"continuationMarker":1}"#, "continuationMarker must be a string"),
  ])
  func `a query that can't be answered is refused with the place`(text: String, reason: String) throws {
    #expect(try Wire.reason { _ = try Self.request(text) } == reason)
  }
}
