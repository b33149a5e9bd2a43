"""Tests pyicloud's unmodified CloudKitContainerClient. Its strict response models refuse every unknown key of an answer."""

import os
import tempfile
from datetime import datetime, timezone
from types import SimpleNamespace

from pyicloud.common.cloudkit.client import (
    CloudKitApiError,
    CloudKitAuthError,
    CloudKitContainerClient,
)
from pyicloud.common.cloudkit.models import (
    CKAssetToken,
    CKErrorItem,
    CKModifyOperation,
    CKQueryFilterBy,
    CKQueryObject,
    CKQuerySortBy,
    CKRecord,
    CKTombstoneRecord,
    CKWriteRecord,
    CKZoneChangesZoneReq,
    CKZoneID,
    CKZoneIDReq,
)
from pyicloud.exceptions import PyiCloudException
from pyicloud.session import PyiCloudSession

from steps import Steps, Surroundings, equal, expect, raises

WORLD = Surroundings.read()
STEPS = Steps("pyicloud over TLS" if WORLD.authority else "pyicloud")
TRIPS = CKZoneIDReq(zoneName="Trips")


def client(user, database="private", extra="forbid", **parameters):
    """A client with pyicloud's own session. The session's account object replaces a login at Apple."""
    session = PyiCloudSession(
        SimpleNamespace(account_name=user[:8], requires_2sa=False),
        client_id="6f1c2a0e-client",
        cookie_directory=tempfile.mkdtemp(prefix="aq-pyicloud-"),
        verify=WORLD.authority or False,
    )
    parameters = {"ckAPIToken": WORLD.api_token, "ckWebAuthToken": user, **parameters}
    return CloudKitContainerClient(WORLD.database(database), session, parameters, validation_extra=extra, bool_param_style="lower")


def operation(kind, name, fields=None, tag=None, record_type="Note", **more):
    typed = {key: {"type": type_, "value": value} for key, (type_, value) in (fields or {}).items()}
    return CKModifyOperation(
        operationType=kind,
        record=CKWriteRecord(recordName=name, recordType=record_type, fields=typed, recordChangeTag=tag, **more),
    )


def modify(using, *operations, zone=TRIPS, atomic=None):
    return using.modify(operations=list(operations), zone_id=zone, atomic=atomic).records


def lookup(using, *names, **more):
    return using.lookup(names, zone_id=TRIPS, **more).records


def zone_changes(**request):
    return CKZoneChangesZoneReq(zoneID=CKZoneID(zoneName="Trips"), **request)


ALICE = client(WORLD.alice)


def zones():
    with STEPS.step("makes zones, lists them and deletes one"):
        for name in ["Trips", "Old"]:
            made = ALICE.raw_post("/zones/modify", {"operations": [{"operationType": "create", "zone": {"zoneID": {"zoneName": name}}}]})
            equal(made["zones"][0]["zoneID"]["zoneName"], name)
        names = {zone.zoneID.zoneName for zone in ALICE.zones_list().zones}
        expect({"_defaultZone", "Trips", "Old"} <= names, f"zones are {names}")
        # The strict model refuses this answer, because it does not know a zone's token, which another client (kei) requires.
        lenient = client(WORLD.alice, extra="allow")
        feed = lenient.database_changes()
        equal({key for zone in feed.zones for key in zone.model_extra}, {"syncToken", "atomic"})
        expect({"Trips", "Old"} <= {zone.zoneID.zoneName for zone in feed.zones}, "the feed lacks a zone")
        equal(feed.moreComing, False)
        ALICE.raw_post("/zones/modify", {"operations": [{"operationType": "delete", "zone": {"zoneID": {"zoneName": "Old"}}}]})
        expect("Old" not in {zone.zoneID.zoneName for zone in ALICE.zones_list().zones}, "Old is still there")
        later = lenient.database_changes(sync_token=feed.syncToken)
        equal([(zone.zoneID.zoneName, zone.deleted) for zone in later.zones], [("Old", True)])
        equal(lenient.database_changes(sync_token=later.syncToken).zones, [])
    with STEPS.step("looks zones up"):
        found = ALICE.raw_post("/zones/lookup", {"zones": [{"zoneName": "Trips"}, {"zoneName": "Nowhere"}]})["zones"]
        equal(found[0]["zoneID"]["zoneName"], "Trips")
        equal(found[1]["serverErrorCode"], "ZONE_NOT_FOUND")


