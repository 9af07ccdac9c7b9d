"""The live page over HTTP: read-only, guarded, and its answers hold only what is new."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from burnish.errors import InputError
from burnish.traces.store import write_groups
from burnish.view.live.following import Following
from burnish.view.live.server import LivePage, application, view_run
from tests.view.runs import evaluation, groups, write_run

LOCAL = "http://127.0.0.1:8765"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = write_run(tmp_path / "mine", steps=10, items=12)
    (made / "summary.json").unlink()
    return made


def client(run: Path, *, token: str | None = None, base: str = LOCAL) -> TestClient:
    return TestClient(application(Following(run), token=token), base_url=base, follow_redirects=False)


# ---------------------------------------------------------------- the guard


def test_every_answer_states_a_strict_policy(run: Path) -> None:
    asked = client(run, token="secret")
    for path, status in (("/?token=secret", 303), ("/", 200), ("/changes", 200), ("/absent", 404)):
        answer = asked.get(path)
        assert answer.status_code == status
        rules = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert rules["default-src"] == "'none'" and rules["connect-src"] == "'self'"
        assert rules["script-src"].startswith("'sha256-") and rules["style-src"].startswith("'sha256-")
        assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_nothing_can_be_changed_through_it(run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    asked = client(run)
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("/", "/changes"):
            assert asked.request(method, path).status_code == 405
    assert asked.get("/config.yaml").status_code == asked.get("/../config.yaml").status_code == 404
    assert asked.get("/").status_code == asked.get("/changes").status_code == 200
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_without_its_token_nothing_is_told(run: Path) -> None:
    base = "http://elsewhere.example:8765"
    for path in ("/", "/changes", "/?token=wrong", "/?token=", "/changes?token=secre"):
        answer = client(run, token="secret", base=base).get(path)
        assert answer.status_code == 401 and "burnish view" in answer.text
    bad = [{"authorization": "Bearer wrong"}, {"cookie": "burnish-token=wrong"}, {"authorization": "Bearer ü"}]
    for headers in bad:
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        assert client(run, token="secret", base=base).get("/changes", headers=encoded).status_code == 401
    good = client(run, token="secret", base=base)
    assert good.get("/changes", headers={"authorization": "Bearer secret"}).status_code == 200
    answer = good.get("/?token=secret")
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert good.get("/").status_code == 200  # the cookie is enough


def test_another_site_cannot_have_a_browser_read_it_under_its_own_name(run: Path) -> None:
    for host in ("attacker.example", "127.0.0.1.attacker.example", "0.0.0.0", "192.168.0.7"):
        answer = client(run).get("/changes", headers={"host": f"{host}:8765"})
        assert answer.status_code == 400 and "cursor" not in answer.text
    for host in ("127.0.0.1:8765", "localhost:1", "[::1]:8765"):
        assert client(run).get("/changes", headers={"host": host}).status_code == 200


def test_a_host_that_others_reach_gets_a_token(run: Path) -> None:
    with view_run(run, host="0.0.0.0", port=0) as page:
        assert page.token is not None and len(page.token) >= 32 and page.url.endswith(f"/?token={page.token}")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(page.url.split("?")[0], timeout=20)
        request = urllib.request.Request(page.url.split("?")[0], headers={"Authorization": f"Bearer {page.token}"})
        assert b"<title>grpo" in urllib.request.urlopen(request, timeout=20).read()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(request, timeout=5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"token": " "}, "token: give letters and digits"),
        ({"port": 70000}, "port: given 70000"),
        ({"sample": -1}, "sample: given -1"),
    ],
)
def test_wrong_arguments_are_named(run: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        view_run(run, **{"port": 0, **given})


def test_what_is_no_run_and_a_port_that_is_taken_are_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run directory"):
        view_run(tmp_path, port=0)
    with view_run(run, port=0) as page:
        assert isinstance(page, LivePage) and page.token is None
        with pytest.raises(InputError, match=rf"127\.0\.0\.1:{page.port} cannot be listened on .*another port"):
            view_run(run, port=page.port)


# ---------------------------------------------------------------- what is new


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def following(run: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Following:
    monkeypatch.setattr("burnish.view.live.following.SHARE", 1e9)  # renewals wait for the clock alone
    return Following(run, clock=clock)


def ask(following: Following, after: dict[str, Any]) -> dict[str, Any]:
    return following.changes(after["cursor"], after["sections"], after["stored"])


def append(run: Path, *records: dict[str, Any]) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def test_an_answer_holds_what_was_appended_and_nothing_else(run: Path, following: Following) -> None:
    first = ask(following, {"cursor": "", "sections": -1, "stored": -1})
    assert len(first["reset"]["loss"]["x"]) == 10 and first["html"]["head"] and first["samples"]["rollouts"]
    assert first["state"] == "live, step 10" and not first["finished"]
    quiet = ask(following, first)
    assert quiet["steps"] == [] and not {"reset", "html", "samples", "heat"} & set(quiet)
    append(run, {"step": 11, "loss": 0.5}, {"step": 12, "loss": None, "kl": 0.125, "note": "text", "ok": True})
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 13, "lo')  # half a line
    news = ask(following, quiet)
    assert news["steps"] == [11, 12] and news["metrics"] == {"loss": [0.5, None], "kl": [None, 0.125]}
    with (run / "metrics.jsonl").open("a") as file:
        file.write('ss": 0.25}\n')
    assert ask(following, news)["metrics"] == {"loss": [0.25]}


def test_a_look_reads_what_was_appended_and_not_the_file(
    run: Path, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = ask(following, {"cursor": "", "sections": -1, "stored": -1})
    append(run, {"step": 11, "loss": 0.5})
    sizes: list[int] = []
    opened = Path.open

    class Counted:
        def __init__(self, file: Any) -> None:
            self.file = file

        def read(self, *size: int) -> bytes:
            found = self.file.read(*size)
            sizes.append(len(found))
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

    monkeypatch.setattr(Path, "open", lambda self, *given, **named: Counted(opened(self, *given, **named)))
    assert ask(following, last)["steps"] == [11]
    assert sum(sizes) <= 256 + len('{"step": 11, "loss": 0.5}\n') < (run / "metrics.jsonl").stat().st_size / 4
    assert ask(following, {**last, "cursor": "0.11"})["steps"] == [] and sum(sizes) <= 2 * 256 + 30


def test_repeated_steps_and_a_file_that_was_cut_give_whole_curves_again(run: Path, following: Following) -> None:
    last = ask(following, {"cursor": "", "sections": -1, "stored": -1})
    append(run, {"step": 9, "loss": 7.0})  # a resumed run goes on from step 8
    news = ask(following, last)
    assert news["reset"]["loss"]["x"] == list(range(1, 10)) and news["reset"]["loss"]["y"][-1] == 7.0
    append(run, *({"step": step, "loss": 3.0} for step in range(8, 13)))  # and again, further than the page had seen
    news = ask(following, news)
    assert news["reset"]["loss"]["x"] == list(range(1, 13)) and news["reset"]["loss"]["y"][7:] == [3.0] * 5
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text(
        "".join(lines[:3] + [json.dumps({"step": s, "loss": 1.0}) + "\n" for s in range(4, 20)])
    )
    again = ask(following, news)
    assert again["reset"]["loss"]["x"] == list(range(1, 20)) and again["reset"]["loss"]["y"][5] == 1.0


def test_a_corrupted_line_is_told_and_the_page_stays(run: Path, following: Following) -> None:
    last = ask(following, {"cursor": "", "sections": -1, "stored": -1})
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 11, "loss"\n{"step": 12, "loss": 1.0}\n')
    news = ask(following, last)
    assert "metrics.jsonl, line 11: not a record with a step" in news["error"] and news["steps"] == []
    assert "line 11" in TestClient(application(following), base_url=LOCAL).get("/").text
    (run / "evaluations" / "broken.json").write_text("{}")
    assert "broken.json: not an evaluation" in ask(following, news)["error"]


def test_tables_and_rollouts_follow_their_files(run: Path, following: Following, clock: Clock) -> None:
    last = ask(following, {"cursor": "", "sections": -1, "stored": -1})
    evaluation("late", 10, ["42"] * 8, [True] * 8).save(run / "evaluations" / "late.json")
    news = ask(following, last)
    assert "<th>late" in news["html"]["evaluations"] and "samples" not in news
    write_groups(run / "traces" / "step-000060.parquet", groups())
    assert "samples" not in ask(following, news)  # not more often than every few seconds
    clock.now += 11
    later = ask(following, news)
    assert {r["step"] for r in later["samples"]["rollouts"]} == {51, 60} and len(later["heat"]["columns"]) == 2
    append(run, {"step": 11, "reward": 0.99})
    assert "html" in ask(following, later)
    append(run, {"step": 12, "reward": 0.99})
    quiet = ask(following, {**later, "sections": later["sections"] + 1})
    clock.now += 11
    told = ask(following, quiet)
    assert "html" not in quiet and "12" in told["html"]["head"]  # the tiles follow the metrics, but not at every look
    (run / "summary.json").write_text('{"seconds": 3.0}')
    done = ask(following, told)
    assert done["finished"] and done["state"] == "finished, step 12" and done["every"] > told["every"]
    assert "samples" not in done and "steps" in done


def test_what_is_slow_to_renew_is_renewed_less_often(
    run: Path, clock: Clock, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = ask(following, {"cursor": "", "sections": -1, "stored": -1})
    monkeypatch.setattr("burnish.view.live.following.SHARE", 1e-9)
    for number, renewed in ((60, True), (61, False)):
        clock.now += 11
        write_groups(run / "traces" / f"step-{number:06d}.parquet", groups())
        last = ask(following, last)
        assert ("samples" in last) is renewed


def test_a_question_that_makes_no_sense_is_answered_as_one(run: Path) -> None:
    asked = client(run)
    assert asked.get("/changes?sections=x").status_code == 400
    for cursor in ("", "x", "0.", "0.-1", "0.999999999", "7.3", "²"):
        assert "reset" in asked.get("/changes", params={"cursor": cursor}).json() or cursor in ("0.", "0.-1")
