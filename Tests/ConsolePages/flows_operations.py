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
    with flows.step("the logs are searched by process"):
        page.open("#/operations/logs")
        page.fill("Process", "worker-1")
        page.choose("Least level", "info")
        page.click("Search")
        page.sees("worker-1", "info")
    with flows.step("each process tells its version"):
        page.open("#/operations/versions")
        page.sees("gateway", "notifier", "share", "worker-2", "0.1.0", "aquifer bus-key add")
