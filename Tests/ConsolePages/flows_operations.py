"""Operations: a backup, a check, logs by the name of a request, versions."""


def play(flows):
    page = flows.page
    with flows.step("a backup and a check run, and say what they did"):
        page.click("Operations", "nav a")
        page.sees("No backup since the start", "No check since the start")
        page.click("Back up now")
        page.fill("Folder", flows.backup)
        page.click("Begin")
        page.sees("The backup has begun.", "done", "16 of 16")
        page.click("Check now")
        page.click("Begin")
        page.sees("The check has begun.", "Links that lead nowhere")
    with flows.step("a backup into a folder that is there already fails, and says why"):
        page.click("Back up now")
        page.fill("Folder", flows.backup)
        page.click("Begin")
        page.sees("failed", "is not empty")
    with flows.step("backups are listed, and a damaged one is found"):
        page.open("#/operations")
        page.sees("Folder with backups", "whole", "Verify")
        page.click(f"Verify {flows.backup}")
        page.sees("The backup is being read.", "16 of 16")
        page.sees_no("problem")
        with open(f"{flows.backup}/shards/shard-3.sqlite", "ab") as file:
            file.write(b"rot")
        page.click(f"Verify {flows.backup}")
        page.sees("1 problem", "shard-3.sqlite differs from the file that was backed up")
    with flows.step("the logs are searched by process"):
        page.open("#/operations/logs")
        page.fill("Process", "worker-1")
        page.choose("Least level", "info")
        page.click("Search")
        page.sees("worker-1", "info")
    with flows.step("a request is found by its name, in each process that it passed"):
        request = "a-request-with-a-name"
        change = {
            "changeType": "update",
            "entity": "Photo",
            "objectID": flows.grace.photos[2],
            "attributes": {"caption": "Looked for in the logs"},
        }
        flows.grace.save(flows.grace.stores[0], [change], request_id=request)
        page.open(f"#/operations/logs?request={request}&level=debug")
        page.sees("gateway", "worker-", "exported", "status 200")
        page.open("#/operations/slow")
        page.sees("Slow requests", "No lines")
    with flows.step("each process tells its version"):
        page.open("#/operations/versions")
        page.sees("gateway", "notifier", "share", "worker-2", "0.1.0", "aquifer bus-key add")