EVERY_TYPE = {
    "title": ("STRING", "Größe 🌍"),
    "count": ("INT64", 9_007_199_254_740_993),
    "ratio": ("DOUBLE", 0.1),
    "day": ("TIMESTAMP", 1_700_000_000_123),
    "blob": ("BYTES", "AAEC/w=="),
    "tags": ("STRING_LIST", ["a", "b"]),
    "none": ("STRING_LIST", []),
    "counts": ("INT64_LIST", [1, -2, 9_007_199_254_740_993]),
    "ratios": ("DOUBLE_LIST", [1.5, -2.25]),
    "place": ("LOCATION", {"latitude": 52.5, "longitude": 13.25}),
    "link": ("REFERENCE", {"recordName": "elsewhere", "action": "NONE"}),
    "links": ("REFERENCE_LIST", [{"recordName": "elsewhere", "action": "NONE"}]),
}


def records():
    with STEPS.step("stores a record with every type of field and reads it back"):
        (made,) = modify(ALICE, operation("create", "note/1", EVERY_TYPE))
        (found,) = lookup(ALICE, "note/1")
        for record in (made, found):
            expect(isinstance(record, CKRecord), f"no record but {record!r}")
            equal(record.recordType, "Note")
            equal(record.zoneID.zoneName, "Trips")
            equal(set(record.fields), set(EVERY_TYPE))
            value = record.fields.get_value
            for name in ["title", "count", "ratio", "tags", "none", "counts", "ratios"]:
                equal(value(name), EVERY_TYPE[name][1], name)
                equal(record.fields[name].type_tag, EVERY_TYPE[name][0], name)
            equal(value("blob"), bytes([0, 1, 2, 255]))
            equal(value("day"), datetime.fromtimestamp(1_700_000_000.123, timezone.utc))
            equal(value("link").recordName, "elsewhere")
            equal([link.action for link in value("links")], ["NONE"])
            equal(value("place")["latitude"], 52.5)
        equal(made.recordChangeTag, found.recordChangeTag)
        expect(abs((datetime.now(timezone.utc) - made.created.timestamp).total_seconds()) < 600, "created is far from now")
        expect(made.created.userRecordName.startswith("_"), "nobody made it")

    with STEPS.step("updates, replaces and deletes with and without force"):
        (two,) = modify(ALICE, operation("create", "note/2", {"title": ("STRING", "two"), "count": ("INT64", 2)}))
        (two,) = modify(ALICE, operation("update", "note/2", {"title": ("STRING", "zwei")}, tag=two.recordChangeTag))
        equal((two.fields.get_value("title"), two.fields.get_value("count")), ("zwei", 2))
        (two,) = modify(ALICE, operation("forceUpdate", "note/2", {"title": ("STRING", "deux")}))
        equal((two.fields.get_value("title"), two.fields.get_value("count")), ("deux", 2))
        (two,) = modify(ALICE, operation("replace", "note/2", {"title": ("STRING", "due")}, tag=two.recordChangeTag))
        equal(set(two.fields), {"title"})
        (two,) = modify(ALICE, operation("forceReplace", "note/2", {"count": ("INT64", 22)}))
        equal(set(two.fields), {"count"})
        (gone,) = modify(ALICE, operation("delete", "note/2", tag=two.recordChangeTag))
        expect(isinstance(gone, CKTombstoneRecord), f"no tombstone but {gone!r}")
        (missing,) = lookup(ALICE, "note/2")
        expect(isinstance(missing, CKErrorItem) and missing.serverErrorCode == "NOT_FOUND", f"not missing but {missing!r}")
        (again,) = modify(ALICE, operation("forceDelete", "note/2"))
        expect(isinstance(again, CKTombstoneRecord), "forceDelete of what is not there fails")
        modify(ALICE, operation("forceUpdate", "note/3", {"title": ("STRING", "made by force")}))

    with STEPS.step("removes a field by a value that is absent"):
        (before,) = lookup(ALICE, "note/1")
        (after,) = modify(ALICE, operation("update", "note/1", {"day": ("TIMESTAMP", None)}, tag=before.recordChangeTag))
        expect("day" not in after.fields and "title" in after.fields, f"fields are {sorted(after.fields)}")

    with STEPS.step("looks up just the keys it wants, in its order"):
        found = lookup(ALICE, "note/3", "nothing", "note/1", desired_keys=["title"])
        equal([item.recordName for item in found], ["note/3", "nothing", "note/1"])
        equal([sorted(item.fields) for item in found if isinstance(item, CKRecord)], [["title"], ["title"]])

    with STEPS.step("keeps a hierarchy by parents"):
        modify(ALICE, operation("create", "child", {"title": ("STRING", "c")}, parent={"recordName": "note/1"}))
        equal(lookup(ALICE, "child")[0].parent.recordName, "note/1")

    with STEPS.step("works in the default zone, too"):
        default = CKZoneIDReq(zoneName="_defaultZone")
        modify(ALICE, operation("create", "home", {"title": ("STRING", "h")}), zone=default)
        equal(ALICE.lookup(["home"], zone_id=default).records[0].fields.title.value, "h")


