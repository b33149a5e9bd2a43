"""Tests a page in headless Chromium from a foreign origin: sign-in, save, query, upload, ping."""

from urllib.parse import urlencode

import requests

from pages import serve
from steps import Steps, Surroundings, equal, expect, percent_encoded
from webdriver import browser, until

WORLD = Surroundings.read()
STEPS = Steps("chromium")
PASSWORD = "correct horse battery staple"
ASSET_BYTES = 1_500_000


def operator(path, body):
    answer = requests.post(WORLD.gateway + path, json=body, headers={"Authorization": f"Bearer {WORLD.operator}"}, timeout=30)
    equal(answer.status_code, 200, f"{path} {answer.text}")
    return answer.json()


def other_device(token, name):
    """Saves a record as another client of the same user."""
    url = f"{WORLD.database('private')}/records/modify?ckAPIToken={WORLD.api_token}&ckWebAuthToken={percent_encoded(token)}&clientId=another"
    operation = {"operationType": "forceUpdate", "record": {"recordType": "Photo", "recordName": name, "fields": {"title": {"value": "from elsewhere"}}}}
    answer = requests.post(url, json={"operations": [operation], "zoneID": {"zoneName": "Pictures"}}, timeout=30)
    equal(answer.status_code, 200, answer.text)


def share(zone, permission, guest):
    """Shares a zone of Alice's and returns the share's address."""

    def call(path, body):
        url = f"{WORLD.database('private')}/{path}?ckAPIToken={WORLD.api_token}&ckWebAuthToken={percent_encoded(WORLD.alice)}"
        answer = requests.post(url, json=body, timeout=30)
        equal(answer.status_code, 200, answer.text)
        return answer.json()

    call("zones/modify", {"operations": [{"operationType": "create", "zone": {"zoneID": {"zoneName": zone}}}]})
    participant = {"type": "USER", "permission": permission, "userIdentity": {"lookupInfo": {"userRecordName": guest["userRecordName"]}}}
    record = {"recordType": "cloudkit.share", "recordName": "cloudkit.zoneshare", "fields": {"cloudkit.title": {"value": zone}}, "participants": [participant]}
    made = call("records/modify", {"operations": [{"operationType": "create", "record": record}], "zoneID": {"zoneName": zone}})["records"][0]
    expect("shortGUID" in made, f"{made}")
    return f"{WORLD.gateway}/share/{made['shortGUID']}"


def modify(page, database, operations, zone=None):
    body = {"operations": operations} | ({"zoneID": {"zoneName": zone}} if zone else {})
    answer = page.run("return app.call(given[0] + '/records/modify', given[1])", database, body)
    equal(answer["status"], 200, f"{answer}")
    expect(all("serverErrorCode" not in record for record in answer["json"]["records"]), f"{answer}")
    return answer["json"]["records"]