def conflicts():
    with STEPS.step("is told of conflicts, one by one"):
        (first,) = modify(ALICE, operation("create", "contested", {"title": ("STRING", "1")}))
        (second,) = modify(ALICE, operation("update", "contested", {"title": ("STRING", "2")}, tag=first.recordChangeTag))
        with raises(CloudKitApiError, "contested: CONFLICT"):
            modify(ALICE, operation("update", "contested", {"title": ("STRING", "3")}, tag=first.recordChangeTag))
        with raises(CloudKitApiError, "contested: CONFLICT", "record to insert already exists"):
            modify(ALICE, operation("create", "contested", {"title": ("STRING", "4")}))
        with raises(CloudKitApiError, "absent: NOT_FOUND"):
            modify(ALICE, operation("update", "absent", {"title": ("STRING", "5")}, tag="1"))
        equal(lookup(ALICE, "contested")[0].fields.title.value, "2")
        with raises(CloudKitApiError, "contested: CONFLICT"):
            modify(ALICE, operation("create", "fresh", {}), operation("delete", "contested", tag=first.recordChangeTag), atomic=False)
        expect(isinstance(lookup(ALICE, "fresh")[0], CKRecord), "the other operation of a batch that is not atomic was lost")
    with STEPS.step("sees an atomic batch stored as a whole or not at all"):
        with raises(PyiCloudException, "400"):
            modify(ALICE, operation("create", "all", {}), operation("create", "contested", {}), atomic=True)
        equal(lookup(ALICE, "all")[0].serverErrorCode, "NOT_FOUND")
        with raises(CloudKitApiError, "contested: CONFLICT"):
            modify(ALICE, operation("create", "contested", {}), atomic=True)


def query(record_type="City", *filters, sort=(), **more):
    asked = CKQueryObject(
        recordType=record_type,
        filterBy=[CKQueryFilterBy(comparator=c, fieldName=f, fieldValue={"type": t, "value": v}) for f, c, t, v in filters] or None,
        sortBy=[CKQuerySortBy(fieldName=name, ascending=ascending) for name, ascending in sort] or None,
    )
    return ALICE.query(query=asked, **({"zone_id": TRIPS} | more))


def names(answer):
    return [record.recordName for record in answer.records]


def queries():
    cities = [("berlin", 3700, "D"), ("bonn", 330, "D"), ("basel", 170, "CH"), ("paris", 2100, "F"), ("lyon", 520, "F"), ("bern", 130, "CH"), ("brest", 140, "F")]
    with STEPS.step("queries with filters and sorting"):
        modify(
            ALICE,
            *[
                operation(
                    "create", name, record_type="City",
                    fields={"name": ("STRING", name), "size": ("INT64", size), "land": ("REFERENCE", {"recordName": land, "action": "NONE"})},
                )
                for name, size, land in cities
            ],
        )
        equal(names(query("City", ("name", "EQUALS", "STRING", "bonn"))), ["bonn"])
        equal(names(query("City", ("size", "GREATER_THAN", "INT64", 500), sort=[("size", False)])), ["berlin", "paris", "lyon"])
        equal(names(query("City", ("size", "LESS_THAN_OR_EQUALS", "INT64", 140), sort=[("size", True)])), ["bern", "brest"])
        equal(names(query("City", ("name", "BEGINS_WITH", "STRING", "be"), sort=[("name", True)])), ["berlin", "bern"])
        equal(names(query("City", ("name", "IN", "STRING_LIST", ["lyon", "bonn", "rome"]), sort=[("name", True)])), ["bonn", "lyon"])
        swiss = ("land", "EQUALS", "REFERENCE", {"recordName": "CH", "action": "NONE"})
        equal(names(query("City", swiss, sort=[("name", True)])), ["basel", "bern"])
        equal(names(query("City", swiss, ("size", "GREATER_THAN_OR_EQUALS", "INT64", 170))), ["basel"])
        equal(names(query("Nothing")), [])
        (bonn,) = query("City", ("name", "EQUALS", "STRING", "bonn"), desired_keys=["size"]).records
        equal(sorted(bonn.fields), ["size"])
    with STEPS.step("pages through a result"):
        found, marker, pages = [], None, 0
        while pages == 0 or marker:
            page = query("City", sort=[("size", True)], results_limit=3, continuation=marker)
            expect(len(page.records) <= 3, "a page is too long")
            found, marker, pages = found + names(page), page.continuationMarker, pages + 1
            expect(pages < 10, "the pages don't end")
        equal(found, [name for name, *_ in sorted(cities, key=lambda city: city[1])])
    with STEPS.step("queries all zones at once"):
        modify(ALICE, operation("create", "rome", {"name": ("STRING", "rome"), "size": ("INT64", 2800)}, record_type="City"), zone=CKZoneIDReq(zoneName="_defaultZone"))
        expect(set(names(query("City", zone_id=None, zone_wide=True))) == {name for name, *_ in cities} | {"rome"}, "not all zones")
    with STEPS.step("takes a change token along with a query"):
        token = client(WORLD.alice, getCurrentSyncToken=True).query_sync_token(query=CKQueryObject(recordType="City"), zone_id=TRIPS)
        expect(token, "no token")
        equal(ALICE.changes(zone_req=zone_changes(syncToken=token)).zones[0].records, [])


def feeds():
    with STEPS.step("follows a zone's changes page by page"):
        seen, pages, token = {}, 0, None
        for page in ALICE.iter_changes(zone_req=zone_changes(), results_limit=4):
            pages, token = pages + 1, page.syncToken
            for item in page.records:
                expect(item.recordName not in seen, f"{item.recordName} came twice")
                seen[item.recordName] = item
        expect(pages > 2, f"{pages} pages")
        expect(isinstance(seen["note/1"], CKRecord) and isinstance(seen["note/2"], CKTombstoneRecord), "a record or a tombstone is wrong")
        equal(seen["berlin"].fields.name.value, "berlin")
    with STEPS.step("gets what changed since, and nothing else"):
        modify(ALICE, operation("forceUpdate", "berlin", {"size": ("INT64", 3800)}, record_type="City"), operation("forceDelete", "bonn", record_type="City"))
        (zone,) = ALICE.changes(zone_req=zone_changes(syncToken=token)).zones
        equal([(item.recordName, isinstance(item, CKTombstoneRecord)) for item in zone.records], [("berlin", False), ("bonn", True)])
        (caught_up,) = ALICE.changes(zone_req=zone_changes(syncToken=zone.syncToken)).zones
        equal((caught_up.records, caught_up.syncToken), ([], zone.syncToken))
        (cities,) = ALICE.changes(zone_req=zone_changes(desiredRecordTypes=["City"], desiredKeys=["size"])).zones
        equal({item.recordType for item in cities.records if isinstance(item, CKRecord)}, {"City"})
        equal({key for item in cities.records if isinstance(item, CKRecord) for key in item.fields}, {"size"})
    with STEPS.step("is told when a token or a zone is not one"):
        with raises(CloudKitApiError, "BAD_REQUEST", "Unknown sync continuation type"):
            ALICE.changes(zone_req=zone_changes(syncToken="bm9uc2Vuc2U="))
        with raises(CloudKitApiError, "ZONE_NOT_FOUND"):
            ALICE.changes(zone_req=CKZoneChangesZoneReq(zoneID=CKZoneID(zoneName="Nowhere")))


def assets():
    if not WORLD.authority:
        with STEPS.step("uploads nothing to an address without TLS"):
            with raises(CloudKitApiError, "non-HTTPS"):
                upload(ALICE, "photo", b"content")
        return
    content = os.urandom(300_000)
    with STEPS.step("uploads an asset, stores it in a record and reads it back, at once and as a stream"):
        receipt = upload(ALICE, "photo", content)
        equal(receipt.size, len(content))
        modify(ALICE, photo("photo", receipt))
        image = lookup(ALICE, "photo")[0].fields.get_value("image")
        equal((image.size, image.fileChecksum), (len(content), receipt.fileChecksum))
        equal(ALICE.download_asset_bytes(image.downloadURL), content, "the content")
        equal(b"".join(ALICE.download_asset_stream(image.downloadURL)), content, "the stream")
    with STEPS.step("gives a receipt for an asset that is stored, for another record"):
        (again,) = ALICE.raw_post("/assets/rereference", {"zoneID": {"zoneName": "Trips"}, "assets": [{"recordName": "photo", "fieldName": "image"}]})["assets"]
        modify(ALICE, photo("copy", CKAssetToken.model_validate(again)))
        equal(ALICE.download_asset_bytes(lookup(ALICE, "copy")[0].fields.get_value("image").downloadURL), content, "the content")
    with STEPS.step("can't use another user's receipt, no receipt, or an address that was altered"):
        bob = client(WORLD.bob)
        bob.raw_post("/zones/modify", {"operations": [{"operationType": "create", "zone": {"zoneID": {"zoneName": "Trips"}}}]})
        for theirs in [receipt, receipt.model_copy(update={"receipt": "bm9uZQ=="})]:
            with raises(CloudKitApiError, "BAD_REQUEST"):
                modify(bob, photo("stolen", theirs))
        url = image.downloadURL
        parts = url.rsplit("/", 3)
        for altered in [url[:-2] + ("AA" if url[-2:] != "AA" else "BB"), "/".join([*parts[:2], str(int(parts[2]) + 1), parts[3]]), "/".join([parts[0], "0" * 64, *parts[2:]])]:
            with raises(PyiCloudException, "403"):
                ALICE.download_asset_bytes(altered)