def main():
    origin, stranger = serve(), serve()
    token = operator("/admin/1/tokens", {"container": WORLD.container, "environment": "development", "allowedOrigins": [origin]})["apiToken"]
    carol = operator("/admin/1/users", {"name": "carol", "givenName": "Carol", "password": PASSWORD})
    operator("/admin/1/users", {"name": "dave", "password": PASSWORD})

    def address(page_origin):
        settings = {"gateway": WORLD.gateway, "container": WORLD.container, "apiToken": token, "clientId": "page-1"}
        return f"{page_origin}/?{urlencode(settings)}"

    with browser() as page:
        print(f"· chromium: is {page.version}")
        page.open(address(origin))

        with STEPS.step("is told where to sign in, and can read it across origins"):
            answer = page.run("return app.call('public/users/caller')")
            equal(answer["status"], 421)
            equal(answer["json"]["serverErrorCode"], "AUTHENTICATION_REQUIRED")
            expect(answer["json"]["redirectURL"].startswith(WORLD.gateway), f"{answer}")
            expect(answer["uuid"], "X-Apple-Request-UUID is not exposed")
            page.run("app.redirectURL = given[0]", answer["json"]["redirectURL"])

        with STEPS.step("signs in through the window it opens: a wrong password first, then the right one"):
            own = page.window
            page.click("#signin")
            page.window = until(lambda: next((handle for handle in page.windows if handle != own), None), "the sign-in window opens")
            page.type("#name", "carol")
            page.type("#password", "wrong")
            page.click("#submit")
            expect("wrong" in page.text("#reason"), "the page does not say that the password is wrong")
            page.type("#password", PASSWORD)
            page.click("#keep")
            page.click("#submit")
            page.window = own
            message = until(lambda: page.run("return app.message"), "the page gets its message")
            equal(message["origin"], WORLD.gateway)
            equal(message["data"]["ckSession"], message["data"]["ckWebAuthToken"])
            until(lambda: page.windows == [own], "the window closes itself")
            answer = page.run("return app.call('public/users/caller')")
            equal((answer["status"], answer["json"]["userRecordName"]), (200, carol["userRecordName"]))

        with STEPS.step("gets its next token by the exposed header, and goes on with it"):
            until(lambda: page.run("await app.call('public/users/caller'); return app.rotations"), "a token is rotated")
            equal(page.run("return app.call('public/users/caller')")["status"], 200)
            several = page.run("return Promise.all([1, 2, 3, 4].map(() => app.call('public/users/caller')))")
            equal([answer["status"] for answer in several], [200] * 4, "parallel calls")

        with STEPS.step("saves and queries"):
            made = page.run("return app.call('private/zones/modify', {operations: [{operationType: 'create', zone: {zoneID: {zoneName: 'Pictures'}}}]})")
            equal(made["status"], 200)
            operations = [
                {"operationType": "create", "record": {"recordType": "Photo", "recordName": f"p{n}", "fields": {"title": {"value": f"Photo {n}"}, "n": {"value": n}}}}
                for n in range(5)
            ]
            equal([record["recordName"] for record in modify(page, "private", operations, "Pictures")], [f"p{n}" for n in range(5)])
            query = {"recordType": "Photo", "filterBy": [{"fieldName": "n", "comparator": "GREATER_THAN", "fieldValue": {"value": 2}}], "sortBy": [{"fieldName": "n", "ascending": False}]}
            found = page.run("return app.call('private/records/query', {query: given[0], zoneID: {zoneName: 'Pictures'}})", query)
            equal([record["recordName"] for record in found["json"]["records"]], ["p4", "p3"])

        with STEPS.step("reads errors across origins, and passes a preflight"):
            missing = page.run("return app.call('private/records/query', {query: {recordType: 'Photo'}, zoneID: {zoneName: 'Nowhere'}})")
            equal((missing["status"], missing["json"]["serverErrorCode"]), (404, "ZONE_NOT_FOUND"))
            listed = page.run("return app.call('private/zones/list', {}, {type: 'application/json'})")
            equal(listed["status"], 200)

        with STEPS.step("uploads a binary asset and reads it back byte for byte, whole and in part"):
            saved = page.run("return app.upload('picture', given[0])", ASSET_BYTES)
            equal(saved["status"], 200, f"{saved}")
            expect("serverErrorCode" not in saved["json"]["records"][0], f"{saved}")
            found = page.run("return app.call('private/records/lookup', {records: [{recordName: 'picture'}], zoneID: {zoneName: 'Pictures'}})")
            image = found["json"]["records"][0]["fields"]["image"]["value"]
            equal(image["size"], ASSET_BYTES)
            equal(page.run("return app.download(given[0], given[1])", image["downloadURL"], ASSET_BYTES), {"status": 200, "count": ASSET_BYTES, "isEqual": True})
            part = page.run("return app.download(given[0], given[1], 'bytes=1000-2999')", image["downloadURL"], ASSET_BYTES)
            equal(part, {"status": 206, "count": 2000, "isEqual": True})

        with STEPS.step("is pinged by the web courier when another device saves, and not when it saves itself"):
            subscription = {"operationType": "create", "subscription": {"subscriptionID": "pictures", "subscriptionType": "zone", "zoneID": {"zoneName": "Pictures"}}}
            made = page.run("return app.call('private/subscriptions/modify', {operations: [given[0]]})", subscription)
            equal(made["status"], 200, f"{made}")
            expect("serverErrorCode" not in made["json"]["subscriptions"][0], f"{made}")
            courier = page.run("return app.call(`/device/1/${settings.container}/development/tokens/create`, {apnsEnvironment: 'development', clientId: settings.clientId})")
            url = courier["json"]["webcourierURL"]
            expect(url.startswith(WORLD.notifier), f"the courier is at {url}")
            page.run("app.ping = null; app.poll(given[0]).then(ping => { app.ping = ping; })", url)
            modify(page, "private", [{"operationType": "forceUpdate", "record": {"recordType": "Photo", "recordName": "p0", "fields": {"title": {"value": "my own"}}}}], "Pictures")
            other_device(carol["webAuthToken"], "p1")
            ping = until(lambda: page.run("return app.ping"), "the page is pinged")
            equal(ping["ck"]["cid"], WORLD.container)
            told = ping["ck"].get("fet") or {}
            equal((told.get("sid"), told.get("zid"), told.get("dbs")), ("pictures", "Pictures", 1), f"{ping}")

        with STEPS.step("is refused when its origin is not one of the API token's"):
            page.open(address(stranger))
            answer = page.run("return app.call('public/users/caller').then(answer => answer.status, error => String(error))")
            expect("Failed to fetch" in str(answer), f"a stranger's page reads {answer}")

        with STEPS.step("accepts a share without being asked again who is there, because its user is kept signed in"):
            page.open(share("Lofoten", "READ_WRITE", carol))
            expect("You may read and change it." in page.text("main") and "Signed in as Carol (carol)" in page.text("main"), page.text("main"))
            page.click("#accept")
            expect("You have joined" in page.text("#message"), page.text("main"))

        with STEPS.step("declines another, by keyboard alone"):
            page.open(share("Bergen", "READ_ONLY", carol))
            expect("You may read it." in page.text("main"), page.text("main"))
            page.type("#decline", "\ue007")
            expect("You have declined the invitation." in page.text("#message"), page.text("main"))

        with STEPS.step("is asked to sign in where it wants another account, and told when a share is for somebody else"):
            page.open(share("Oslo", "READ_ONLY", carol))
            page.click("#another")
            page.type("#name", "dave")
            page.type("#password", PASSWORD)
            page.click("#submit")
            until(lambda: "Nothing here for this account" in page.text("h1"), "the page says that the share is for somebody else")
            expect("Signed in as dave" in page.text("footer"), page.text("main"))
    STEPS.done()


main()