def upload(using, name, content):
    return using.upload_asset(record_type="Photo", field_name="image", record_name=name, data=content, zone_id=TRIPS)


def photo(name, receipt):
    return operation("create", name, {"image": ("ASSETID", receipt.model_dump(exclude_none=True))}, record_type="Photo")


def subscriptions():
    kinds = [
        {"subscriptionID": "by-zone", "subscriptionType": "zone", "zoneID": {"zoneName": "Trips"}},
        {"subscriptionID": "by-database", "subscriptionType": "database"},
        {
            "subscriptionID": "by-query", "subscriptionType": "query", "zoneID": {"zoneName": "Trips"}, "firesOn": ["create", "update"],
            "query": {"recordType": "City", "filterBy": [{"fieldName": "size", "comparator": "GREATER_THAN", "fieldValue": {"value": 1000, "type": "INT64"}}]},
            "notificationInfo": {"alertBody": "A large one"},
        },
    ]

    def operate(kind, *subscriptions):
        operations = [{"operationType": kind, "subscription": subscription} for subscription in subscriptions]
        return ALICE.raw_post("/subscriptions/modify", {"operations": operations})["subscriptions"]

    with STEPS.step("subscribes to a zone, a database and a query, lists them, looks one up and ends one"):
        made = operate("create", *kinds)
        equal([(item["subscriptionID"], item["subscriptionType"]) for item in made], [(kind["subscriptionID"], kind["subscriptionType"]) for kind in kinds])
        expect({item["subscriptionID"] for item in ALICE.raw_post("/subscriptions/list", {})["subscriptions"]} >= {"by-zone", "by-database", "by-query"}, "not listed")
        found = ALICE.raw_post("/subscriptions/lookup", {"subscriptions": [{"subscriptionID": "by-query"}, {"subscriptionID": "none"}]})["subscriptions"]
        equal(found[0]["query"]["recordType"], "City")
        equal(found[0]["notificationInfo"]["alertBody"], "A large one")
        equal(found[1]["serverErrorCode"], "NOT_FOUND")
        equal(operate("delete", {"subscriptionID": "by-zone"}), [{"subscriptionID": "by-zone", "deleted": True}])
        expect("by-zone" not in {item["subscriptionID"] for item in ALICE.raw_post("/subscriptions/list", {})["subscriptions"]}, "still listed")
        equal(client(WORLD.bob).raw_post("/subscriptions/list", {})["subscriptions"], [])


def strangers():
    bob = client(WORLD.bob)
    with STEPS.step("shows another user neither the zone nor its records"):
        expect("Trips" not in {zone.zoneID.zoneName for zone in bob.zones_list().zones}, "Bob sees Alice's zone")
        owner = next(zone.zoneID.ownerRecordName for zone in ALICE.zones_list().zones if zone.zoneID.zoneName == "Trips")
        for theirs in [CKZoneID(zoneName="Trips"), CKZoneID(zoneName="Trips", ownerRecordName=owner)]:
            with raises(CloudKitApiError, "ZONE_NOT_FOUND"):
                bob.changes(zone_req=CKZoneChangesZoneReq(zoneID=theirs))
    with STEPS.step("refuses credentials that are none"):
        for parameters in [{"ckWebAuthToken": "x" * 40}, {"ckAPIToken": "0" * 64}]:
            with raises((PyiCloudException, CloudKitAuthError)):
                client(WORLD.alice, **parameters).zones_list()


def main():
    for part in [zones, records, conflicts, queries, feeds, strangers, assets, subscriptions]:
        part()
    STEPS.done()


main()
